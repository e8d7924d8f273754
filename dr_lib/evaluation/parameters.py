"""Parameters of notebook 12."""

from typing import Self

from pydantic import model_validator

from dr_lib.parameters import Count, ParameterError, PathText, Portion
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

    @model_validator(mode="after")
    def _check_together(self) -> Self:
        """Refuse what would be ignored in silence."""
        if self.folds and self.ensemble:
            raise ParameterError("ensemble: folds are of one model: leave out one", "ensemble")
        return self
