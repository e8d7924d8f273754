"""The configuration of one training run: the parameters of notebook 10, by the same names."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Self

from dr_lib.errors import DrError
from dr_lib.files import hash_file
from dr_lib.hardware import Facts, Plan, Request, choose
from dr_lib.parameters import check_together, describe, read_value

NUM_FOLDS = 5  # of the training patients, in which recipe few chooses its penalty


@dataclass(frozen=True)
class TrainingConfig:
    """One training run: its data, model, optimisation and machine.

    Notebook 10 declares and explains the parameters; `dr_lib.parameters` has their limits.

    Example:
        >>> config = TrainingConfig("data/prepared", epochs=3, accelerator="cpu")
        >>> config.plan(probe(), num_images=400).accelerator
        'cpu'
    """

    data_dir: str | Path
    split: str = "split.csv"
    task: str = "referable"
    mode: str = "paper"
    model: str = "small_cnn"
    weights: str = "none"
    image_size: int = 96
    batch_size: int = 8
    epochs: int = 20
    optimizer: str = "adam"
    learning_rate: float = 0.001
    halve_on_plateau: bool = True
    rho: float = 0.9
    epsilon: float = 1e-7
    patience: int = 0
    min_delta: float = 0.0
    augmentation: str = "flip"
    recipe: str = "full"
    weigh_grades: bool = False
    keep_best: bool = False
    accelerator: str = "auto"
    backend: str = "auto"
    num_devices: int = 0
    input: str = "auto"
    matmul_precision: str = "default"
    seed: int = 20
    repetition: int = 0
    label: str = ""

    def __post_init__(self):
        """Refuse impossible values, and values that would be ignored silently."""
        for each in fields(self):
            value = getattr(self, each.name)
            value = read_value(each.name, getattr(each.type, "__name__", ""), value)
            object.__setattr__(self, each.name, value)
        check_together(asdict(self))
        self.model_code_sha256  # noqa: B018  the module of an own network has to be there

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
            **describe(asdict(self)),
            "model_code_sha256": self.model_code_sha256,
            "test_time_augmentation": self.test_time_augmentation,
        }

    @property
    def test_time_augmentation(self) -> bool:
        """Whether predictions are averaged with those of the mirror images.

        A model of grades is served, which averages none: neither do its scores.
        """
        return self.recipe == "few" and self.task == "referable"

    @property
    def model_code_sha256(self) -> str:
        """The hash of the file with a network of one's own; empty for others."""
        module, _, function = self.model.partition(":")
        if not function:
            return ""
        try:
            return hash_file(Path(find_spec(module).origin))
        except (ImportError, AttributeError, TypeError) as error:
            raise DrError(f"model {self.model!r}: there is no module {module}") from error

    @property
    def run_seed(self) -> int:
        """The seed of this run."""
        return self.seed + self.repetition

    def plan(self, facts: Facts, num_images: int) -> Plan:
        """Choose how to train on a machine, given the number of images on all sides."""
        request = Request(
            accelerator=self.accelerator,
            backend=self.backend,
            num_devices=self.num_devices,
            mode=self.mode,
            batch_size=self.batch_size,
            input=self.input,
            matmul_precision=self.matmul_precision,
            data_gib=num_images * 3 * self.image_size**2 / 2**30,
            may_keep=self.recipe == "full",  # cached outputs of frozen layers stay on the host
        )
        return choose(facts, request)
