"""The embedded default: draw and prepare the synthetic sample once, then find it."""

from collections.abc import Callable
from pathlib import Path

from dr_lib.data.shards.folder import verify
from dr_lib.data.shards.prepare import prepare
from dr_lib.data.synthetic import draw_sample


def open_sample(
    folder: Path,
    *,
    num_patients: int = 200,
    workers: int | None = None,
    progress: Callable[[str], Callable[[int, int], None]] | None = None,
) -> Path:
    """Find the prepared sample, `folder/records`, drawing `folder/photographs` and preparing them if it is not there.

    Args:
        folder: of the sample alone.
        num_patients: two photographs each.
        workers: processes; default one per core.
        progress: makes of a title what is called with (done, total).
    """
    records, photographs = Path(folder) / "records", Path(folder) / "photographs"
    if (records / "manifest.json").exists():
        verify(records)
        return records
    draw_sample(photographs, num_patients=num_patients, workers=workers, progress=progress and progress("drawing"))
    bar = progress and progress("preparing")
    prepare(photographs, photographs / "labels.csv", records, workers=workers, progress=bar)
    return records
