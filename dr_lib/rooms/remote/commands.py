"""Run a study in a session of Colab or Kaggle."""

import json
import platform
import secrets
import shutil
import sys
import tempfile
from collections.abc import Collection
from datetime import UTC, datetime
from pathlib import Path

import click

from dr_lib.errors import DrError
from dr_lib.rooms.remote import remote_script
from dr_lib.rooms.remote.colab import Colab
from dr_lib.rooms.remote.kaggle import Kaggle
from dr_lib.rooms.remote.pack import pack_up
from dr_lib.rooms.remote.session import Record, Session, read_records
from dr_lib.runs.backlog import ANY, Backlog
from dr_lib.runs.folder import check_data, check_notebook, keep_for, lock_study
from dr_lib.runs.row import read_rows
from dr_lib.runs.study import Study, find_results, find_runs, load_study, plan_runs

SERVICES: dict[str, type[Session]] = {
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
    null: bool = False,
    allow: Collection[str] = (),
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
        check_notebook(study, root, read_rows(folder), allow)
        now = datetime.now(UTC)
        name = f"dr-{on.replace(':', '-').lower()}-{now:%Y%m%d-%H%M%S}-{secrets.token_hex(3)}"
        record = Record(
            session=name,
            on=on,
            host=platform.node(),
            started=now.isoformat(timespec="seconds"),
            hours=max_hours or study.max_hours or 24.0,  # no session lasts longer
        )
        session = SERVICES[on](record, folder, click.echo)
        record.runs = _list_left(session, study, path, root, only, null)
        if not record.runs:
            return []

        session.check()
        notice = session.prepare()
        upload = Path(scratch)
        contents = pack_up(Path(path), study, root, upload)
        where = f"to {session.name}, for {len(record.runs)} runs on {session.device}"
        click.echo(f"will upload {contents}\n{where}\n{notice}")
        if not yes and not sys.stdin.isatty():
            raise DrError("no terminal to ask for confirmation: add --yes to upload")
        if not yes:
            click.confirm("upload?", abort=True)
        settings = {
            "home": session.home,
            "results": session.results,
            "platform": session.platform,
            "device": session.pattern,
            "study": f"papermill_runs/{Path(path).name}",
            "session": name,
            "runs": record.runs,
            "hours": record.hours,
        }
        (upload / remote_script.SETTINGS).write_text(json.dumps(settings), encoding="utf-8")
        shutil.copy(remote_script.__file__, upload)
        session.reach("requested")
        click.echo(f"{name} begins")
        return session.make(upload)


def _list_left(
    session: Session, study: Study, path: Path, root: Path, only: str, null: bool
) -> list[str]:
    """List the runs that this device has not completed and can make."""
    planned = plan_runs(study, ANY, null=null)
    backlog = Backlog(study, session.folder, find_runs(planned, only, path), planned)
    rows = read_rows(session.folder)
    is_on = remote_script.is_on
    backlog.take_in(row for row in rows if is_on(row, session.platform, session.pattern))
    check_data(session.folder, backlog.runs, backlog.rows, root)
    left = backlog.list_left()
    skipped = backlog.find_skipped()
    possible = [run.name for run in left if run.scenario not in skipped]
    if not possible:
        number = len(backlog.runs)
        click.echo(f"all {number} runs are already completed on {session.record.on}")
        for error in sorted({skipped[run.scenario] for run in left}):
            click.echo(f"scenarios skipped there: {error}")
    return possible


def _close_open_sessions(folder: Path) -> None:
    """Resume and close sessions that were started here and are still open.

    Raises:
        RemoteError: one cannot be closed, so that no other may begin.
    """
    for record in read_records(folder):
        if record.state == "closed":
            continue
        if record.host != platform.node():
            where = f"was opened on {record.host} and not closed"
            click.echo(f"{record.session} {where}: repeat the command there to close it")
            continue
        click.echo(f"{record.session} is still {record.state}; an earlier client was stopped")
        for failure in SERVICES[record.on](record, folder, click.echo).make():
            click.echo(failure)
