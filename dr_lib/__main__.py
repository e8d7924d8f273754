"""The command line: python -m dr_lib sample | prepare | verify | run | plan | report."""

import sys
from collections.abc import Callable
from pathlib import Path

import click
from tqdm import tqdm

ROOT = Path(__file__).resolve().parents[1]
PATH = click.Path(path_type=Path)


def _bar(title: str) -> Callable[[int, int], None]:
    """A progress bar with photographs a second and the time left, shown once there is progress."""
    bars = []

    def show(done: int, total: int) -> None:
        if not bars:
            bars.append(tqdm(desc=title, total=total, unit=" photographs"))
        bars[0].update(done - bars[0].n)
        if done == total:
            bars[0].close()

    return show


@click.group()
def main() -> None:
    """Train, time, price and serve a fundus model."""


@main.command()
@click.option("--out", type=PATH, default=ROOT / "papermill_runs" / "sample", help="folder to write")
@click.option("--patients", default=200, show_default=True, help="patients to draw, two photographs each")
def sample(out: Path, patients: int) -> None:
    """Draw the sample and prepare it."""
    from dr_lib.data.sample import open_sample

    click.echo(f"sample: {open_sample(out, num_patients=patients, progress=_bar)}")


@main.command()
@click.option("--images", type=PATH, required=True, help="folder of the photographs, or root of a known data set")
@click.option("--labels", type=PATH, help="CSV with columns image, grade and, where known, patient, eye, split")
@click.option("--out", type=PATH, required=True, help="folder to write, new or empty")
@click.option("--private", type=PATH, help="folder for what names files or patients  [default: OUT.private]")
@click.option("--layout", default="auto", show_default=True, help="name of a known data set")
@click.option("--split", default="drawn", show_default=True, type=click.Choice(["drawn", "paper", "official"]))
@click.option("--method", default="robust", show_default=True, type=click.Choice(["robust", "voets"]))
@click.option("--seed", default=0, show_default=True, help="of the split")
@click.option("--shards", default=8, show_default=True, help="files per split")
@click.option("--workers", type=click.IntRange(1), help="processes  [default: one per core]")
def prepare(shards: int, **options) -> None:
    """Turn photographs and a label table into shards to train from."""
    from dr_lib.data.prepare import prepare

    manifest = prepare(**options, num_shards=shards, progress=_bar("preparing"))
    for notice in manifest["notices"]:
        click.echo(notice)
    for split, counts in manifest["counts"].items():
        click.echo(f"{split}: {counts['num_images']} photographs of {counts['num_patients']} patients")
    rejected = manifest["num_rejected"]
    click.echo(f"{manifest['num_photographs']} photographs in, {rejected} rejected (see rejected.csv, private)")


@main.command()
@click.argument("data_dir", type=PATH)
def verify(data_dir: Path) -> None:
    """Compare every shard of a prepared folder with its manifest."""
    from dr_lib.data.records import verify

    manifest = verify(data_dir)
    click.echo(f"{data_dir}: {len(manifest['shards'])} shards, all as the manifest says")


@main.command()
@click.argument("study", type=PATH)
@click.option(
    "--max-hours", type=click.FloatRange(min=0, min_open=True), help="save and stop in time  [default: the study's]"
)
def run(study: Path, max_hours: float | None) -> None:
    """Make the runs of a study file that are not finished yet."""
    from dr_lib.studies.study import run_study

    failures = run_study(study, ROOT, max_hours=max_hours)
    if failures:
        raise click.ClickException(f"{len(failures)} runs failed:\n" + "\n".join(failures))


@main.command()
@click.argument("study", type=PATH)
def plan(study: Path) -> None:
    """List the runs of a study file and which of them are finished."""
    from dr_lib import hardware
    from dr_lib.studies.run import read_rows
    from dr_lib.studies.study import load_study, name_machine, plan_runs

    finished = {row["run_id"]: row["status"] for row in read_rows(study.with_suffix(""))}
    for planned in plan_runs(load_study(study, ROOT), name_machine(hardware.probe())):
        click.echo(f"{planned.order:4d}  {planned.run_id}  {finished.get(planned.run_id, 'to do')}")


@main.command()
@click.argument("folders", type=PATH, nargs=-1, required=True)
@click.option("--out", type=PATH, help="folder to write  [default: the first folder]")
@click.option("--paper", default="A", show_default=True, help="the paper whose claims are judged")
@click.option("--lang", default="en", show_default=True, type=click.Choice(["en", "pt"]))
@click.option("--allow", multiple=True, help="a column in which pooled rows may differ, such as mode or commit")
@click.option("--keep", multiple=True, help="a mark, contended or resumed, that does not bar a row from the timing")
def report(folders: tuple[Path, ...], out: Path | None, paper: str, lang: str, **choice: tuple[str, ...]) -> None:
    """Draw the figure and write report.md and runs.csv from the rows below the folders."""
    from dr_lib.studies.claims import write_report
    from dr_lib.studies.figures import plot_training_time
    from dr_lib.studies.run import read_runs

    out = out or folders[0]
    runs = read_runs(*folders)
    runs.to_csv(out / "runs.csv", index=False)
    write_report(runs, out / "report.md", paper=paper, lang=lang, **choice)
    plot_training_time(runs, lang=lang, **choice).savefig(out / "figure_1.png", dpi=150)
    click.echo(f"wrote runs.csv, figure_1.png and report.md to {out}")


if __name__ == "__main__":
    try:
        main(standalone_mode=False)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (ValueError, RuntimeError) as error:  # ours say what to do; a traceback would hide it
        click.echo(f"Error: {error}", err=True)
        sys.exit(1)
    except (KeyboardInterrupt, click.Abort):
        sys.exit(130)
