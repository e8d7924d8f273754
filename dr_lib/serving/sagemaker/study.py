"""Run a study of notebook 22 on SageMaker: an endpoint for each run, and nothing left behind."""

import hashlib
import os
import platform
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import click

from dr_lib import hardware
from dr_lib.errors import DrError
from dr_lib.files import lock
from dr_lib.runs.backlog import Backlog
from dr_lib.runs.prices import find_price
from dr_lib.runs.runner import run_study
from dr_lib.runs.study import (
    PlannedRun,
    find_results,
    find_runs,
    load_study,
    name_machine,
    plan_runs,
)
from dr_lib.serving.export.export import pack_folder
from dr_lib.serving.sagemaker import deployment
from dr_lib.serving.sagemaker.account import ENDPOINT, Account, call
from dr_lib.training.model_folder import read_folder

RUN_HOURS = 0.25  # of an endpoint: some ten minutes to come up, and the measurement


def run_on_sagemaker(
    path: Path,
    root: Path,
    on: str,
    *,
    yes: bool,
    max_hours: float | None = None,
    instance: str = "",
    only: str = "",
    on_cpu: bool = False,
) -> list[str]:
    """Make an endpoint for each run that is left, measure it with the run, and delete it.

    What an earlier command left is deleted first. The first failure ends the study.

    Args, and what is returned, are those of `run_study`, besides:
        on: sagemaker.
        yes: begin without a question.
        max_hours: no run begins after.

    Raises:
        DrError: something is missing, or AWS refused; what was made is deleted.
    """
    runs = _list_left(path, root, only)
    folder = find_results(path)
    folder.mkdir(exist_ok=True)
    host = f"{platform.node()}/{folder.absolute()}"
    prefix = f"fundus-{hashlib.sha256(host.encode()).hexdigest()[:8]}-"
    stop_at = time.monotonic() + 3600 * (max_hours or 1000)
    held = lock(folder / "sagemaker.lock")
    if held is None:
        raise DrError(f"another process runs {path} on SageMaker: wait for it, or end it")
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: sys.exit(1))  # which deletes what was made
    with held, tempfile.TemporaryDirectory() as scratch:
        account = Account()
        ledger = deployment.Ledger(folder / "sagemaker.tsv")
        _delete_left(account, ledger, prefix)
        models = {run.name: _find_model(run, root) for run in runs}
        if not _is_wanted(account, runs, yes):
            return []
        package = Path(scratch) / "model.tar.gz"
        for number, run in enumerate(runs, start=1):
            if time.monotonic() > stop_at:
                click.echo("the time is up; start again to resume")
                break
            click.echo(f"run {number} of {len(runs)}: {run.name}")
            pack_folder(models[run.name], package)
            name = prefix + run.name.lower()
            machine = run.parameters["instance"]
            try:
                deployment.create(account, ledger, name, machine, package)
                os.environ[ENDPOINT] = name
                failures = run_study(path, root, only=run.name, on_cpu=on_cpu)
            finally:
                deployment.delete(account, ledger)
            if failures:
                return failures
    return []


def _list_left(path: Path, root: Path, only: str) -> list[PlannedRun]:
    """List the runs of a study that have no row yet, in their order."""
    study = load_study(path, root)
    if "instance" not in study.factors:
        raise DrError(f"{path}: SageMaker takes studies of notebook 22 with a factor instance")
    planned = plan_runs(study, name_machine(hardware.probe()))
    backlog = Backlog(study, find_results(path), find_runs(planned, only, path), planned)
    backlog.read()
    return backlog.list_left()


def _find_model(run: PlannedRun, root: Path) -> Path:
    """Find the model that a run serves, as the notebook does."""
    parameters = run.parameters
    served = root / parameters["served_dir"]
    folder = served / parameters["model"] / parameters["format"]
    return read_folder(folder if folder.is_dir() else served).path


def _delete_left(account: Account, ledger: deployment.Ledger, prefix: str) -> None:
    """Delete what an earlier command left: by the ledger, and endpoints by name and tag."""
    sagemaker = account.sagemaker
    found = call("looking for endpoints", sagemaker.list_endpoints, NameContains=prefix)
    for endpoint in found["Endpoints"]:
        name = endpoint["EndpointName"]
        arn = endpoint["EndpointArn"]
        tags = call("reading tags", sagemaker.list_tags, ResourceArn=arn)["Tags"]
        if deployment.tag(name)[0] in tags:
            for kind in deployment.KINDS:
                ledger.note("create", kind, name)
    if left := ledger.list_left():
        names = ", ".join(sorted({name for _, name in left}))
        click.echo(f"deleting what an earlier command left: {names}")
        deployment.delete(account, ledger)


def _is_wanted(account: Account, runs: list[PlannedRun], yes: bool) -> bool:
    """Check that all can be made, show it with its price, and ask."""
    if not runs:
        click.echo("all runs are already completed")
        return False
    instances = Counter(run.parameters["instance"] for run in runs)
    account.check(instances)
    total = 0.0
    for name, number in sorted(instances.items()):
        usd_per_hour = find_price(name).usd_per_hour
        total += number * usd_per_hour
        click.echo(f"{number:3d} endpoints of {name}, {usd_per_hour} USD an hour")
    click.echo(
        f"{len(runs)} endpoints in {account.region}, one after the other, some"
        f" {RUN_HOURS * len(runs):.1f} hours, {RUN_HOURS * total:.2f} USD, and at most"
        f" {deployment.HOURS * total:.2f} USD; models go to bucket {account.bucket}"
    )
    if not (yes or sys.stdin.isatty()):
        raise DrError("no terminal to ask for confirmation: add --yes")
    return yes or click.confirm("make them?", abort=True)
