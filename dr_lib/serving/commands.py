"""The commands that export, use, serve, load and price a model."""

import sys
from pathlib import Path

import click

from dr_lib.command import write_command
from dr_lib.options import PATH, POSITIVE, Amount, show_progress
from dr_lib.serving.__main__ import serve as serve  # one of them, and the container's
from dr_lib.serving.export import FORMATS


@click.command()
@click.argument("model", type=PATH)
@click.option(
    "--data",
    "data_dir",
    type=PATH,
    required=True,
    help="prepared folder, for calibration and for the accuracy gate",
)
@click.option(
    "--out", type=PATH, required=True, help="folder to write; each format gets a folder in it"
)
@click.option(
    "--format",
    "formats",
    type=click.Choice(FORMATS),
    multiple=True,
    help="repeatable  [default: all]",
)
@click.option(
    "--force",
    is_flag=True,
    help="also write formats that fail the accuracy gate",
)
def export(
    model: Path,
    data_dir: Path,
    out: Path,
    formats: tuple[str, ...],
    force: bool,
) -> None:
    """Convert a model folder of notebook 10 and keep the formats that pass the accuracy gate."""
    from dr_lib.hardware import import_keras

    import_keras("tensorflow")
    from dr_lib.data.prepared.folder import Prepared, find_split
    from dr_lib.serving.export.export import export_model, open_examples
    from dr_lib.training.model_folder import read_folder

    facts = read_folder(model).facts
    prepared = Prepared(data_dir, find_split(data_dir, facts["split_sha256"]))
    calibration, labelled = open_examples(prepared, facts)
    exported = export_model(
        model,
        out,
        formats=formats or FORMATS,
        calibration=calibration,
        labelled=labelled,
        force=force,
    )
    for row in exported.itertuples():
        click.echo(
            f"{row.format}, {row.artifact_mib:.2f} MiB: sensitivity {row.sensitivity_before:.3f}"
            f" before, {row.sensitivity_after:.3f} after, specificity"
            f" {row.specificity_before:.3f}, {row.specificity_after:.3f}; {row.folder}"
        )
        if not row.passes:
            click.echo(f"{row.format} {'forced' if row.forced else 'refused'}: {row.reason}")
    if not exported["folder"].any():
        again = write_command(*sys.argv[1:], "--force")
        raise click.ClickException(
            f"every format failed the accuracy gate; to write them anyway: {again}"
        )


@click.command()
@click.argument("model", type=PATH)
@click.argument("images", type=PATH)
@click.option(
    "--out",
    type=PATH,
    required=True,
    help="CSV to write; it names the files, so keep it private",
)
@click.option(
    "--external",
    is_flag=True,
    help="confirm that the model was not trained on photographs of this prepared folder",
)
def predict(
    model: Path,
    images: Path,
    out: Path,
    external: bool,
) -> None:
    """Grade the photographs in a folder, or one file.

    Of a prepared folder it writes predictions to evaluate, which name no file. An interrupted
    command is repeated to resume.
    """
    from dr_lib.serving.grader import grade_files as grader
    from dr_lib.training.model_folder import read_folder

    is_prepared = (images / "manifest.json").is_file()
    if external and not is_prepared:
        raise click.UsageError("--external needs one prepared folder: leave it out")
    folder = read_folder(model)
    if is_prepared:
        grader.grade_prepared(folder, images, out, is_external=external)
        own = model.parent / "predictions.csv"  # its thresholds are frozen there
        evaluated = [own, out] if own.is_file() else [out]
        again = write_command("evaluate", *evaluated, "--out", "FOLDER")
        return click.echo(f"wrote {out}; {again}")
    table = grader.grade_files(folder, images, out, progress=show_progress("cropping"))
    reasons = table["error"].str.replace(r"\d+", "...", regex=True)
    numbers = reasons[reasons != ""].value_counts()
    click.echo(f"wrote {out}; {numbers.sum()} photographs could not be graded")
    for reason, number in numbers.items():
        click.echo(f"  {number} {reason}")
    if warning := folder.facts.get("warning"):
        click.echo(warning)
    click.echo("This is not a medical device. Isto não é um dispositivo médico.")


@click.command()
@click.argument("url")
@click.option("--images", type=PATH, required=True, help="folder of JPEG files to send")
@click.option(
    "--gap",
    "gap_s",
    type=Amount(0),
    default=5,
    show_default=True,
    help="seconds between 25 requests",
)
@click.option(
    "--rate",
    "rate_per_s",
    type=POSITIVE,
    help="requests a second, sent without waiting for answers, instead of 25 one after another",
)
@click.option(
    "--seconds", type=POSITIVE, default=60, show_default=True, help="with --rate, how long"
)
@click.option("--out", type=PATH, required=True, help="CSV to write, one row")
def load(
    url: str,
    images: Path,
    gap_s: float,
    rate_per_s: float | None,
    seconds: float,
    out: Path,
) -> None:
    """Time an endpoint at URL, such as http://127.0.0.1:8080/invocations or sagemaker:NAME."""
    import pandas as pd

    from dr_lib.data.labels.label_files import find_files
    from dr_lib.serving.server import load

    photographs = find_files(images)[0]
    files = [path for path in photographs if path.suffix.lower() in (".jpg", ".jpeg")]
    if not files:
        raise click.ClickException(
            f"no JPEG files below {images}: set --images to the folder of the photographs to send"
        )
    out.parent.mkdir(parents=True, exist_ok=True)
    out.touch()  # better now than after the requests
    send = load.open_sender(url)
    if rate_per_s:
        load.run_closed_loop(send, files, num_requests=1)  # does it answer?
        requests = load.run_open_loop(send, files, rate_per_s=rate_per_s, seconds=seconds)
    else:
        requests = load.run_closed_loop(send, files, gap_s=gap_s)
    row = load.summarise_load(requests)
    pd.DataFrame([row]).to_csv(out, index=False)
    click.echo(pd.Series(row).to_string())


@click.command()
@click.argument("folders", type=PATH, nargs=-1, required=True)
@click.option(
    "--requests-per-day",
    required=True,
    type=POSITIVE,
    help="requests that the endpoint answers per day, monthly mean",
)
@click.option(
    "--p99-ms",
    required=True,
    type=POSITIVE,
    help="99 % of the responses must take at most this long",
)
def price(folders: tuple[Path, ...], requests_per_day: float, p99_ms: float) -> None:
    """Find the cheapest endpoint in the load tests below the folders."""
    from dr_lib.report.groups import select_runs
    from dr_lib.report.page import Page
    from dr_lib.runs.row import read_runs
    from dr_lib.serving.costs import PRICED, price_endpoints
    from dr_lib.serving.figures import describe_choice

    timed = select_runs(read_runs(*folders)).timed
    priced = price_endpoints(timed, requests_per_day=requests_per_day, p99_ms=p99_ms)
    click.echo(Page().format(priced, "endpoints", columns=PRICED).to_string(index=False))
    click.echo("\n".join(describe_choice(priced)))
