"""Find photographs that are in a data set twice, byte for byte."""

import hashlib
import os
from pathlib import Path

import pandas as pd

from dr_lib.data.label_files import LabelTableError


def leave_out_duplicates(table: pd.DataFrame) -> tuple[pd.DataFrame, list[tuple[int, str, str]]]:
    """Keep the first of files with the same bytes; the same bytes with another label are an error.

    Args:
        table: columns row, image (path), grade and patient.

    Returns:
        The table without the others, and (row, image, reason) of each of these.

    Raises:
        LabelTableError: the same photograph stands there with two grades or patients.
    """
    sizes = table["image"].map(_measure)
    twins = table[sizes.duplicated(keep=False)].sort_values("image", kind="stable")
    digests = twins["image"].map(_digest)
    left_out = []
    for _, same in twins.groupby(digests):
        first = same.iloc[0]
        for other in same.iloc[1:].itertuples():
            if (other.grade, other.patient) != (first.grade, first.patient):
                raise LabelTableError(
                    f"rows {first.row} and {other.row} are the same photograph with another grade or patient: "
                    "correct the label table, or take one of them out"
                )
            left_out.append((other.row, other.image, f"same photograph as row {first.row}"))
    gone = {image for _, image, _ in left_out}
    return table[~table["image"].isin(gone)], left_out


def _measure(path: str) -> int:
    try:
        return os.path.getsize(path)
    except OSError:
        return -1  # kept: cropping it says what is wrong


def _digest(path: str) -> str:
    try:
        return hashlib.sha256(Path(path).read_bytes()).hexdigest()
    except OSError:
        return path
