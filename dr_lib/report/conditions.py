"""Choose rows by conditions on their columns."""

from fnmatch import fnmatchcase
from typing import NamedTuple

import numpy as np
import pandas as pd

from dr_lib.report.groups import write_level


class Condition(NamedTuple):
    """A condition on a column of a row: it matches one of some patterns, or none of them."""

    column: str
    patterns: tuple[str, ...]  # * stands for any text
    is_met: bool = True  # false where it may be none of them

    def __str__(self) -> str:
        """Write the condition as a verdict's reason names it, such as accelerator=TPU*."""
        return f"{self.column}={'' if self.is_met else '!'}{'|'.join(self.patterns)}"

    def test(self, rows: pd.DataFrame) -> np.ndarray:
        """Whether each row meets the condition; a row without the column holds an empty text."""
        levels = map(write_level, rows.get(self.column, [None] * len(rows)))
        is_any = [any(fnmatchcase(level, each) for each in self.patterns) for level in levels]
        return np.equal(is_any, self.is_met)
