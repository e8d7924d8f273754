"""The command that evaluates predictions."""

from pathlib import Path

import click

from dr_lib.errors import DrError
from dr_lib.options import COLUMN, LANG, PARAMETERS, PATH, REFERENCE, SHEET, Suite
from dr_lib.parameters import join_paths


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
@REFERENCE
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
    reference: str,
    parameters: tuple,
) -> None:
    """Evaluate a predictions.csv, of this project or any other, with intervals by patient.

    Further files are compared with the first, or hold the same models' predictions on other data
    sets (external validation).
    """
    from dr_lib.data.labels.privacy import place_private
    from dr_lib.evaluation.predictions import read_predictions
    from dr_lib.files import find_listed
    from dr_lib.report.render import run_analysis

    choice = dict(parameters)
    if prepared := choice.get("private"):
        choice["private"] = str(Path(prepared).absolute())
        out = place_private(out, Path(prepared))
    if any(out.glob("[!.]*")) and out / "checklist.csv" not in find_listed(out):
        raise DrError(
            f"{out} holds files that no evaluation listed there: give --out a new or empty folder"
        )
    # report errors before the notebook starts
    read_predictions(
        *predictions, sheet=sheet, columns=columns, reference=reference, folds=folds
    )
    choice = {
        "predictions": join_paths([path.resolve() for path in predictions]),
        "folds": folds,
        "sheet": sheet,
        "reference": reference,
        "columns": join_paths(columns),
        "lang": lang,
        **choice,
    }
    page = run_analysis(
        suite.root / "notebooks" / "12_evaluate.ipynb", out, suite.root, **choice
    )
    click.echo(
        f"wrote {page}, its figures (PNG, PDF, SVG) and tables (CSV, LaTeX), committee.html, "
        "checklist.csv and MODEL_CARD.md next to it"
    )


@click.command()
@click.argument("predictions", type=PATH, nargs=-1, required=True)
@click.option(
    "--patients",
    "num_patients",
    type=click.IntRange(10),
    required=True,
    help="labelled patients to recalibrate from, drawn at random",
)
@click.option("--out", type=PATH, required=True, help="JSON file to write")
@SHEET
@COLUMN
@REFERENCE
def recalibrate(
    predictions: tuple[Path, ...],
    num_patients: int,
    out: Path,
    sheet: str,
    columns: tuple[str, ...],
    reference: str,
) -> None:
    """Recalibrate a model for a new hospital from the labels of a few of its patients, and report
    the others, before and after. With the predictions of the model's own data set, its own
    thresholds are reported too.
    """
    import numpy as np

    from dr_lib.evaluation import recalibration
    from dr_lib.evaluation.predictions import read_predictions
    from dr_lib.evaluation.scores import unpack
    from dr_lib.report.page import Page
    from dr_lib.statistics.clustered import MIN_PATIENTS, auc_interval
    from dr_lib.training.metrics import find_doubt

    models = read_predictions(*predictions, sheet=sheet, columns=columns, reference=reference)
    there, old = recalibration.choose_hospital(models)
    local = recalibration.recalibrate_locally(there, num_patients, np.random.default_rng(0))
    if local is None:
        raise DrError(
            f"{num_patients} patients do not allow a recalibration: they or the others are of one "
            "class, or the probabilities do not rise with the disease or hardly overlap between "
            "the classes; give more patients"
        )
    recalibration.write_recalibration(out, there, local)
    page = Page()
    table = recalibration.compare(there, old, local)
    click.echo(page.format(table, "recalibration").T.to_string(header=False))
    before, after = table.to_dict("records")
    if after["brier"] > before["brier"]:
        click.echo(
            "The recalibration makes the probabilities of the others worse (Brier score)."
        )
    if after["slope_high"] < 1 or after["slope_low"] > 1:
        click.echo(
            "The slope of the others is not 1 after the recalibration: label more patients."
        )
    curve = recalibration.trace_patients(there)
    beside = out.with_name(f"{out.stem}.patients.csv")  # OUT.csv may be the predictions
    curve.to_csv(beside, index=False)
    click.echo(page.format(curve, "patients to label").to_string(index=False))
    if doubt := find_doubt(auc_interval(*unpack(local.after.test))):
        click.echo(doubt)
    num_diseased = local.points["validation_diseased"].iloc[0]
    if num_diseased < MIN_PATIENTS:
        click.echo(
            f"The thresholds rest on {num_diseased} patients with the disease; with fewer than "
            f"{MIN_PATIENTS} they depend on chance."
        )
    click.echo(f"wrote {out}; the table over the number of patients is {beside}")
