"""Grade photographs in files: what the endpoint would answer, as a table."""

import csv
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from dr_lib.data.photograph.decode import MAX_PIXELS
from dr_lib.serving.grader.folder import ModelFolder
from dr_lib.serving.grader.predict import Predictor

SUFFIXES = (".jpg", ".jpeg", ".png")


def grade_files(
    folder: ModelFolder, paths: Iterable[Path], out: Path, *, progress: Callable[[int, int], None] = lambda *_: None
) -> int:
    """Grade photographs and write a CSV that names the files: it belongs in a private folder.

    Args:
        folder: an exported LiteRT model.
        paths: files, and folders whose JPEG and PNG files are meant.
        out: the CSV: file, grade, probability_0 to probability_4, probability_referable, referable, fundus (status of
            the crop), error (empty where there is a grade).
        progress: called with (done, total).

    Returns:
        The number of files that could not be graded; each has its row with the reason.

    Raises:
        ModelFolderError: the folder holds no LiteRT model.
        FileNotFoundError: a path is not there, or no file is among them.
    """
    files = [file for path in paths for file in _list_files(Path(path))]
    if not files:
        raise FileNotFoundError("no JPEG or PNG file is there to grade")
    predictor, num_failed = Predictor(folder, 1, max_pixels=MAX_PIXELS), 0
    names = ["file", "grade", *(f"probability_{grade}" for grade in range(len(folder.facts["grades"])))]
    with out.open("w", newline="", encoding="utf-8") as table:
        writer = csv.DictWriter(table, [*names, "probability_referable", "referable", "fundus", "error"])
        writer.writeheader()
        for done, file in enumerate(files, 1):
            row = _grade(predictor, file)
            writer.writerow({"file": str(file)} | row)
            num_failed += bool(row["error"])
            progress(done, len(files))
    return num_failed


def _list_files(path: Path) -> list[Path]:
    if not path.exists():
        raise FileNotFoundError(f"{path} is not there")
    if not path.is_dir():
        return [path]
    return sorted(file for file in path.rglob("*") if file.suffix.lower() in SUFFIXES)


def _grade(predictor: Predictor, file: Path) -> dict[str, Any]:
    try:
        answer = predictor(file.read_bytes())
    except (ValueError, OSError) as error:  # every refusal is a ValueError
        return {"error": str(error)}
    row = {name: answer[name] for name in ("grade", "probability_referable", "referable")}
    row |= {f"probability_{grade}": value for grade, value in enumerate(answer["probabilities"])}
    return row | {"fundus": answer["fundus"]["status"], "error": ""}
