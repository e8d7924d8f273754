"""The command that evaluates predictions."""

import os
from pathlib import Path

import click

from dr_lib.errors import DrError
from dr_lib.files import find_listed, join_paths
from dr_lib.options import COLUMN, LANG, PARAMETERS, PATH, SHEET, Suite


@click.command()
@click.argument("predictions", type=PATH, nargs=-1, required=True)
@click.option("--out", type=PATH, required=True, help="folder to write")
@LANG
@click.option(
    "--folds",
    is_flag=True,
    help="treat the files as the folds of one recipe and pool their test photographs",
)
@SHEET
@COLUMN
@PARAMETERS
@click.pass_obj
def evaluate(
    suite: Suite,
    predictions: tuple[Path, ...],
    out: Path,
    lang: str,
    folds: bool,
    sheet: str,
    columns: tuple[str, ...],
    parameters: tuple,
) -> None:
    """Evaluate a predictions.csv, of this project or any other, with intervals by patient.

    Further files are compared with the first, or hold the same models' predictions on other data
    sets (external validation).
    """
    from dr_lib.data.labels.privacy import place_private
    from dr_lib.evaluation.predictions import read_predictions
    from dr_lib.report.render import run_analysis

    choice = dict(parameters)
    if prepared := choice.get("private"):
        choice["private"] = str(Path(prepared).absolute())
        out = place_private(out, Path(prepared))
        os.umask(0o077)  # nobody else reads the page
    if any(out.glob("[!.]*")) and out / "committee.html" not in find_listed(out):
        raise DrError(
            f"{out} holds files that no evaluation listed there: give --out a new or empty folder"
        )
    # report errors before the notebook starts
    read_predictions(*predictions, sheet=sheet, columns=columns, folds=folds)
    choice = {
        "predictions": join_paths([path.resolve() for path in predictions]),
        "folds": folds,
        "sheet": sheet,
        "columns": join_paths(columns),
        "lang": lang,
        **choice,
    }
    page = run_analysis(
        suite.root / "notebooks" / "12_evaluate.ipynb", out, suite.root, **choice
    )
    click.echo(
        f"wrote {page}, its figures (PNG, PDF, SVG) and tables (CSV, LaTeX) and committee.html "
        "next to it"
    )
