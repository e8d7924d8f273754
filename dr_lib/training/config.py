"""The configuration of one training run: the parameters of notebook 10, by the same names."""

from dataclasses import fields
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Self

from pydantic import model_validator

from dr_lib.files import hash_file
from dr_lib.hardware import Facts, Plan, Request, choose
from dr_lib.parameters import ParameterError
from dr_lib.training.parameters import Train

NUM_FOLDS = 5  # of the training patients, in which recipe few chooses its penalty


class TrainingConfig(Train):
    """One training run: its data, model, optimisation and machine.

    Notebook 10 declares and explains the parameters.

    Example:
        >>> config = TrainingConfig(data_dir="data/prepared", epochs=3, accelerator="cpu")
        >>> config.plan(probe(), num_images=400).accelerator
        'cpu'
    """

    @model_validator(mode="after")
    def _check_model(self) -> Self:
        """Refuse an own network whose module is not there."""
        self.model_code_sha256  # noqa: B018
        return self

    def describe(self) -> dict[str, Any]:
        """Return all parameters that define the work, for a row; no folder of this machine is
        named.
        """
        return {
            **super().describe(),
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
            fault = f"model {self.model!r}: there is no module {module}"
            raise ParameterError(fault, "model") from error

    @property
    def run_seed(self) -> int:
        """The seed of this run."""
        return self.seed + self.repetition

    def plan(self, facts: Facts, num_images: int) -> Plan:
        """Choose how to train on a machine, given the number of images on all sides."""
        shared = {field.name for field in fields(Request)}
        request = Request(
            **self.model_dump(include=shared),
            data_gib=num_images * 3 * self.image_size**2 / 2**30,
            may_keep=self.recipe == "full",  # cached outputs of frozen layers stay on the host
        )
        return choose(facts, request)
