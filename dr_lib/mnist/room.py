"""What the room mnist adds."""

from dr_lib.parameters import Parameter
from dr_lib.rooms import Paper, Room

ROOM = Room(
    "A network in CUDA C",
    own=("notebooks/4?_*", "papermill_runs/mnist_*.yaml"),
    parameters={
        "implementation": Parameter("may differ"),
        "device": Parameter("may differ", choices=("auto", "gpu", "cpu")),
        "mnist": Parameter("may differ", words=("keras", "synthetic")),
        "replicas": Parameter("work", column="replicas_asked"),
    },
    papers={
        "D": Paper(
            "De Felice Lima and Zola",
            ("40_mnist_cuda",),
            ("mnist_cuda",),
            "41_cuda_vs_keras",
            may_differ=(
                "framework",
                "implementation",
                "batch_size",
                "learning_rate",
                "backend",
            ),
            derive="dr_lib.mnist.epochs:add_accuracy_columns",
        )
    },
)
