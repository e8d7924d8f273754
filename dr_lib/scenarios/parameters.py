"""Parameters of notebooks 30 and 31."""

from dr_lib.parameters import Parameter

PARAMETERS = {
    "framework": Parameter(
        "work", choices=("tensorflow", "pytorch", "mxnet", "keras_jax", "keras_torch")
    ),
    "dataset": Parameter("work", choices=("mnist", "cifar10")),
    "network": Parameter("work", least=1, most=2),
    "accelerator": Parameter(
        "may differ", choices=("auto", "cpu", "gpu"), column="accelerator_asked"
    ),
    "data_source": Parameter("may differ", words=("keras", "synthetic")),
    "threads": Parameter("work", older=0, column="threads_asked"),
    "evaluate_every": Parameter("work"),
    "sample_s": Parameter("may differ", above=0, most=3600),
}
