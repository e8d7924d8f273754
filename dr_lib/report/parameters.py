"""Parameters of the notebooks that analyse rows."""

from typing import Literal

from dr_lib.parameters import Amount, Parameters, PathText


class Page(Parameters):
    """What every report has."""

    lang: Literal["en", "pt"]
    out: PathText


class Analysis(Page):
    """Parameters of notebook 41, which the other analyses have, too."""

    runs: PathText
    pool: str
    only: str
    exclude: str
    published: bool


class CompareMachines(Analysis):
    """Parameters of notebook 11."""

    g_per_kwh: Amount
