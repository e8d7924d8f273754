"""What the room scenarios adds."""

from dr_lib.rooms import Paper, Room

FACTORS = ("framework", "dataset", "image_size", "network")

ROOM = Room(
    "Other frameworks",
    own=("notebooks/3?_*", "papermill_runs/scenarios_*.yaml", "papermill_runs/backends.yaml"),
    commands=("kernels",),
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
            add_bills="dr_lib.rooms.scenarios.costs:add_bills",
        )
    },
)
