"""The command line, python -m dr_lib COMMAND; --help lists the commands."""

import errno
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click
from tqdm import tqdm

from dr_lib.command import write_command
from dr_lib.errors import DrError
from dr_lib.evidence.papers import PAPERS
from dr_lib.files import expand_home
from dr_lib.parameters import ParameterError, read_value

if TYPE_CHECKING:
    import pandas as pd

ROOT = Path(__file__).resolve().parents[1]


class HomePath(click.Path):
    """A path option in which ~ and $HOME are the home directory, also behind an equals sign."""

    def convert(self, value: str | Path, *where: object) -> Path:
        """Convert the text of an option to a path."""
        return super().convert(expand_home(str(value)), *where)


PATH = HomePath(path_type=Path)


class Amount(click.FloatRange):
    """A number option, which is read as a parameter is: 20.000 may mean 20 or 20,000."""

    def convert(self, value: str | float, parameter: click.Parameter, *where: object) -> float:
        """Convert the text of an option to a number."""
        try:
            number = read_value(parameter.name, "float", str(value))
        except ParameterError as error:
            self.fail(str(error), parameter, *where)
        return super().convert(number, parameter, *where)


ADVICE = {  # on what a disk refuses
    "EDQUOT": "your quota is used up: free some space",
    "EIO": "the disk or its connection failed: mount it again",
    "ENOSPC": "free some space",
    "ENOTCONN": "mount the disk again",
    "EROFS": "choose a folder that is not read-only",
    "ESTALE": "mount the disk again",
}
PRECISION = 0.05  # of a mean, for which `plan` counts repetitions: half the interval's width
POSITIVE = Amount(min=0, min_open=True)
INSTANCE = click.option(
    "--instance",
    default="",
    help="machine whose hourly price the runs get  [default: the study's]",
)
LANG = click.option("--lang", default="en", show_default=True, type=click.Choice(["en", "pt"]))
PARAMETERS = click.option(
    "-p",
    "parameters",
    nargs=2,
    multiple=True,
    help="name and value of a notebook parameter, such as allow mode or published no",
)


SHEET = click.option(
    "--sheet", default="", help="sheet to read, where several have the columns"
)
COLUMN = click.option(
    "--column",
    "columns",
    multiple=True,
    help="column of the table to use, by name or number, such as grade=Grau or grade=3; repeatable",
)


def _bar(title: str) -> Callable[[int, int], None]:
    """Show a progress bar, once there is progress, with photographs per second and time left."""
    bar = None

    def show(done: int, total: int) -> None:
        nonlocal bar
        if bar is None:
            # what an earlier run has done is no part of the rate
            bar = tqdm(desc=title, initial=done, total=total, unit=" photographs")
        bar.update(done - bar.n)
        if done == total:
            bar.close()

    return show


class Commands(click.Group):
    """Commands that report an error in one sentence, or with --debug as a traceback."""

    def invoke(self, context: click.Context) -> object:
        """Run the command named on the command line."""
        try:
            return super().invoke(context)
        except (click.Abort, click.exceptions.Exit):  # RuntimeErrors too
            raise
        except KeyboardInterrupt:
            resumes = context.invoked_subcommand in ("run", "prepare")
            click.echo(
                f"stopped{'; repeat the command to resume' if resumes else ''}", err=True
            )
            context.exit(130)
        except click.UsageError as error:
            if "unexpected extra argument" in error.message:
                error.message += ": put a path with spaces in quotes"
            raise
        except Exception as error:
            if context.params["debug"] or isinstance(error, click.ClickException):
                raise
            reason = str(error)
            if isinstance(error, OSError) and error.strerror:
                reason = ": ".join(filter(None, [error.filename, error.strerror]))
                if advice := ADVICE.get(errno.errorcode.get(error.errno)):
                    reason += f": {advice}, and repeat the command"
            elif not isinstance(error, (DrError, ValueError, RuntimeError, OSError)):
                again = write_command("--debug", context.invoked_subcommand, "...")
                reason = f"{type(error).__name__}: {error}; {again} shows the traceback"
            raise click.ClickException(reason) from error


@click.group(cls=Commands)
@click.option("--debug", is_flag=True, help="show tracebacks of errors")
def main(debug: bool) -> None:
    """Train, time, price and serve a fundus model."""


