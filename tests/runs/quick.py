"""The parameters of the notebook `quick` of a house; whoever imports this knows them."""

from typing import Annotated, Literal

from dr_lib.parameters import (
    NOTEBOOKS,
    Amount,
    Count,
    DataDir,
    Input,
    PathText,
    RunParameters,
)

NOTEBOOKS["quick"] = f"{__name__}:Quick"


class Quick(RunParameters):
    """As the notebook's cell declares them."""

    level: str
    pause_s: Amount
    fail_at: Count
    fails: Count
    trouble: str
    pace: Literal["even", "fast", "slow"]
    data_dir: DataDir
    split: PathText
    weights: Annotated[PathText, Input(("none",))]
    needs_s: Amount


class QuickTraining(Quick):
    """The same under the name of notebook 10, with what a plan is made of."""

    accelerator: Literal["auto", "cpu", "gpu", "tpu"]
