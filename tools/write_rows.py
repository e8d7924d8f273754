"""Write the stored rows of the tests again, as notebooks write them once a column came or went.

    python -m tools.write_rows 10 30

runs notebooks 10 and 30, each in a minute or less, and puts their rows in the place of the old ones
in tests/report/rows.jsonl; without numbers it runs all that make rows. Look at the difference
before you commit it.
"""

import json
import sys
import tempfile
from pathlib import Path

import papermill

from tools.bench import ROOT

ROWS = ROOT / "tests" / "report" / "rows.jsonl"
RUNS = [  # notebook and its parameters: the defaults, but for what is quick
    ("10_train", {"task": "referable", "epochs": 3, "image_size": 48}),
    ("21_export_quantize", {}),
    ("22_serve_and_load", {"format": "litert_int8"}),
    ("22_serve_and_load", {"format": "savedmodel"}),
    ("30_train_scenario", {}),
    ("40_mnist_cuda", {"implementation": "fused@1,keras_tensorflow@32"}),
]


def make_rows(notebook: str, parameters: dict) -> list[dict]:
    """Run a notebook in a folder of its own, and read what it leaves."""
    with tempfile.TemporaryDirectory() as folder:
        results = Path(folder, "rows")  # the study's name in the rows
        papermill.execute_notebook(
            str(ROOT / "notebooks" / f"{notebook}.ipynb"),
            str(Path(folder, "out.ipynb")),
            {**parameters, "results": str(results)},
            cwd=str(ROOT),
            kernel_name="python3",
        )
        paths = sorted(results.glob("rows/*.json"))
        return [json.loads(path.read_bytes()) for path in paths]


def main(numbers: list[str]) -> None:
    """Run the notebooks of these numbers, and keep the rows of the others."""
    rows = [json.loads(line) for line in ROWS.read_text(encoding="utf-8").splitlines()]
    chosen = [run for run in RUNS if not numbers or run[0][:2] in numbers]
    kept = [row for row in rows if row["notebook"][:2] not in {name[:2] for name, _ in chosen}]
    made = [row for run in chosen for row in make_rows(*run)]
    ordered = sorted(kept + made, key=lambda row: row["notebook"])
    ROWS.write_text("".join(f"{json.dumps(row)}\n" for row in ordered), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
