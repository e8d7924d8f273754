"""Find photographs that are in a data set twice, byte for byte."""

import hashlib
import os
from pathlib import Path

import pandas as pd

from dr_lib.data.labels.label_files import LabelTableError


def drop_duplicates(table: pd.DataFrame) -> tuple[pd.DataFrame, list[tuple[int, str, str]]]:
    """Keep the first, by name, of files with the same bytes; the same bytes with another label are an error.

    Args:
        table: columns row, image (path), grade and patient.

    Returns:
        The table without the others, and (row, image, reason) of each of these.

    Raises:
        LabelTableError: photographs stand there with two grades or patients; the message names five pairs of rows.
    """
    sizes = table["image"].map(measure_size)
    twins = table[sizes.duplicated(keep=False)].sort_values("image", kind="stable")
    digests = twins["image"].map(_digest)
    first = twins.groupby(digests)[["row", "grade", "patient"]].transform("first")
    differing = (twins[["grade", "patient"]] != first[["grade", "patient"]]).any(axis=1)
    if differing.any():
        pairs = sorted(sorted(pair) for pair in zip(first["row"][differing], twins["row"][differing], strict=True))
        raise LabelTableError(
            f"{len(pairs)} pairs of rows hold the same photograph with another grade or patient, such as "
            f"{', '.join(f'{row} and {other}' for row, other in pairs[:5])}: correct them, or take one of each pair out"
        )
    copies = twins.assign(first=first["row"])[digests.duplicated()]
    dropped = [(copy.row, copy.image, f"same photograph as row {copy.first}") for copy in copies.itertuples()]
    return table.drop(copies.index), dropped


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