@main.command()
def sample() -> None:
    """Generate the synthetic sample and prepare it."""
    from dr_lib.data.prepared.sample import open_sample

    folder = ROOT / "papermill_runs" / "sample"
    click.echo(f"sample: {open_sample(folder, progress=_bar)}")


@main.command()
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
    "--method", default="robust", show_default=True, type=click.Choice(["robust", "voets"])
)
@click.option(
    "--scheme",
    type=click.Choice(["random", "paper", "official"]),
    help="how to split the patients  [default: random]",
)
@click.option(
    "--patients-by",
    type=click.Choice(["folder", "name"]),
    help="folder if each folder has patients of its own, name if one name is one patient in all; "
    "needed where file names of two folders have the same patient and eye",
)
@click.option(
    "--exclude-unlike-copies",
    is_flag=True,
    help="exclude copies of one picture that have different grades, which are an error otherwise",
)
@click.option(
    "--workers", type=click.IntRange(1), help="number of processes  [default: one per core]"
)
@SHEET
@COLUMN
def prepare(**options) -> None:
    """Prepare photographs and a label table for training. Repeat the command to add photographs
    or correct labels.
    """
    from dr_lib.data.prepared.prepare import prepare

    manifest = prepare(**options, progress=_bar("cropping"))
    for notice in manifest["notices"]:
        click.echo(notice)
    _describe_split("split.csv", manifest["splits"]["split.csv"])
    click.echo(
        f"{manifest['num_photographs']} photographs in, {manifest['num_rejected']} rejected"
    )
    for reason, number in manifest["rejected"].items():
        click.echo(f"  {number} {reason}")
    _describe_statuses(manifest["statuses"])
    private = options["private"] or options["out"].with_name(options["out"].name + ".private")
    tables = "names.csv, rejected.csv, statuses.csv, excluded.csv"
    click.echo(f"{private} names the files: {tables}")


@main.command()
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
        _describe_split(path.name, splits.get(path.name, {}))


def _describe_statuses(statuses: dict[str, int]) -> None:
    """Print how many crops are not ok, by each word of their statuses."""
    if statuses:
        counts = ", ".join(f"{number} {word}" for word, number in statuses.items())
        click.echo(f"crops that are not ok (docs/photographs.md explains the words): {counts}")


def _describe_split(name: str, facts: dict) -> None:
    """Print the sides of a split, the patients who changed sides, and the largest group that
    copies of photographs connect.
    """
    from dr_lib.data.prepared.split import describe_moves

    click.echo(f"{name}:")
    for side, counts in facts.get("counts", {}).items():
        grades = ", ".join(map(str, counts["grades"].values()))
        click.echo(
            f"  {side} {counts['num_images']} photographs of {counts['num_patients']} patients;"
            f" grades 0 to 4: {grades}"
        )
    for sentence in describe_moves(facts):
        click.echo(sentence)
    if facts.get("num_excluded"):
        click.echo(f"{facts['num_excluded']} excluded; {name} lists the reasons")
    if facts and facts["largest_group"]["patients"] > 1:
        click.echo(
            "copies connect {patients} patients ({images} photographs) in the largest group: "
            "see near_duplicates.csv in the private folder".format(**facts["largest_group"])
        )


@main.command()
@click.argument("data_dir", type=PATH)
def verify(data_dir: Path) -> None:
    """Compare every file of a prepared folder with its manifest."""
    from dr_lib.data.prepared.folder import verify

    click.echo(f"{data_dir}: {len(verify(data_dir)['files'])} files, all match the manifest")


@main.command()
@click.argument("names", nargs=-1)
def kernels(names: tuple[str, ...]) -> None:
    """Set up Jupyter kernels for MXNet, PyTorch and JAX, each in its own environment in .kernels/.
    On a machine with a GPU, also add CUDA for TensorFlow to the current environment.
    """
    from dr_lib.hardware.facts import list_gpus
    from dr_lib.runs.kernels import KERNELS, KernelError, add_cuda, set_up

    has_gpu = bool(list_gpus())
    failures = []
    with ThreadPoolExecutor() as pool:  # each is a minute of pip
        ready = {
            name: pool.submit(set_up, name, ROOT / ".kernels", has_gpu=has_gpu)
            for name in names or KERNELS
        }
        if has_gpu and not names:
            ready["python3"] = pool.submit(add_cuda)
        for name, outcome in ready.items():
            try:
                click.echo(f"{name}: {outcome.result()}")
            except KernelError as error:
                failures.append(f"{name}: {error}")
    if failures:
        raise click.ClickException("\n".join(failures))


