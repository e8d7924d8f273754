"""The configuration of one training run: the parameters of notebook 10, by the same names."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, NamedTuple, Self

from dr_lib.hardware import Facts, Plan, Request, choose
from dr_lib.parameters import REQUESTED, check_together, read_value

BATCH_SCALE = 4  # of mode scaled: times the batch
WARMUP_EPOCHS = 5  # of mode scaled: first epochs, in which the learning rate rises to its value


class Recipe(NamedTuple):
    """Which part of a network is trained, and how its head is initialised; columns of the row."""

    last_layer: str = ""  # layer of the base at which the network ends
    last_frozen: str = ""  # last layer of the base to freeze, its outputs are cached
    probe_grades: bool = False  # start the head from a regression of the grade
    dropout: float = 0.0  # share of the pooled features dropped in training
    # average the final predictions with those of the mirror images
    test_time_augmentation: bool = False


RECIPES = {  # few and upper have MobileNet's layers
    "full": Recipe(),
    "few": Recipe(
        "conv_pw_7_relu", "conv_pw_7_relu", probe_grades=True, test_time_augmentation=True
    ),
    "upper": Recipe(last_frozen="conv_pw_11_relu", dropout=0.3, test_time_augmentation=True),
}


class Schedule(NamedTuple):
    """Batch size and learning rate as a mode sets them; columns of the row."""

    batch_size: int  # images per step, over all replicas
    batch_scale: int  # how many times the batch asked for
    learning_rate: float  # at its highest
    warmup_epochs: int  # first epochs, in which the learning rate rises evenly to that


def parameter(default: Any, *, rows: str) -> Any:
    """Define a field of `TrainingConfig`.

    Args:
        default: its value.
        rows: whether rows that differ in it may be pooled: no (it is part of what a run did), plan
            (no, within one environment), or why they may.
    """
    return field(default=default, metadata={"rows": rows})


@dataclass(frozen=True)
class TrainingConfig:
    """One training run: its data, model, optimisation and machine.

    Values are checked against `dr_lib.parameters`, where the choices stand.

    Example:
        >>> config = TrainingConfig("data/prepared", epochs=3, accelerator="cpu")
        >>> config.plan(probe(), num_images=400).accelerator
        'cpu'
    """

    # folder that notebook 01 prepared
    data_dir: str | Path = field(metadata={"rows": "data_sha256 says which"})
    # split table of that folder, or the path of one elsewhere
    split: str = parameter("split.csv", rows="split_sha256 says which")
    task: str = parameter("referable", rows="no")  # one probability, or five of grades
    mode: str = parameter("paper", rows="no")
    model: str = parameter("small_cnn", rows="no")  # see `build_model` and `build_grader`
    weights: str = parameter("none", rows="no")  # none, imagenet or the path of a file
    image_size: int = parameter(96, rows="no")  # side of the square input [px]
    # images per step, over all replicas; mode scaled multiplies it
    batch_size: int = parameter(8, rows="no")
    epochs: int = parameter(20, rows="no")  # passes over the training set
    optimizer: str = parameter("adam", rows="no")
    learning_rate: float = parameter(0.001, rows="no")  # at the start
    # halve the learning rate after five epochs without a lower loss
    halve_on_plateau: bool = parameter(True, rows="no")
    rho: float = parameter(0.9, rows="no")  # share of the mean square that a step keeps
    epsilon: float = parameter(1e-7, rows="no")  # of the optimizer's denominator
    # epochs without a better validation AUC that end the training, 0 for none
    patience: int = parameter(0, rows="no")
    min_delta: float = parameter(0.0, rows="no")  # least rise of that AUC that counts
    augmentation: str = parameter("flip", rows="no")
    recipe: str = parameter("full", rows="its columns say what it does")
    # let each grade count the same in the loss, however rare it is
    weigh_grades: bool = parameter(False, rows="no")
    # without a validation split, keep the epoch of the best AUC in training, else the last
    keep_best: bool = parameter(False, rows="no")
    # validation AUC whose time is taken, 0 for none; the training does not end there
    target_auc: float = parameter(0.0, rows="of a measure of its own")
    accelerator: str = parameter("auto", rows="of the environment")  # these: see `Request`
    backend: str = parameter("auto", rows="plan")
    num_devices: int = parameter(0, rows="num_replicas says how many")
    num_machines: int = parameter(1, rows="of the environment")
    input: str = parameter("auto", rows="plan")
    matmul_precision: str = parameter("default", rows="plan")
    seed: int = parameter(20, rows="of the study")
    repetition: int = parameter(0, rows="repeats")  # index of the training, added to the seed

    def __post_init__(self):
        """Refuse impossible values, and values that would be ignored silently."""
        for each in fields(self):
            value = getattr(self, each.name)
            value = read_value(each.name, getattr(each.type, "__name__", ""), value)
            object.__setattr__(self, each.name, value)
        check_together(asdict(self))

    @classmethod
    def from_parameters(cls, parameters: Mapping[str, Any]) -> Self:
        """Build a configuration from a notebook's parameters in its `globals()`."""
        names = {field.name for field in fields(cls)} & parameters.keys()
        return cls(**{name: parameters[name] for name in names})

    def describe(self) -> dict[str, Any]:
        """Return all parameters that define the work, for a row; no folder of this machine is
        named.
        """
        return {
            **{REQUESTED.get(name, name): value for name, value in asdict(self).items()},
            **self.parts._asdict(),
            "data_dir": Path(self.data_dir).name,
            "weights": Path(self.weights).name,
            "split": Path(self.split).name,
        }

    @property
    def parts(self) -> Recipe:
        """The part of the network that the recipe trains."""
        return RECIPES[self.recipe]

    @property
    def run_seed(self) -> int:
        """The seed of this run."""
        return self.seed + self.repetition

    @property
    def schedule(self) -> Schedule:
        """Batch size and learning rate as the mode sets them.

        The rate grows with the square root of the batch, the rule for optimisers that divide by a
        running mean of squared gradients (Malladi et al. 2022), and rises to that over the first
        epochs (Goyal et al. 2017).
        """
        if self.mode != "scaled":
            return Schedule(self.batch_size, 1, self.learning_rate, 0)
        return Schedule(
            batch_size=self.batch_size * BATCH_SCALE,
            batch_scale=BATCH_SCALE,
            learning_rate=self.learning_rate * BATCH_SCALE**0.5,
            warmup_epochs=WARMUP_EPOCHS,
        )

    def plan(self, facts: Facts, num_images: int) -> Plan:
        """Choose how to train on a machine, given the number of images on all sides."""
        request = Request(
            accelerator=self.accelerator,
            backend=self.backend,
            num_devices=self.num_devices,
            num_machines=self.num_machines,
            mode=self.mode,
            batch_size=self.schedule.batch_size,
            input=self.input,
            matmul_precision=self.matmul_precision,
            data_gib=num_images * 3 * self.image_size**2 / 2**30,
            may_keep=self.recipe == "full",  # cached outputs of frozen layers stay on the host
        )
        return choose(facts, request)
