"""Parameters of notebooks 30 and 31."""

from typing import Literal

from pydantic import Field

from dr_lib.parameters import (
    Amount,
    BatchSize,
    Count,
    Epochs,
    Images,
    LearningRate,
    Portion,
    RunParameters,
    Share,
    Side,
)
from dr_lib.report.parameters import Analysis


class TrainScenario(RunParameters):
    """Parameters of notebook 30."""

    framework: Literal["tensorflow", "pytorch", "mxnet", "keras_jax", "keras_torch"]
    dataset: Literal["mnist", "cifar10"]
    image_size: Side
    network: int = Field(ge=1, le=2)
    accelerator: Literal["auto", "cpu", "gpu"] = Field(serialization_alias="accelerator_asked")
    data_source: Images
    data_share: Share
    batch_size: BatchSize
    epochs: Epochs
    learning_rate: LearningRate
    evaluate_every: Count
    threads: Count = Field(serialization_alias="threads_asked")
    sample_s: float = Field(gt=0.05, le=10)
    instance: str = Field(exclude=True)


class Effects(Analysis):
    """Parameters of notebook 31."""

    instance: str
    bill_usd: Amount
    g_per_kwh: Amount
    accuracy: Portion