@main.command()
@click.argument("study", type=PATH)
@click.option(
    "--max-hours", type=POSITIVE, help="save and stop within this time  [default: the study's]"
)
@INSTANCE
@click.option(
    "--only", default="", help="run only this scenario and repetition, such as C3-r02"
)
@click.option(
    "--allow",
    multiple=True,
    type=click.Choice(["notebook_sha256"]),
    help="resume although the notebook has changed",
)
@click.option(
    "--on",
    default="",
    help="run in a Colab or Kaggle session (colab:T4, colab:v5e1, kaggle:t4x2, ...) or on a "
    "Dask cluster (dask:ADDRESS)",
)
@click.option(
    "--on-cpu", is_flag=True, help="run although the study needs a GPU or TPU and there is none"
)
@click.option("--yes", is_flag=True, help="with --on, upload without asking")
def run(study: Path, on: str, yes: bool, **options) -> None:
    """Execute the runs of a study file that are not completed yet."""
    from dr_lib.runs.backlog import ALIKE
    from dr_lib.runs.cluster import run_on_cluster
    from dr_lib.runs.remote import far_side
    from dr_lib.runs.runner import run_study

    service, _, address = on.partition(":")
    if service == "dask":
        failures = run_on_cluster(study, ROOT, address, **options)
    elif on:
        from dr_lib.runs.remote.session import run_on_service

        failures = run_on_service(
            study, ROOT, on, confirm=partial(_confirm, yes), say=click.echo, **options
        )
    else:
        failures = run_study(study, ROOT, **options, wait=bool(options["only"]))
    if failures:
        is_alike = failures[-1] == ALIKE
        number = len(failures) - is_alike
        what = "1 run" if number == 1 else f"{number} runs"
        error = click.ClickException("\n".join([f"{what} failed:", *failures]))
        error.exit_code = far_side.ALIKE if is_alike else 1
        raise error


def _confirm(yes: bool, what: str) -> None:
    """Print what will be uploaded and ask for confirmation."""
    click.echo(f"will upload {what}")
    if not yes and not sys.stdin.isatty():
        raise click.ClickException("no terminal to ask for confirmation: add --yes to upload")
    if not yes:
        click.confirm("upload?", abort=True)


@main.command()
@click.argument("study", type=PATH)
@INSTANCE
@click.option(
    "--commands",
    is_flag=True,
    help="print one command per incomplete run and machine, for use with any scheduler",
)
def plan(study: Path, instance: str, commands: bool) -> None:
    """List the runs of a study file, with the time, cost and repetitions still needed."""
    from dr_lib import hardware
    from dr_lib.runs.backlog import Backlog
    from dr_lib.runs.cluster import list_commands
    from dr_lib.runs.folder import check_data, check_folder
    from dr_lib.runs.machines import check_kernels
    from dr_lib.runs.study import (
        check_needs,
        check_paths,
        find_results,
        load_study,
        name_machine,
        plan_runs,
    )

    folder = find_results(study)
    design = load_study(study, ROOT, instance=instance)
    check_folder(folder, design)
    facts = hardware.probe()
    runs = plan_runs(design, name_machine(facts))
    backlog = Backlog(design, folder, runs, runs)
    backlog.read()
    check_data(folder, runs, backlog.rows, ROOT)
    if commands:
        left = [run for run in runs if backlog.row(run)["status"] != "ok"]
        return click.echo("\n".join(list_commands(study, left)))
    for run in runs:
        levels = ", ".join(f"{name}={run.parameters[name]}" for name in design.factors)
        status = backlog.row(run)["status"] or "to do"
        click.echo(f"{run.order:4d}  {run.run_id}  {status:8}  {levels}")
    click.echo(backlog.describe(study, PRECISION))
    for line in _list_undecided(study, design.repetitions):
        click.echo(line)
    # behind --commands, which may be for machines with other files
    check_paths(design, study, ROOT)
    check_kernels(runs)
    if design.notebook == "10_train":
        _check_networks({run.parameters.get("model", "small_cnn") for run in runs})
    try:
        check_needs(design, study, facts)
    except DrError as error:
        click.echo(str(error))


def _check_networks(names: set[str]) -> None:
    """Refuse a network that there is not; only an uncommon one takes the time to import Keras."""
    for name in names - {"small_cnn", "mobilenet", "inception_v3", "vgg19"}:
        from dr_lib.training.models import find_network

        find_network(name)


