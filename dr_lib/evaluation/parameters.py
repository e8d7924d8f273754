"""Parameters of notebook 12."""

from dr_lib.parameters import Count, PathText, Portion
from dr_lib.report.parameters import Page


class Evaluate(Page):
    """Parameters of notebook 12."""

    predictions: PathText
    ensemble: bool
    folds: bool
    sheet: str
    columns: str
    sensitivity: Portion
    specificity: Portion
    thresholds: str
    subgroups: str
    num_errors: Count
    private: PathText
