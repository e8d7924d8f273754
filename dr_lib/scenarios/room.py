"""What the room scenarios adds."""

from dr_lib.parameters import Parameter
from dr_lib.rooms import Paper, Room

FACTORS = ("framework", "dataset", "image_size", "network")

ROOM = Room(
    "Other frameworks",
    own=("notebooks/3?_*", "papermill_runs/scenarios_*.yaml", "papermill_runs/backends.yaml"),
    commands=("kernels",),
    parameters={
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
    },
    papers={
        "C": Paper(
            "Moura Filho and Sousa",
            ("30_train_scenario",),
            ("scenarios_cpu", "scenarios_gpu"),
            "31_factor_effects",
            may_differ=(*FACTORS, "backend"),
            design=FACTORS,
            versions={  # source C
                "tensorflow": "2.14.0",
                "torch": "2.2.0",
                "mxnet": "1.9.1",
                "python": "3.9",
                "cuda": "11.7",
            },
            add_bills="dr_lib.scenarios.costs:add_bills",
        )
    },
)