def _list_undecided(study: Path, repetitions: int) -> Iterator[str]:
    """List the claims that need more repetitions and those that the rows leave undecided."""
    from dr_lib.evidence.claims import read_judged
    from dr_lib.runs.row import read_rows, read_runs

    folder = study.with_suffix("")
    for name in [name for name, paper in PAPERS.items() if study.stem in paper.studies]:
        for claim in read_judged(name):
            if (claim.needs or 0) > repetitions:
                yield f"claim {claim.id} needs about {claim.needs} repetitions to be decided"
        if not read_rows(folder):
            continue
        try:
            judged = _judge(name, read_runs(folder), [folder])
        except DrError as error:  # what is left to do is planned all the same
            yield f"the claims of paper {name} cannot be judged: {error}"
            continue
        for row in judged[judged["verdict"] == "undecided"].itertuples():
            yield f"claim {row.id} is undecided: {row.reason}"


def _judge(
    paper: str,
    runs: "pd.DataFrame",
    folders: Sequence[Path],
    *,
    allowed: Sequence[str] = (),
    bills: Sequence[float] = (),
) -> "pd.DataFrame":
    """Judge the claims of a paper by its rows among `runs`; `allowed` columns may differ."""
    from dr_lib.evidence.rows import list_paper_rows, select_paper
    from dr_lib.evidence.scenarios import add_bills
    from dr_lib.evidence.verdicts import judge_claims

    rows = list_paper_rows(paper, runs)
    selection = select_paper(paper, rows, folders, allowed=allowed)
    if bills and paper == "C":
        selection = selection._replace(timed=add_bills(selection, bills))
    return judge_claims(paper, selection)


@main.command()
@click.argument("folders", type=PATH, nargs=-1, required=True)
@click.option("--out", type=PATH, help="folder to write  [default: the first folder]")
@click.option(
    "--notebook",
    default="",
    help="analysis notebook  [default: the study's, or the one that reads its rows]",
)
@LANG
@PARAMETERS
@click.option(
    "--deposit", type=PATH, help="new folder for report, rows and checksums, ready to publish"
)
def report(
    folders: tuple[Path, ...],
    out: Path | None,
    deposit: Path | None,
    notebook: str,
    lang: str,
    parameters: tuple,
) -> None:
    """Run the analysis notebook on the rows below the folders, and write report.html with its
    figures and tables.
    """
    from dr_lib.notebook.report import write_report

    choice = {"notebook": notebook, "lang": lang, **dict(parameters)}
    if deposit:
        from dr_lib.notebook.deposit import write_deposit

        readme = write_deposit(folders, deposit, ROOT, **choice)
        return click.echo(f"wrote {readme} and the files it lists")
    page = write_report(folders, out or folders[0], ROOT, **choice)
    click.echo(
        f"wrote {page}, its figures (PNG, PDF) and tables (CSV, LaTeX), and runs.csv next to it"
    )


