"""Convert rows from before schema 1, once: python -m tools.convert_rows FILE... [--out FOLDER].

A file holds one row as JSON, or one a line. It is written anew, or into a folder beside its name.
"""

import json
from argparse import ArgumentParser
from pathlib import Path

from dr_lib.files import write_text
from dr_lib.runs.row import Row, check_row
from dr_lib.schema import SCHEMA

# what rows did that are older than a column
BEFORE = {"environment_settings": "none", "label": ""}
BEFORE_BY_NOTEBOOK = {
    "10_train": {
        "task": "referable",
        "patience": 0,
        "batch_size_of": "step",
        "batch_norm_requested": "auto",
        "matmul_precision_requested": "default",
        "model_code_sha256": "",
        "last_layer": "",
    },
    "21_export_quantize": {"num_threads": 1},
    "30_train_scenario": {"threads_asked": 0},
}
RENAMED = {
    "10_train_referable": {"notebook": "10_train", "task": "referable"},
    "20_train_grades": {"notebook": "10_train", "task": "grades"},
}
GONE = (
    "batch_scale cpu_energy_from cpu_energy_j dropout ema_momentum gpu_energy_from"
    " gpu_energy_sampled_j kernel last_frozen num_machines probe_grades repeats replicas"
    " replicas_asked spent_s warmup_epochs weigh_classes"
    " checkpoint_s callbacks_s halve_on_plateau rho epsilon min_delta weigh_grades keep_best"
).split()


def convert(row: Row) -> Row:
    """Convert a row; one that did not know its code is known by its commit."""
    row = {name: value for name, value in row.items() if name not in GONE}
    row |= RENAMED.get(row["notebook"], {})
    before = BEFORE | BEFORE_BY_NOTEBOOK.get(row["notebook"], {})
    code = row.get("code_sha256") or row["commit"]
    return check_row({"schema": SCHEMA, **before, **row, "code_sha256": code})


def main() -> None:
    """Convert each file."""
    parser = ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--out", type=Path, help="folder to write; by default each file's own")
    options = parser.parse_args()
    for file in options.files:
        text = file.read_text(encoding="utf-8")
        if file.suffix == ".jsonl":
            rows = [json.dumps(convert(json.loads(line))) for line in text.splitlines()]
            converted = "".join(f"{row}\n" for row in rows)
        else:
            converted = json.dumps(convert(json.loads(text)), indent=1)
        write_text((options.out or file.parent) / file.name, converted)


if __name__ == "__main__":
    main()
