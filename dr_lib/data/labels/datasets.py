"""The public fundus data sets, whose label files datasets.csv describes."""

import csv
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from dr_lib.data.labels.schema import WORDS, list_words, read_words

EYE = "|".join(sorted(list_words(WORDS["eye"]), key=len, reverse=True))
# a patient of one part, a sign and an eye, or 12OD, before the suffix
NAME = (
    r"(?i)^(?:.*[/\\])?(?P<patient>[^\W_]+)(?:(?:_|[^\w/\\])+|(?<=\d)(?=o[des]))"
    rf"(?P<eye>{EYE})(?:\.[a-z]\w*)?$"
)
# 20240501, 01052024, and a time of day behind it
DATE = (
    r"(?<!\d)(?:(?:19|20)\d\d(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])"
    r"|(?:0[1-9]|[12]\d|3[01])(?:0[1-9]|1[0-2])(?:19|20)\d\d)(?:\d{4,9})?(?!\d)"
)


class Part(NamedTuple):
    """One label file of a data set: its name, the columns to read, the folders of its photographs.

    Each is a line of datasets.csv; where a field holds several values, a semicolon parts them.
    """

    layout: str  # name of the data set; `folder`, the last, is a table of the user's own
    file: str  # expression for the end of the file's path
    image: (
        str  # columns, as `schema` names or folds them; the file must have those that are named
    )
    grade: str  # one column, or the left and the right eye's
    eye: str  # an expression for the names of left eyes; empty: the column eye, if there is one
    split: str  # what the file's photographs are; empty: the column split, if there is one
    folders: (
        str  # expressions for the photographs' folders, the best first; a point is any folder
    )
    ungradable: str  # the grade that stands for none
    notice: str  # to show the user

    @property
    def columns(self) -> set[str]:
        """The columns that the label file must have."""
        return {self.image, *self.grade.split(";")}


@cache
def read_parts() -> list[Part]:
    """Read the table of the data sets."""
    with Path(__file__).with_suffix(".csv").open(encoding="utf-8", newline="") as file:
        return [Part(**row) for row in csv.DictReader(file)]


def read_names(names: pd.Series) -> pd.DataFrame:
    """Read patient and eye from names like 10_left.jpeg or 10-OD.jpeg.

    Both are empty for other names: of a name with a further part, as 10_1_left.jpeg, nobody knows
    which part is the patient. Patients are empty, too, if most are a date, or no two are the same:
    running numbers. So `names` are of different files, or empty.
    """
    parts = names.str.normalize("NFC").str.extract(NAME).fillna("")
    named = parts["patient"][parts["patient"] != ""]
    if named.is_unique or named.str.contains(DATE).mean() > 0.5:
        parts["patient"] = ""
    return parts.assign(eye=read_words("eye", parts["eye"]))
