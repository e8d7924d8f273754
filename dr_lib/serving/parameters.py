"""Parameters of notebooks 21 to 23."""

from dr_lib.parameters import Parameter

PARAMETERS = {
    "margin": Parameter("may differ", most=1),
    "force": Parameter("may differ"),
    "num_rounds": Parameter("may differ"),
    "num_threads": Parameter("work", older=1),
    "served_dir": Parameter("may differ", words=("",)),  # model_version
    "format": Parameter(
        "work", choices=("litert_float32", "litert_float16", "litert_int8", "savedmodel")
    ),
    "photographs": Parameter("may differ", is_path=True),
    "url": Parameter(""),  # endpoint says whether it is here
    "threads": Parameter("level"),
    "num_requests": Parameter("may differ", least=1, most=1_000_000),
    "gap_s": Parameter("level", most=3600),
    "bound_ms": Parameter("may differ", above=0, most=3_600_000),
    "load_seconds": Parameter("may differ", most=86_400),
    "num_compared": Parameter("may differ"),
}
