"""The part of a prepared folder that may leave this machine: crops, grades, split, pseudonyms."""

import hashlib
import json
from collections.abc import Collection
from pathlib import Path

from dr_lib.data.labels.readers import list_readings
from dr_lib.data.labels.schema import REFERENCE
from dr_lib.data.prepared.folder import (
    format_table,
    parse_table,
    verify,
)

LABELS = ["image_id", "row", "patient_id", "grade", "referable"]


def share_folder(data_dir: Path, splits: Collection[str] = ()) -> dict[str, Path | bytes]:
    """List the files that training elsewhere needs: paths, or contents of reduced tables.

    Of labels.csv the pseudonyms, grades and row numbers stay, of a split table what divides. What
    the data set knows beside that (age, sex, camera), the private folder, what names the
    label tables and files that the manifest does not name are left behind.

    Args:
        data_dir: a folder that `prepare` wrote.
        splits: names of split tables of one's own that lie in it.

    Returns:
        Files by their name. They make a prepared folder again, whose rows name the labels as this
        one's do.

    Raises:
        ShardError: the folder is not prepared, or was altered.
    """
    manifest = verify(data_dir)
    written = manifest["files"]
    files: dict[str, Path | bytes] = {name: data_dir / name for name in written}
    own = [name for name in splits if name not in written]
    kept = dict.fromkeys(own, ["image_id", "group", "split", "reason"])
    for name, columns in ({"labels.csv": LABELS} | kept).items():
        table = parse_table(data_dir / name)
        table = table.filter([*columns, REFERENCE, *list_readings(table)])
        files[name] = format_table(table).encode()
    manifest["notices"] = []  # they name label tables
    written["labels.csv"] = hashlib.sha256(files["labels.csv"]).hexdigest()
    return files | {"manifest.json": json.dumps(manifest, indent=1).encode()}
