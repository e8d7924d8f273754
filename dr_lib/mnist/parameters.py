"""Parameters of notebook 40."""

from typing import Literal

from pydantic import Field

from dr_lib.parameters import Epochs, Images, RunParameters, Share


class TrainMnist(RunParameters):
    """Parameters of notebook 40."""

    implementation: str
    device: Literal["auto", "gpu", "cpu"]
    mnist: Images
    data_share: Share
    epochs: Epochs
    instance: str = Field(exclude=True)
