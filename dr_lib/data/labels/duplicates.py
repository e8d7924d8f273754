"""Find photographs that are in a data set twice, byte for byte."""

import hashlib
import os
from pathlib import Path

import pandas as pd

from dr_lib.data.labels.label_files import LabelTableError


def leave_out_duplicates(table: pd.DataFrame) -> tuple[pd.DataFrame, list[tuple[int, str, str]]]:
    """Keep the first of files with the same bytes; the same bytes with another label are an error.

    Args:
        table: columns row, image (path), grade and patient.

    Returns:
        The table without the others, and (row, image, reason) of each of these.

    Raises:
        LabelTableError: photographs stand there with two grades or patients; the message names the first five pairs.
    """
    sizes = table["image"].map(measure_size)
    twins = table[sizes.duplicated(keep=False)].sort_values("image", kind="stable")
    digests = twins["image"].map(_digest)
    left_out, differing = [], []
    for _, same in twins.groupby(digests):
        first = same.iloc[0]
        for other in same.iloc[1:].itertuples():
            if (other.grade, other.patient) != (first.grade, first.patient):
                differing.append(sorted((first.row, other.row)))
            left_out.append((other.row, other.image, f"same photograph as row {first.row}"))
    if differing:
        raise LabelTableError(
            f"the same photograph with another grade or patient stands in {_name_pairs(differing)}: correct the label "
            "table, or take one of each pair out"
        )
    gone = {image for _, image, _ in left_out}
    return table[~table["image"].isin(gone)], left_out


def _name_pairs(pairs: list[list[int]]) -> str:
    more = f" and {len(pairs) - 5} more pairs" if len(pairs) > 5 else ""
    return "rows " + ", ".join(f"{row} and {other}" for row, other in sorted(pairs)[:5]) + more


def measure_size(path: str) -> int:
    """Bytes of a file, -1 where it cannot be seen."""
    try:
        return os.path.getsize(path)
    except OSError:
        return -1  # kept: cropping it says what is wrong


def _digest(path: str) -> str:
    try:
        return hashlib.sha256(Path(path).read_bytes()).hexdigest()
    except OSError:
        return path