@main.command()
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
def evaluate(
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
    from dr_lib.evidence.predictions import join_paths, pool_folds, read_predictions
    from dr_lib.files import find_listed
    from dr_lib.notebook.report import run_analysis

    choice = dict(parameters)
    if prepared := choice.get("private"):
        choice["private"] = str(Path(prepared).absolute())
        out = place_private(out, Path(prepared))
    if any(out.glob("[!.]*")) and out / "checklist.csv" not in find_listed(out):
        raise DrError(
            f"{out} holds files that no evaluation listed there: give --out a new or empty folder"
        )
    # report errors before the notebook starts
    if folds:
        pool_folds(predictions, sheet=sheet, columns=columns)
    else:
        read_predictions(*predictions, sheet=sheet, columns=columns)
    choice = {
        "predictions": join_paths([path.resolve() for path in predictions]),
        "folds": folds,
        "sheet": sheet,
        "columns": join_paths(columns),
        "lang": lang,
        **choice,
    }
    page = run_analysis(ROOT / "notebooks" / "12_evaluate.ipynb", out, ROOT, **choice)
    click.echo(
        f"wrote {page}, its figures (PNG, PDF) and tables (CSV, LaTeX), checklist.csv and "
        "MODEL_CARD.md next to it"
    )


@main.command()
@click.argument("folders", type=PATH, nargs=-1)
@click.option("--out", type=PATH, help="CSV to write, one row per claim, with reasons")
@click.option(
    "--bill",
    "bills",
    type=POSITIVE,
    multiple=True,
    help="USD paid for the runs of paper C; repeatable, each bill for the same number of runs",
)
@click.option(
    "--allow",
    default="",
    help="columns in which rows may differ, such as mode,commit",
)
@click.option("--only", default="", help="values of the rows to choose, such as epochs=20")
def claims(
    folders: tuple[Path, ...], out: Path | None, bills: tuple[float, ...], allow: str, only: str
) -> None:
    """List every claim of the papers with its verdict from the rows below the folders. Without a
    folder, count the claims.
    """
    import pandas as pd

    from dr_lib.evidence.claims import count_claims
    from dr_lib.evidence.rows import choose_rows
    from dr_lib.evidence.select import UnlikeRunsError, list_columns, list_faults
    from dr_lib.evidence.verdicts import PRELIMINARY, count_by_chance
    from dr_lib.numbers import write_span
    from dr_lib.runs.row import read_runs

    if not folders:
        header = ["paper", "judged by notebook", "rows of", "on", "claims"]
        for line in (header, ["---"] * 5, *count_claims().astype(str).to_numpy()):
            click.echo(f"| {' | '.join(line)} |")
        return
    runs = choose_rows(read_runs(*folders), only)
    tables = []
    notes = list_faults(runs)
    allowed = list_columns(allow, runs)
    for name in PAPERS:
        try:
            judged = _judge(name, runs, folders, allowed=allowed, bills=bills)
        except UnlikeRunsError as error:  # the other papers' rows are none the worse for it
            notes.append(f"paper {name} cannot be judged: {error}")
            continue
        tables.append(judged.sort_index())
        number = (judged["verdict"] == "not measured").sum()
        if number:
            notes.append(f"paper {name}: no rows measure {number} of {len(judged)} claims")
    table = pd.concat(tables, ignore_index=True) if tables else pd.DataFrame()
    cells = [["id", "verdict", "published", "ours", "claim"]]
    for row in table.itertuples():
        ours = f"{write_span(row._asdict(), 'ours')}, n = {row.n}" if row.n else "-"
        ours += f", {row.num_disturbed} disturbed" if row.num_disturbed else ""
        if row.num_left_out:
            ours += f", without {row.num_left_out} outliers (with them {row.over_all:.4g})"
        if row.verdict == PRELIMINARY or row.looks > 1:
            notes.append(f"{row.id}: {row.reason}")
        if row.verdict != "not measured":
            cells.append([row.id, row.verdict, row.published, ours, row.words])
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for line in cells if len(cells) > 1 else []:
        padded = map(str.ljust, line, widths)
        click.echo("  ".join(padded).rstrip())
    for note in notes:
        click.echo(note)
    num_given, by_chance = count_by_chance(table) if tables else (0, 0.0)
    if num_given:
        click.echo(
            f"of {num_given} verdicts that follow from no other, at most {by_chance:.1f} are "
            "expected to be wrong by chance"
        )
    if out:
        table.to_csv(out, index=False)


@main.command()
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
@click.option(
    "--accuracy-within",
    type=POSITIVE,
    help="largest loss of AUC and kappa allowed to a format  [default: any]",
)
def price(
    folders: tuple[Path, ...],
    requests_per_day: float,
    p99_ms: float,
    accuracy_within: float | None,
) -> None:
    """Find the cheapest endpoint in the load tests below the folders."""
    from dr_lib.evidence.select import list_faults
    from dr_lib.evidence.serving.endpoint import (
        list_endpoints,
        price_endpoints,
        tabulate_endpoints,
    )
    from dr_lib.figures.page import Page
    from dr_lib.figures.serving import describe_choice
    from dr_lib.runs.prices import PRICES_VARIABLE, read_own_prices
    from dr_lib.runs.row import read_runs

    runs = read_runs(*folders)
    for fault in list_faults(runs):
        click.echo(fault)
    endpoints = list_endpoints(runs, *folders, p99_ms=p99_ms)
    priced = price_endpoints(
        endpoints,
        requests_per_day=requests_per_day,
        accuracy_within=accuracy_within,
    )
    table = Page().format(tabulate_endpoints(priced), "endpoints")
    click.echo(table.to_string(index=False))
    click.echo("\n".join(describe_choice(priced)))
    own = {each.instance for each in read_own_prices()}
    if own and own.isdisjoint(priced["instance"]):
        names = ", ".join(sorted(own))
        click.echo(
            f"the table of {PRICES_VARIABLE} was not used: it has prices of {names} alone"
        )


@main.command()
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
    multiple=True,
    help="format such as litert_int8, repeatable  [default: all serving formats]",
)
@click.option(
    "--force",
    is_flag=True,
    help="also write formats that fail the accuracy gate or cannot be judged",
)
@click.option(
    "--pack", is_flag=True, help="also write FORMAT.tar.gz, as SageMaker's model.tar.gz"
)
def export(
    model: Path,
    data_dir: Path,
    out: Path,
    formats: tuple[str, ...],
    force: bool,
    pack: bool,
) -> None:
    """Convert a model folder of notebook 10 and keep the formats that pass the accuracy gate."""
    from dr_lib.hardware import import_keras

    import_keras("tensorflow")
    from dr_lib.data.prepared.folder import Prepared, find_split
    from dr_lib.serving.export.convert import FORMATS
    from dr_lib.serving.export.export import export_model, pack_folder
    from dr_lib.serving.export.gate import Labelled
    from dr_lib.serving.grader.folder import read_folder

    facts = read_folder(model).facts
    size = facts["image_size"]
    prepared = Prepared(data_dir, find_split(data_dir, facts["split_sha256"]))
    # decodes the few that are taken
    calibration = prepared.load("train", size, stream=True)
    test = prepared.load("test", size)
    split_sha256 = prepared.describe(facts)["split_sha256"]
    exported = export_model(
        model,
        out,
        formats=formats or [name for name in FORMATS if not name.startswith("onnx")],
        calibration=calibration.images[:100],
        labelled=Labelled(test.images, test.grade, test.patient_id, split_sha256),
        force=force,
        say=click.echo,
    )
    for row in exported.itertuples():
        outcome = f"refused: {row.reason}"
        if row.folder:
            outcome = f"{row.folder} (forced: {row.reason})" if row.forced else row.folder
        change = (
            f"AUC {row.auc_difference:+.4f}  kappa {row.kappa_difference:+.4f}  sensitivity"
            f" {row.sensitivity_before:.3f} to {row.sensitivity_after:.3f}"
        )
        click.echo(f"{row.format:20} {row.artifact_mib:7.2f} MiB  {change}  {outcome}")
        if pack and row.folder:
            pack_folder(Path(row.folder), out / f"{row.format}.tar.gz")
    if not exported["folder"].any():
        again = write_command(*sys.argv[1:], "--force")
        raise click.ClickException(
            f"every format failed the accuracy gate; to write them anyway: {again}"
        )


