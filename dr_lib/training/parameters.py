"""Parameters of notebooks 00 and 10."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from dr_lib.parameters import (
    BatchSize,
    Count,
    DataDir,
    Epochs,
    Input,
    LearningRate,
    ParameterError,
    Parameters,
    PathText,
    RunParameters,
    Side,
)


class StartHere(Parameters):
    """Parameters of notebook 00."""

    image_size: Side
    seed: Count


def check_small_cnn(image_size: int, weights: str | None) -> None:
    """Refuse what the small network does not have.

    Raises:
        ParameterError: weights, or a side that is too small.
    """
    if weights == "imagenet":
        fault = "small_cnn has no ImageNet weights: use weights none, or mobilenet"
        raise ParameterError(fault, "weights")
    if image_size < 32:
        fault = f"image_size {image_size}: small_cnn needs 32 px or more"
        raise ParameterError(fault, "image_size")


class Train(RunParameters):
    """Parameters of notebook 10."""

    data_dir: DataDir
    split: PathText = "split.csv"
    task: Literal["referable", "grades"] = "referable"
    mode: Literal["paper", "plain", "fast"] = "paper"
    model: str = "small_cnn"
    weights: Annotated[PathText, Input(("none", "imagenet"))] = "none"
    image_size: Side = 96
    batch_size: BatchSize = 8
    batch_size_of: Literal["step", "replica"] = "step"
    epochs: Epochs = 20
    optimizer: Literal["rmsprop", "rmsprop_voets", "adam"] = "adam"
    learning_rate: LearningRate = 0.001
    patience: Count = 0
    augmentation: Literal["none", "flip", "colour"] = "flip"
    recipe: Literal["full", "few"] = "full"
    accelerator: Literal["auto", "cpu", "gpu", "tpu"] = "auto"
    backend: Literal["auto", "tensorflow", "jax"] = "auto"
    num_devices: Count = 0
    batch_norm: Literal["auto", "local", "global"] = Field(
        "auto", serialization_alias="batch_norm_requested"
    )
    matmul_precision: Literal["default", "float32", "tf32", "bfloat16", "bfloat16_3x"] = Field(
        "default", serialization_alias="matmul_precision_requested"
    )
    label: str = ""

    @model_validator(mode="after")
    def _check_together(self) -> Self:
        """Refuse values that exclude each other, or would be ignored silently."""
        if self.model.lower() == "small_cnn":
            check_small_cnn(self.image_size, self.weights)
        is_few = self.recipe == "few"
        refusals = [
            (
                is_few and self.augmentation != "flip",
                "augmentation",
                "recipe few learns from each photograph and its mirror image, which is"
                f" not augmentation {self.augmentation}: leave it out",
            ),
            (
                self.mode == "plain" and is_few,
                "mode",
                "plain trains a whole network: use recipe full, or mode paper",
            ),
            (
                is_few and self.weights == "none",
                "recipe",
                "few keeps blocks as their weights are, and weights none are random:"
                " give imagenet or the path of a weights file",
            ),
        ]
        for applies, name, words in refusals:
            if applies:
                raise ParameterError(f"{name}: {words}", name)
        return self
