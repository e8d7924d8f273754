"""Parameters of notebook 01."""

from typing import Literal

from dr_lib.parameters import Count, Parameters, PathText, Side


class Prepare(Parameters):
    """Parameters of notebook 01."""

    images: PathText
    labels: PathText
    sheet: str
    columns: str
    out: PathText
    private: PathText
    size: Side
    scheme: Literal["random", "paper", "official"]
    method: Literal["robust", "voets"]
    num_shown: Count
