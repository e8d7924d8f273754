"""The default data set: generate and prepare the synthetic sample once, then find it."""

import math
import shutil
from collections.abc import Callable
from pathlib import Path

from dr_lib.data.labels.label_files import count_sample
from dr_lib.data.prepared.folder import verify
from dr_lib.data.prepared.prepare import prepare
from dr_lib.data.prepared.workers import name_versions
from dr_lib.data.synthetic import draw_sample
from dr_lib.files import lock, write_text

DRAWING = 1  # version of the drawn pictures: raise it with every change of their bytes


def open_sample(
    folder: Path,
    *,
    num_patients: int = 200,
    workers: int | None = None,
    progress: Callable[[str], Callable[[int, int], None]] = lambda title: (
        lambda done, total: None
    ),
) -> Path:
    """Find the prepared sample, `folder/records`; generate and prepare it if it is missing.

    Samples of other versions of this library are generated again. One process generates, others
    wait.

    Args:
        folder: of the sample alone.
        num_patients: two photographs each.
        workers: processes; default one per core.
        progress: makes of a title what is called with (done, total).

    Example:
        >>> data_dir = open_sample("papermill_runs/sample")  # doctest: +SKIP
    """
    folder = Path(folder)
    records = folder / "records"
    photographs = folder / "photographs"
    drawn_by = folder / "drawn_by"  # written last
    versions = f"{DRAWING} {name_versions()}"
    folder.mkdir(parents=True, exist_ok=True)
    with lock(folder / "lock", wait_s=math.inf):
        is_there = drawn_by.exists() and (records / "manifest.json").exists()
        if is_there and drawn_by.read_text() == versions:
            verify(records)
            return records
        if count_sample(photographs):  # and not a user's folder
            for path in (records, folder / "records.private", photographs):
                shutil.rmtree(path, ignore_errors=True)
        draw_sample(
            photographs,
            num_patients=num_patients,
            workers=workers,
            progress=progress("drawing the sample"),
        )
        prepare(
            photographs,
            photographs / "labels.csv",
            records,
            workers=workers,
            progress=progress("preparing the sample"),
        )
        write_text(drawn_by, versions)
    return records
