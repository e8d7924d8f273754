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

    level: str  # a factor
    pause_s: Amount  # how long the run takes [s]
    fail_at: Count  # the repetition that fails
    fails: Count  # how often it fails
    trouble: str  # what goes wrong
    pace: Literal["even", "fast", "slow"]  # of nothing
    data_dir: DataDir
    split: PathText
    weights: Annotated[PathText, Input(("none",))]
    needs_s: Amount  # the run saves and stops, once, if less time is left to it [s]


class QuickTraining(Quick):
    """The same under the name of notebook 10, with what a plan is made of."""

    accelerator: Literal["auto", "cpu", "gpu", "tpu"]