@main.command()
@click.argument("model", type=PATH)
@click.argument("images", type=PATH, nargs=-1, required=True)
@click.option(
    "--out",
    type=PATH,
    required=True,
    help="CSV to write; it names the files, so keep it private",
)
@click.option(
    "--workers",
    type=click.IntRange(1),
    help="number of processes  [default: one per core if there are many files]",
)
@click.option(
    "--external",
    is_flag=True,
    help="confirm that the model was not trained on photographs of this prepared folder",
)
@click.option(
    "--by-patient",
    is_flag=True,
    help="also write one answer per patient (files PATIENT_left.jpg or PATIENT_OD.jpg, or "
    "--labels) next to the CSV",
)
@click.option(
    "--labels", type=PATH, help="with --by-patient, table with the columns image and patient"
)
@SHEET
@COLUMN
@click.option(
    "--sep",
    default=",",
    show_default=True,
    type=click.Choice([",", ";"]),
    help="separator of the CSV; with ; decimal commas too, for Excel in Brazil",
)
def predict(
    model: Path,
    images: tuple[Path, ...],
    out: Path,
    workers: int | None,
    external: bool,
    by_patient: bool,
    sep: str,
    labels: Path | None,
    **table,
) -> None:
    """Grade photographs, given as files or folders, with an exported model.

    For one prepared folder, it writes predictions to evaluate, which name no file; MODEL may then
    be a trained model too.
    """
    from dr_lib.serving.grader import grade_files as grader
    from dr_lib.serving.grader.folder import read_folder

    is_prepared = len(images) == 1 and (images[0] / "manifest.json").is_file()
    if labels and not by_patient:
        raise click.UsageError("--labels needs --by-patient: give both")
    if external and not is_prepared:
        raise click.UsageError("--external needs one prepared folder: leave it out")
    if is_prepared and (by_patient or sep != ","):
        raise click.UsageError(
            "--by-patient and --sep need photographs, not a prepared folder: leave them out"
        )
    if is_prepared:
        grader.grade_prepared(
            read_folder(model),
            images[0],
            out,
            is_external=external,
            progress=_bar("grading"),
        )
        return click.echo(f"wrote {out}; {write_command('evaluate', out, '--out', 'FOLDER')}")
    answers = out.with_name(f"{out.stem}.patients.csv")
    if by_patient and answers.exists():
        raise click.ClickException(f"{answers} exists and is not overwritten: move it")
    files = grader.list_photographs(images)
    patients = grader.find_patients(files, labels, **table) if by_patient else None
    reasons, statuses = grader.grade_files(
        read_folder(model),
        files,
        out,
        workers=workers,
        sep=sep,
        progress=_bar("grading"),
    )
    click.echo(f"wrote {out}; {reasons.total()} photographs could not be graded")
    for reason, number in reasons.most_common():
        click.echo(f"  {number} {reason}")
    _describe_statuses(statuses)
    if by_patient:
        counts = grader.refer_patients(out, patients, answers, sep)["answer"].value_counts()
        num_referred, num_open = (counts.get(word, 0) for word in ("refer", "grade by hand"))
        click.echo(
            f"{counts.sum()} patients: {num_referred} to refer, {num_open} to grade by hand."
            " This is not a medical device."
        )
        num_alone = patients.isin(list(map(str, files))).sum()
        if num_alone:
            click.echo(f"photographs of unknown patients, each counted as one: {num_alone}")
        click.echo(
            f"{counts.sum()} pacientes: {num_referred} a encaminhar, {num_open} a avaliar por "
            "uma"
            " pessoa. Isto não é um dispositivo médico."
        )


