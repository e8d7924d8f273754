"""Run a study in a session of Colab or Kaggle."""

import platform
import shutil
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from secrets import token_hex

import click

from dr_lib.errors import DrError
from dr_lib.files import write_json
from dr_lib.remote import remote_script
from dr_lib.remote.colab import Colab
from dr_lib.remote.kaggle import Kaggle
from dr_lib.remote.pack import pack_up
from dr_lib.remote.remote_script import is_on
from dr_lib.remote.session import read_records
from dr_lib.runs.backlog import ANY, Backlog
from dr_lib.runs.folder import keep_for, lock_study
from dr_lib.runs.row import read_rows
from dr_lib.runs.study import find_results, find_runs, load_study, plan_runs

SERVICES = {
    f"{service.platform}:{device}": service
    for service in (Colab, Kaggle)
    for device in service.devices
}


def run_on_service(
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
    """Execute, in one session, the runs of a study not yet completed on a service's device.

    Rows, executed notebooks, logs and what the runs leave go to the study's folder, where
    `run_study` would put them. A run that the session's end cuts off is made again in the next.

    Args, and what is returned, are those of `run_study`, besides:
        on: service and device, such as colab:T4.
        yes: upload without a question.
        max_hours: of the session.

    Raises:
        DrError: the study is not valid, or no such device can be requested.
        RemoteError: the service did not do what was requested; what came until then is saved, and
            what goes on there has been printed.
    """
    if on not in SERVICES:
        raise DrError(f"unknown device {on!r}: choose from {', '.join(SERVICES)}")
    folder = find_results(path)
    with lock_study(folder), tempfile.TemporaryDirectory() as scratch:
        _close_open_sessions(folder)
        study = load_study(path, root, instance=instance)
        if on_cpu:
            study.needs = []
        keep_for(folder, study)
        planned = plan_runs(study, ANY)
        backlog = Backlog(study, folder, find_runs(planned, only, path), planned)
        name = f"dr-{on.replace(':', '-')}-{datetime.now(UTC):%Y%m%d-%H%M%S}-{token_hex(3)}"
        hours = max_hours or study.max_hours or 24.0  # no session lasts longer
        session = SERVICES[on](folder, name.lower(), on, platform.node(), hours)
        rows = read_rows(folder)
        backlog.take_in(row for row in rows if is_on(row, session.platform, session.pattern))
        session.runs = _list_left(backlog, on)
        if not session.runs:
            return []

        notice = session.prepare()
        upload = Path(scratch)
        contents = pack_up(path, study, root, upload)
        where = f"to {session.name}, for {len(session.runs)} runs on {session.device}"
        killed = "if this command is killed, the session goes on: repeat the command"
        click.echo(f"will upload {contents}\n{where}\n{notice}\n{killed}, or {session.by_hand}")
        if not yes:
            if not sys.stdin.isatty():
                raise DrError("no terminal to ask for confirmation: add --yes to upload")
            click.confirm("upload?", abort=True)
        settings = {
            "platform": session.platform,
            "device": session.pattern,
            "study": f"papermill_runs/{path.name}",
            "session": session.session,
            "runs": session.runs,
            "hours": session.hours,
        }
        write_json(upload / remote_script.SETTINGS, settings)
        shutil.copy(remote_script.__file__, upload)
        session.reach("requested")
        click.echo(f"{session.session} begins")
        return session.make(upload)


def _list_left(backlog: Backlog, on: str) -> list[str]:
    """List the runs that this device has not completed and can make."""
    backlog.unavailable = backlog.find_skipped()
    left = [run.name for run in backlog.list_left()]
    if not left:
        click.echo(f"all {len(backlog.runs)} runs are already completed on {on}")
        for error in sorted({*backlog.unavailable.values()}):
            click.echo(f"scenarios skipped there: {error}")
    return left


def _close_open_sessions(folder: Path) -> None:
    """Resume and close sessions that were started here and are still open.

    Raises:
        RemoteError: one cannot be closed, so that no other may begin.
    """
    for record in read_records(folder):
        name = record["session"]
        if record["state"] == "closed":
            continue
        if record["host"] != platform.node():
            where = f"was opened on {record['host']} and not closed"
            click.echo(f"{name} {where}: repeat the command there to close it")
            continue
        click.echo(f"{name} is still {record['state']}; an earlier client was stopped")
        for failure in SERVICES[record["on"]](folder, **record).make():
            click.echo(failure)
