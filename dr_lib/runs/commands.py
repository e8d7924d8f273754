"""The commands that execute a study, and say what is left of it."""

from pathlib import Path

import click

from dr_lib.command import write_lasting_command
from dr_lib.errors import DrError
from dr_lib.options import INSTANCE, PATH, POSITIVE, Suite


@click.command()
@click.argument("study", type=PATH)
@click.option(
    "--max-hours", type=POSITIVE, help="save and stop within this time  [default: the study's]"
)
@INSTANCE
@click.option(
    "--only", default="", help="run only this scenario and repetition, such as C3-r02"
)
@click.option(
    "--on",
    default="",
    help="run in a Colab or Kaggle session (colab:T4, colab:v5e1, kaggle:t4x2, ...), on a "
    "Dask cluster (dask:ADDRESS), or against endpoints of SageMaker (sagemaker)",
)
@click.option(
    "--on-cpu", is_flag=True, help="run although the study needs a GPU or TPU and there is none"
)
@click.option("--yes", is_flag=True, help="with --on, upload and pay without asking")
@click.pass_obj
def run(suite: Suite, study: Path, on: str, yes: bool, **options) -> None:
    """Execute the runs of a study file that are not completed yet."""
    from dr_lib.runs.backlog import STOPPED, STOPPED_STATUS
    from dr_lib.runs.runner import run_study

    if on == "sagemaker" and options["instance"]:
        raise click.UsageError("on SageMaker each run of the study names its instance")
    if on:
        start = suite.find_target("run", on)
        failures = start(study, suite.root, on, yes=yes, **options)
    else:
        failures = run_study(study, suite.root, **options)
    if failures:
        is_stopped = failures[-1] == STOPPED
        number = len(failures) - is_stopped
        what = "1 run" if number == 1 else f"{number} runs"
        error = click.ClickException("\n".join([f"{what} failed:", *failures]))
        error.exit_code = STOPPED_STATUS if is_stopped else 1
        raise error


@click.command()
@click.argument("study", type=PATH)
@INSTANCE
@click.pass_obj
def plan(suite: Suite, study: Path, instance: str) -> None:
    """List the runs of a study file, with the time and cost of the rest."""
    from dr_lib import hardware
    from dr_lib.runs.backlog import Backlog
    from dr_lib.runs.folder import check_folder
    from dr_lib.runs.study import (
        check_needs,
        check_paths,
        find_refused,
        find_results,
        load_study,
        name_machine,
        plan_runs,
        read_heading,
    )

    root = suite.root
    folder = find_results(study)
    design = load_study(study, root, instance=instance)
    check_folder(folder, design)
    facts = hardware.probe()
    runs = plan_runs(design, name_machine(facts))
    refused = find_refused(design, runs, facts)
    backlog = Backlog(design, folder, runs, runs, unavailable=refused)
    backlog.read()
    needs = ""
    words = ["run", study]
    try:
        check_needs(design, study, facts)
    except DrError as error:
        needs = str(error)
        words += ["--on", "kaggle:t4x2" if "gpu" in design.needs else "kaggle:v5e8"]
    if heading := read_heading(study):
        click.echo(heading)
    skipped = backlog.find_skipped()
    for run in runs:
        levels = ", ".join(f"{name}={run.parameters[name]}" for name in design.factors)
        status = backlog.row(run)["status"] or "to do"
        if status != "ok" and run.scenario in skipped:
            status = "skipped"
        click.echo(f"{run.order:4d}  {run.run_id}  {status:8}  {levels}")
    click.echo(backlog.describe(write_lasting_command(*words, "--only")))
    if needs:
        click.echo(needs)
    check_paths(design, study, root)
