"""The commands that turn photographs and a label table into a prepared folder."""

from pathlib import Path

import click

from dr_lib.options import COLUMN, PATH, SHEET, Suite, show_progress


@click.command()
@click.pass_obj
def sample(suite: Suite) -> None:
    """Generate the synthetic sample and prepare it."""
    from dr_lib.data.prepared.sample import open_sample

    folder = suite.root / "papermill_runs" / "sample"
    click.echo(f"sample: {open_sample(folder, progress=show_progress)}")


@click.command()
@click.option(
    "--images",
    type=PATH,
    required=True,
    help="folder of the photographs, or root folder of a known data set",
)
@click.option(
    "--labels",
    type=PATH,
    help="table with the columns image and grade, and optionally patient, eye and split",
)
@click.option("--out", type=PATH, required=True, help="new or empty folder to write")
@click.option(
    "--private",
    type=PATH,
    help="folder for everything that names files or patients  [default: OUT.private]",
)
@click.option(
    "--size",
    default=299,
    show_default=True,
    type=click.IntRange(32),
    help="side of the crops [px]",
)
@click.option(
    "--method",
    default="robust",
    show_default=True,
    type=click.Choice(["robust", "voets"]),
    help="how to crop: robust, or voets, as Voets et al. did",
)
@click.option(
    "--scheme",
    type=click.Choice(["random", "paper", "official"]),
    help="how to split the patients  [default: random]",
)
@click.option(
    "--workers", type=click.IntRange(1), help="number of processes  [default: one per core]"
)
@click.option(
    "--reread",
    is_flag=True,
    help="read files again of which name, length and time have not changed",
)
@click.option("--on", help="crop on a Dask cluster whose workers share the disk (dask:ADDRESS)")
@SHEET
@COLUMN
@click.pass_obj
def prepare(suite: Suite, on: str | None, **options) -> None:
    """Prepare photographs and a label table for training. Repeat the command to add photographs
    or correct labels.
    """
    from dr_lib.data.labels.privacy import find_private
    from dr_lib.data.prepared.prepare import prepare

    if on and options["workers"]:
        raise click.UsageError("--on takes all workers of the cluster: leave out --workers")
    if on:
        options["workers"] = suite.find_target("prepare", on)(on)
    manifest = prepare(**options, progress=show_progress("cropping"))
    for sentence in manifest["said"] + manifest["notices"]:
        click.echo(sentence)
    if unused := manifest["unused_columns"]:
        click.echo(f"columns of the label table that are not used: {', '.join(unused)}")
    _describe_split("split.csv", manifest["splits"]["split.csv"])
    click.echo(
        f"{manifest['num_photographs']} photographs in, {manifest['num_rejected']} rejected"
    )
    for reason, number in manifest["rejected"].items():
        click.echo(f"  {number} {reason}")
    describe_statuses(manifest["statuses"])
    private = options["private"] or find_private(options["out"])
    click.echo(f"{private} names the files: names.csv, rejected.csv, near_duplicates.csv")


@click.command()
@click.argument("data_dir", type=PATH)
@click.option(
    "--scheme",
    type=click.Choice(["random", "paper", "official", "folds"]),
    help="[default: as before]",
)
@click.option("--seed", type=int, help="[default: as before]")
@click.option(
    "--folds", type=click.IntRange(2), help="number of folds, with --scheme folds  [default: 5]"
)
@click.option(
    "--out", default="split.csv", show_default=True, help="name of the split table in DATA_DIR"
)
@click.option(
    "--records",
    type=PATH,
    help="write an existing split as labelled TFRecords to this folder; no split table is "
    "written",
)
def split(data_dir: Path, records: Path | None, out: str, folds: int | None, **options) -> None:
    """Split a prepared folder again, with another seed or into folds. No photograph is cropped
    again. To correct labels, repeat `prepare`.
    """
    from dr_lib.data.prepared.folder import read_manifest
    from dr_lib.data.prepared.split import export_records, split

    if folds and options["scheme"] != "folds":
        raise click.UsageError("--folds needs --scheme folds: give both")
    if records and any(options[name] is not None for name in ("scheme", "seed")):
        raise click.UsageError(
            "--records writes an existing split: run split without it first, then with it"
        )
    if records:
        click.echo(f"{len(export_records(data_dir, records, out))} shards in {records}")
        return
    paths = split(data_dir, out=out, folds=folds or 5, **options)
    splits = read_manifest(data_dir)["splits"]
    for path in paths:
        _describe_split(path.name, splits[path.name])


@click.command()
@click.argument("data_dir", type=PATH)
def verify(data_dir: Path) -> None:
    """Compare every file of a prepared folder with its manifest."""
    from dr_lib.data.prepared.folder import verify

    click.echo(f"{data_dir}: {len(verify(data_dir)['files'])} files, all match the manifest")


def describe_statuses(statuses: dict[str, int]) -> None:
    """Print how many crops are not ok, by each word of their statuses."""
    if statuses:
        counts = ", ".join(f"{number} {word}" for word, number in statuses.items())
        click.echo(f"crops that are not ok (docs/photographs.md explains the words): {counts}")


def _describe_split(name: str, facts: dict) -> None:
    """Print the sides of a split, and how many photographs are excluded."""
    click.echo(f"{name}:")
    for side, counts in facts["counts"].items():
        grades = ", ".join(map(str, counts["grades"]))
        click.echo(
            f"  {side} {counts['num_images']} photographs of {counts['num_patients']} patients;"
            f" grades 0 to 4: {grades}"
        )
    if facts["num_excluded"]:
        click.echo(f"{facts['num_excluded']} excluded; {name} lists the reasons")
