"""What the room serving adds."""

from dr_lib.parameters import Parameter
from dr_lib.rooms import Paper, Room

ROOM = Room(
    "An endpoint and its price",
    own=(
        "notebooks/2?_*",
        "papermill_runs/exports.yaml",
        "papermill_runs/serving*.yaml",
        "docs/serving.md",
        "docs/api.md",
        "docs/operation.md",
        "tools/bench_server.py",
        "tools/container.py",
        "make:container",
        "extra:sagemaker",
    ),
    commands=("export", "predict", "serve", "load", "price"),
    parameters={
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
    },
    papers={
        "B": Paper(
            "Camargo et al.",
            ("21_export_quantize", "22_serve_and_load"),
            ("exports", "serving_sagemaker"),
            "23_serving_cost",
            select="dr_lib.serving.request_log:select_requests",
        )
    },
)
