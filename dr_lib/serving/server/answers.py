"""Keep what a server answered as predictions.csv, for whoever adds patients and grades, and
evaluates it.
"""

import csv
import hashlib
import logging
import os
import threading
from pathlib import Path
from typing import Any

from dr_lib.serving.grader.folder import ModelFolder

ADDED = ("patient_id", "grade")  # by a person: empty until then
logger = logging.getLogger(__name__)


class AnswersError(ValueError):
    """The table cannot be continued; the message says what to change."""


class Answers:
    """A CSV that has a row for each photograph answered, with no word of who sent it, or when.

    `image_id` is the SHA-256 of the photograph's bytes, by which its owner finds it; a photograph
    that is sent twice has two rows. All are of the test split. The file is for its owner alone.
    """

    def __init__(self, path: Path, folder: ModelFolder):
        """Open the table, a new one or one of the same model.

        Raises:
            AnswersError: another table is there.
            OSError: it cannot be written.
        """
        facts = folder.facts
        self._same = {
            "split": "test",
            "model": f"{facts['model']}_{facts['format']}",
            "model_version": folder.version,
        }
        self._num_grades = len(facts["grades"])
        probabilities = [f"probability_{grade}" for grade in range(self._num_grades)]
        self._names = ["image_id", *ADDED, *self._same, *probabilities]
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._file = open(
            os.open(path, os.O_RDWR | os.O_CREAT, 0o600), "r+", encoding="utf-8", newline=""
        )
        rows = csv.DictReader(self._file)
        if rows.fieldnames not in (None, self._names) or any(
            row["model_version"] != folder.version for row in rows
        ):
            raise AnswersError(
                f"{path} holds another table, or another model's answers: name another file"
            )
        self._lock = threading.Lock()
        self._writer = csv.DictWriter(self._file, self._names)
        if rows.fieldnames is None:
            self._writer.writeheader()

    def __call__(self, photograph: bytes, answer: dict[str, Any]) -> None:
        """Write a row; a disk that is full is said in the log, and keeps nobody from an answer."""
        row = (
            {"image_id": hashlib.sha256(photograph).hexdigest()}
            | dict.fromkeys(ADDED, "")
            | self._same
        )
        row |= {
            f"probability_{grade}": value for grade, value in enumerate(answer["probabilities"])
        }
        try:
            with self._lock:
                self._writer.writerow(row)
                self._file.flush()
        except OSError as error:
            logger.error("an answer was not kept: %s", error.strerror)
