"""A study's folder, used by one process of a machine at a time, for one study."""

import json
import math
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dr_lib.errors import DrError
from dr_lib.files import lock, write_json
from dr_lib.runs.row import read_rows
from dr_lib.runs.study import Study

# other keys of a study may change between sessions
FIXED = ("factors", "first_scenario", "notebook", "order", "parameters", "seed")


@contextmanager
def lock_study(folder: Path, *, wait: bool = False) -> Iterator[None]:
    """Lock the study on this machine until this process ends, in any way."""
    held = lock(folder / f"lock-{platform.node()}", wait_s=math.inf if wait else 0.0)
    if held is None:
        raise DrError(
            f"{folder} is being run by another process: wait for it, or end it; if there is none, "
            "this disk has no locks: choose another"
        )
    with held:
        yield


def keep_for(folder: Path, study: Study) -> None:
    """Reserve a folder for a study, after `check_folder`."""
    with lock(folder / "study.lock", wait_s=math.inf):  # machines that share the disk
        check_folder(folder, study)
        write_json(folder / "study.json", study.model_dump(include=set(FIXED)))


def check_folder(folder: Path, study: Study) -> None:
    """Refuse a folder with runs of another study, whose scenarios would have the same names.

    The order of the factors counts, by which scenarios are numbered.
    """
    path = folder / "study.json"
    if not path.exists():
        return
    present = json.loads(path.read_bytes())
    request = json.loads(study.model_dump_json(include=set(FIXED)))
    unlike = [name for name in FIXED if str(present.get(name)) != str(request[name])]
    is_begun = any(folder.glob("runs/*/checkpoint*"))
    if unlike and (is_begun or any(row["status"] == "ok" for row in read_rows(folder))):
        raise DrError(
            f"{folder} holds runs of a study that differs in {', '.join(unlike)}: "
            "rename one of the studies, or delete the folder to start again"
        )