@main.command(context_settings={"ignore_unknown_options": True, "help_option_names": []})
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def serve(arguments: tuple[str, ...]) -> None:
    """Serve an exported model over HTTP, as the container does; --help lists the options."""
    from dr_lib.serving.__main__ import main as serve_main

    serve_main(["serve", *arguments])


@main.command()
@click.argument("url")
@click.option("--images", type=PATH, required=True, help="folder of JPEG files to send")
@click.option(
    "--requests",
    "num_requests",
    default=25,
    show_default=True,
    help="number of requests, in a closed loop",
)
@click.option(
    "--gap", "gap_s", default=5.0, type=Amount(0), help="seconds between requests  [default: 5]"
)
@click.option("--out", type=PATH, required=True, help="CSV to write, one row per request")
def load(
    url: str,
    images: Path,
    num_requests: int,
    gap_s: float,
    out: Path,
) -> None:
    """Time an endpoint at URL, such as http://127.0.0.1:8080/invocations or sagemaker:NAME."""
    from dr_lib.data.labels.label_files import find_files
    from dr_lib.serving.server.load import QUANTILES, run_closed_loop, summarise_load

    photographs = find_files(images)[0] if images.is_dir() else [images]
    bodies = [path for path in photographs if path.suffix.lower() in (".jpg", ".jpeg")]
    if not bodies:
        raise click.ClickException(
            f"no JPEG files below {images}: set --images to the folder of the photographs to "
            "send"
        )
    out.parent.mkdir(parents=True, exist_ok=True)
    out.touch()  # better now than after the requests
    requests = run_closed_loop(url, bodies, num_requests=num_requests, gap_s=gap_s)
    requests.to_csv(out, index=False)
    failed = requests[requests["error"] != ""]
    if len(failed) == len(requests):
        raise click.ClickException(f"no request was answered: {failed['error'].iloc[0]}")
    summary = summarise_load(requests)
    summary["first_ms"] = requests.loc[requests["error"] == "", "round_trip_ms"].iloc[0]
    times = [
        f"{name.removesuffix('_ms')} {summary[name]:.1f} ms"
        for name in (*QUANTILES, "first_ms")
        if summary[name] > 0  # too few answers for a percentile
    ]
    click.echo(f"{summary['n']} requests, {', '.join(times)}: {out}")
    if len(failed):
        click.echo(
            f"{len(failed)} were not answered; the first error: {failed['error'].iloc[0]}"
        )


if __name__ == "__main__":
    main()
