"""What one training is asked for: the parameters of notebooks 10 and 20, by the same names."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, NamedTuple, Self

from dr_lib.hardware import Facts, Plan, choose
from dr_lib.parameters import check_value

OF_THE_OTHER_TASK = {  # parameters
    "referable": ("weigh_grades",),
    "grades": ("dropout", "last_layer", "last_frozen", "probe_grades", "weigh_classes"),
}


class Schedule(NamedTuple):
    """What a mode makes of batch and learning rate; columns of the row."""

    batch_size: int  # images per step, over all replicas
    batch_scale: int  # how many times the batch asked for
    learning_rate: float  # at its highest
    warmup_epochs: int  # first epochs, in which the learning rate rises evenly to that


@dataclass(frozen=True)
class TrainingConfig:
    """One training: the data, the model, the way of learning and the machine to do it on."""

    data_dir: str | Path  # folder that notebook 01 prepared
    split: str = "split.csv"  # split table of that folder, or the path of one elsewhere
    task: str = "referable"  # referable (one probability) or grades (five)
    mode: str = "paper"  # paper, fast or scaled
    model: str = "small_cnn"  # see `build_model` and `build_grader`
    weights: str = "none"  # none, imagenet or the path of a weights file without the top
    image_size: int = 96  # side of the square input [px]
    batch_size: int = 8  # images per step, over all replicas; mode scaled multiplies it
    # mode scaled, times the batch, and by its square root times the learning rate
    batch_scale: int = 8
    warmup_epochs: int = 5  # mode scaled, epochs in which the learning rate rises to its value
    epochs: int = 20  # passes over the training set
    optimizer: str = "adam"  # rmsprop (Voets et al. 2019) or adam
    learning_rate: float = 0.001  # at the start, halved on plateaus
    augmentation: str = "flip"  # none, flip or colour
    dropout: float = 0.0  # share of the pooled features dropped in training; task referable
    last_layer: str = ""  # layer of the base at which the network ends; task referable
    # last layer of the base to freeze, its outputs are cached; task referable
    last_frozen: str = ""
    probe_grades: bool = False  # start the head from a regression of the grade; with last_frozen
    # let referable and other photographs count the same in the loss; task referable
    weigh_classes: bool = False
    # let each grade count the same in the loss, however rare it is; task grades
    weigh_grades: bool = False
    # of the moving average of the weights, which is what is kept; 0 for none
    ema_momentum: float = 0.0
    # without a validation split, keep the epoch of the best AUC in training, else the last
    keep_best: bool = False
    # average the final predictions with those of the mirror images
    test_time_augmentation: bool = False
    accelerator: str = "auto"  # this and what follows: see `hardware.choose`
    backend: str = "auto"
    strategy: str = "auto"
    num_devices: int = 0
    num_machines: int = 1
    precision: str = "auto"
    steps_per_execution: int = 0
    input: str = "auto"
    tensorboard: bool = False  # write logs for TensorBoard (needs TensorFlow)
    seed: int = 20  # of the study
    repetition: int = 0  # index of the training, added to the seed

    def __post_init__(self):
        """Refuse what cannot be, and what would be ignored in silence."""
        for field in fields(self):
            check_value(field.name, getattr(field.type, "__name__", ""), getattr(self, field.name))
        if self.task not in OF_THE_OTHER_TASK:
            raise ValueError(f"task {self.task!r}: choose from {', '.join(OF_THE_OTHER_TASK)}")
        ignored = [name for name in OF_THE_OTHER_TASK[self.task] if getattr(self, name)]
        if ignored:
            raise ValueError(f"{' and '.join(ignored)}: not of the task {self.task}, leave out")
        if self.probe_grades and not self.last_frozen:
            raise ValueError(
                "probe_grades starts the head on frozen features: name last_frozen, or leave it out"
            )
        if self.last_frozen and self.num_machines > 1:
            raise ValueError(
                "last_frozen caches features on one machine: leave it out, or take num_machines 1"
            )
        if not 0 <= self.ema_momentum < 1:
            raise ValueError(
                f"ema_momentum {self.ema_momentum!r}: give 0, for none, or less than 1, such as"
                " 0.99"
            )

    @classmethod
    def from_parameters(cls, parameters: Mapping[str, Any], **others: Any) -> Self:
        """Take the fields that a notebook has as parameters, from its `globals()`; `others`
        stand in no parameter.
        """
        names = {field.name for field in fields(cls)} & parameters.keys()
        return cls(**{name: parameters[name] for name in names} | others)

    def describe(self) -> dict[str, Any]:
        """All parameters that say what is to be done, for a row: no folder of this machine is
        named.
        """
        names = {"data_dir": Path(self.data_dir).name, "weights": Path(self.weights).name}
        names["split"] = Path(self.split).name
        return {
            name: value for name, value in (asdict(self) | names).items() if name != "tensorboard"
        }

    @property
    def run_seed(self) -> int:
        """The seed of this training."""
        return self.seed + self.repetition

    @property
    def schedule(self) -> Schedule:
        """Batch and learning rate as the mode has them.

        The rate grows with the square root of the batch, the rule for optimisers that divide by a
        running mean of squared gradients (Malladi et al. 2022), and rises to that over the first
        epochs (Goyal et al. 2017).
        """
        if self.mode != "scaled":
            return Schedule(self.batch_size, 1, self.learning_rate, 0)
        rate = self.learning_rate * self.batch_scale**0.5
        return Schedule(
            self.batch_size * self.batch_scale, self.batch_scale, rate, self.warmup_epochs
        )

    def plan(self, facts: Facts, num_images: int) -> Plan:
        """Choose how to train on a machine with so many images, of all sides; see
        `hardware.choose`.
        """
        names = (
            "accelerator",
            "backend",
            "strategy",
            "num_devices",
            "num_machines",
            "mode",
            "precision",
            "input",
        )
        asked = {name: getattr(self, name) for name in (*names, "steps_per_execution")}
        asked |= {
            "batch_size": self.schedule.batch_size,
            "data_gib": num_images * 3 * self.image_size**2 / 2**30,
        }
        # cached outputs of frozen layers stay on the host
        return choose(facts, **asked, may_keep=not self.last_frozen)
