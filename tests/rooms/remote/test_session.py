"""Sessions against stand-ins of the two clients: rows come back, and whatever happens nothing is
left running.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import tarfile
import time
import zipfile
from contextlib import nullcontext
from datetime import datetime, timedelta

import pytest
from click.testing import CliRunner

from dr_lib.__main__ import main
from dr_lib.data.prepared.folder import Prepared
from dr_lib.data.prepared.split import split
from dr_lib.rooms.remote import colab, kaggle, remote_script, session
from dr_lib.rooms.remote.client import RemoteError
from dr_lib.rooms.remote.record import Record, read_records
from dr_lib.runs.row import read_rows
from tests.runs.conftest import complete, write_study

PRICE = (
    "provider,instance,region,currency,usd_per_hour,date,source\nGoogle,colab"
    " unit,,USD,0.1,2026-01-01,a receipt\n"
)


@pytest.mark.parametrize(
    ("on", "fault", "said"),
    [
        ("colab:cpu", "no credentials", "bin/colab usage in a terminal"),
        ("kaggle:cpu", "no credentials", "bin/kaggle auth login in a terminal"),
        (
            "colab:A100",
            "refused",
            "colab new failed: Allocation refused (precondition failed).",
        ),
        (
            "kaggle:t4x2",
            "refused",
            "Kaggle refused the session: Kernel push error: Maximum weekly GPU quota",
        ),
        ("kaggle:t4x2", "quota 0.00h", "0.00 GPU hours are left on Kaggle until 2026-11-28"),
        ("kaggle:t4x2", "quota 0.30h", "0.30 GPU hours are left on Kaggle until 2026-11-28"),
        (
            "kaggle:v5e8",
            "no dataset",
            "Kaggle made no data set: Dataset creation error: You have used up",
        ),
        ("kaggle:t4x2", "dies", "left no row: Your notebook was stopped; MemoryError: no room"),
        ("colab:cpu", "slow", "colab exec failed: TimeoutError"),
        ("colab:cpu", "no disk", "ended as error on Colab and left no row: FileExistsError"),
        (
            "colab:cpu",
            "failing cell",
            "the remote script does not report its state (AttributeError",
        ),
        (
            "colab:cpu",
            "lost",
            "is gone from Colab; what came is here",
        ),
    ],
)
def test_each_failure_is_one_sentence_and_leaves_nothing(cloud, monkeypatch, on, fault, said):
    """Without credentials or units nothing is begun; what was begun is stopped, and its record
    closed; a cell that failed is found, though the client ends with 0, and so is a refusal."""
    monkeypatch.setenv("STAND_IN_FAULT", fault)
    result = cloud.run(write_study(cloud.house), on)
    assert (
        result.exit_code == 1
        and said in (error := result.output.splitlines()[-1])
        and error.startswith("Error: ")
    )
    assert not cloud.list_left() and not list(cloud.house.glob("papermill_runs/trial/rows/*"))
    if fault == "dies":
        (log,) = cloud.house.glob("papermill_runs/trial/logs/*.log")
        assert log.stem == cloud.sessions[0]["session"] and log.read_text().endswith(
            "\nMemoryError: no room"
        )
    if "begins" in result.output:
        assert cloud.sessions[0]["state"] == "closed"
        assert ("is stopped" if on.startswith("colab") else "is deleted") in result.output
    else:
        assert not any({"new", "create", "push"} & set(call) for call in cloud.calls)
    timed = [call for call in cloud.calls if "exec" in call]  # the client's own limit is 30 s
    assert all(float(call[call.index("--timeout") + 1]) > 60 for call in timed)


def test_only_known_devices_are_asked_for_and_only_the_one_given_is_used(cloud, monkeypatch):
    """The clients take unknown names for other devices; a service may give another one, which is
    stopped unused.
    """
    path = write_study(cloud.house)
    result = cloud.run(path, "azure:T4")
    assert result.exit_code == 1
    assert "unknown target 'azure': choose from colab, kaggle, dask" in result.output
    for on in ("colab:P100", "colab:t4", "kaggle:NvidiaTeslaP100", "kaggle:tpuv38"):
        result = cloud.run(path, on)
        assert (
            result.exit_code == 1
            and f"unknown device {on!r}: choose from colab:T4, " in result.output
        )
    assert not (cloud.home / "calls").exists()
    monkeypatch.setenv("STAND_IN_DEVICE", "L4")
    result = cloud.run(path, "colab:T4")
    assert (
        "Error: Colab gave L4 instead of the requested T4; nothing was run on it"
        in result.output
    )
    assert not cloud.list_left() and not [call for call in cloud.calls if "exec" in call]


def test_nothing_is_uploaded_unasked(cloud, monkeypatch):
    """Where nobody can be asked --yes is needed; a client that is not there is named with what
    installs it.
    """
    path = write_study(cloud.house)
    asked = CliRunner().invoke(main, ["run", str(path), "--on", "kaggle:t4x2"])
    assert asked.exit_code == 1 and asked.output.endswith(
        "Error: no terminal to ask for confirmation: add --yes to upload\n"
    )
    assert " MiB in 1 file: the code of commit " in asked.output
    assert "to Kaggle, for 2 runs on t4x2" in asked.output
    assert [call[2:] for call in cloud.calls] == [[], ["quota", "--csv"], ["config", "view"]]


def test_runs_of_labels_that_are_gone_are_refused(cloud, small_sample):
    """They count as made until the labels are corrected; then nothing is uploaded."""
    data_dir = shutil.copytree(small_sample, cloud.house / "data" / "prepared")
    path = write_study(cloud.house, repetitions=1, parameters={"data_dir": "data/prepared"})
    about = {
        "run_id": "C1-r00-kaggle-some-2-cpus-4-gib",
        "accelerator": "cpu",
        "data_dir": "prepared",
    }
    complete(cloud.house, path, {"C1": 1.0}, **about, **Prepared(data_dir).describe())
    assert (
        "all 1 runs are already completed on kaggle:cpu" in cloud.run(path, "kaggle:cpu").output
    )
    split(data_dir, seed=3)
    said = CliRunner().invoke(main, ["run", str(path), "--on", "kaggle:cpu"])
    assert "data/prepared has another split since C1-r00 was made" in said.output
    assert "upload" not in said.output and len(read_rows(path.with_suffix(""))) == 1


def test_a_session_that_cannot_be_stopped_is_stopped_by_the_next_call(cloud, monkeypatch):
    """Three tries, a sentence and an open record; the next call stops it first, and no session
    that is not its own.
    """
    (cloud.home / "colab" / "somebody-elses").mkdir(parents=True)
    (cloud.home / "colab" / "somebody-elses" / "device").write_text("T4")
    path = write_study(cloud.house)
    monkeypatch.setenv("STAND_IN_FAULT", "unstoppable")
    monkeypatch.setenv("STAND_IN_DEVICE", "L4")
    result = cloud.run(path, "colab:T4")
    assert (
        result.exit_code == 1
        and "is still running on Colab (colab stop failed: ColabRequestError: Failed"
        in result.output
    )
    assert "token=*** (Service Unavailable)" in result.output and "SECRET" not in result.output
    assert len(cloud.list_left()) == 2 and cloud.sessions[0]["state"] != "closed"
    monkeypatch.setenv("STAND_IN_FAULT", "refused")
    result = cloud.run(path, "colab:T4")
    assert (
        f"{cloud.sessions[0]['session']} was left fetched by a client that ended early"
        in result.output
    )
    assert cloud.list_left() == ["somebody-elses"] and all(
        record["ended"] for record in cloud.sessions
    )


@pytest.mark.slow
def test_the_crops_are_deleted_where_the_script_cannot_be(cloud, monkeypatch):
    """What is uploaded does not stay at Kaggle because something else there fails, which is said
    without its hint.
    """
    monkeypatch.setenv("STAND_IN_FAULT", "unstoppable")
    result = cloud.run(write_study(cloud.house), "kaggle:t4x2")
    assert (
        "kaggle kernels delete failed: 503 Server Error: Service Unavailable for url"
        in result.output
    )
    assert cloud.list_left() == [cloud.sessions[0]["session"]]
    assert cloud.sessions[0]["state"] != "closed"


@pytest.mark.slow
def test_rows_stay_at_kaggle_until_they_are_here(cloud, monkeypatch):
    """What came cut, or not at all, of a session that is complete, deletes nothing: a later call
    fetches it.
    """
    path = write_study(cloud.house, repetitions=1)
    for fault, said in (
        ("cut rows", "what came back cannot be taken in: ReadError"),
        ("no rows", "Kaggle gave nothing of C1-r00"),
    ):
        monkeypatch.setenv("STAND_IN_FAULT", fault)
        result = cloud.run(path, "kaggle:cpu")
        assert result.exit_code == 1 and said in result.output.splitlines()[-1]
        assert len(cloud.list_left()) == 2 and cloud.sessions[0]["state"] != "closed"
    monkeypatch.delenv("STAND_IN_FAULT")
    result = cloud.run(path, "kaggle:cpu")
    assert (
        "C1-r00: ok" in result.output
        and "all 1 runs are already completed on kaggle:cpu" in result.output
    )
    assert result.exit_code == 0 and not cloud.list_left() and len(cloud.sessions) == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("on", "fault"),
    [
        ("kaggle:cpu", "status 401 403 404 503"),
        ("kaggle:cpu", "dataset 503 404"),
        ("colab:cpu", "upload 503 503"),
    ],
)
def test_single_faults_of_a_service_lose_nothing(cloud, monkeypatch, on, fault):
    """Whatever one poll or one upload is answered, the session goes on and its rows come."""
    monkeypatch.setenv("STAND_IN_FAULT", fault)
    result = cloud.run(write_study(cloud.house, repetitions=1), on)
    assert (
        result.exit_code == 0 and len(read_rows(cloud.house / "papermill_runs" / "trial")) == 1
    )
    assert not cloud.list_left() and len(cloud.sessions) == 1 and cloud.sessions[0]["ended"]


@pytest.mark.slow
def test_what_is_there_already_is_not_sent_again(cloud, monkeypatch):
    """A session that ends with runs left keeps its upload, and says so; the next has it, and
    deletes it at its end.
    """
    path = write_study(cloud.house)
    monkeypatch.setenv("STAND_IN_FAULT", "half")
    result = cloud.run(path, "kaggle:cpu")
    assert result.exit_code == 0 and "keeps the upload for the next call" in result.output
    assert len(cloud.list_left()) == 2 and cloud.sessions[0]["state"] == "fetched"
    monkeypatch.delenv("STAND_IN_FAULT")
    assert cloud.run(path, "kaggle:cpu").exit_code == 0
    assert len([call for call in cloud.calls if "create" in call]) == 1
    assert not cloud.list_left() and len(read_rows(path.with_suffix(""))) == 2
    assert [record["state"] for record in cloud.sessions] == ["closed", "closed"]


@pytest.mark.slow
def test_a_machine_that_the_client_forgot_is_found_again(cloud, monkeypatch):
    """The account has it still: the client is given back what it knew, and the row comes."""
    monkeypatch.setenv("STAND_IN_FAULT", "forgets")
    result = cloud.run(write_study(cloud.house, repetitions=1), "colab:cpu")
    assert "appears to be lost" in result.output and "C1-r00: ok" in result.output
    assert not cloud.list_left() and len(cloud.sessions) == 1


@pytest.mark.slow
def test_a_session_outlives_a_service_that_does_not_answer(cloud, monkeypatch):
    """Kaggle's errors last longer than the client asks: nothing is deleted, and the same command
    fetches the rows.
    """
    path = write_study(cloud.house, repetitions=1)
    monkeypatch.setenv("STAND_IN_FAULT", "status always")
    result = cloud.run(path, "kaggle:cpu")
    assert result.exit_code == 1 and "repeat the command to resume it\n" in result.output
    assert "kaggle kernels status failed: 503 " in result.output
    assert len(cloud.list_left()) == 2 and cloud.sessions[0]["state"] != "closed"
    monkeypatch.delenv("STAND_IN_FAULT")
    result = cloud.run(path, "kaggle:cpu")
    assert result.exit_code == 0 and "C1-r00: ok" in result.output
    assert not cloud.list_left() and len(cloud.sessions) == 1


FORBIDDEN = "403 Client Error: Forbidden"
NOT_FOUND = "404 Client Error: Not Found"


class Answers:
    """Kaggle's client with one answer for each command, until what it is about is deleted."""

    def __init__(self, **answers: str):
        """Take the answers by the command's first two words; one that names an error is one."""
        self.answers = {
            "quota_--csv": "resource,remaining",
            "config_view": "- username: somebody",
            "kernels_logs": "",
            **answers,
        }
        self.deleted = []
        self.refusals = []  # of the next deletions

    def __call__(self, name: str, *words: str, limit_s: float = 0.0) -> str:
        kind, command, *about = words
        answer = ""
        if command == "delete" and self.refusals:
            answer = self.refusals.pop(0)
        elif command == "delete":
            self.deleted.append((kind, about[0]))
        elif kind in dict(self.deleted):
            answer = FORBIDDEN if command == "status" else "none found"
        else:
            answer = self.answers[f"{kind}_{command}"]
        if re.search("Client Error|Server Error|denied", answer):
            raise RemoteError("it failed", answer)
        return answer


def open_session(monkeypatch, folder, **answers) -> tuple[session.Session, Answers]:
    """A session on Kaggle that is running, by the record, and the client that is asked for it."""
    client = Answers(**answers)
    monkeypatch.setattr(kaggle, "call", client)
    for name in ("client.PATIENCE_S", "client.PAUSE_S", "session.HURRY_S", "kaggle.POLL_S"):
        monkeypatch.setattr(f"dr_lib.rooms.remote.{name}", 0.02)
    record = Record("dr-x", "kaggle:cpu", ["C1-r00"], "here", "", state="running", pack="ab")
    return session.Session(kaggle.Kaggle("cpu", print), folder, record, print), client


@pytest.mark.parametrize(
    ("status", "listed", "is_gone"),
    [
        (NOT_FOUND, "none found", True),
        ("Error: (Permission 'kernels.get' was denied)", "none found", True),
        (NOT_FOUND, "ref,title\nsomebody/dr-x,dr-x", False),
        (
            "Error: (Permission 'kernels.get' was denied)",
            "401 Client Error: Unauthorized",
            False,
        ),
        ("500 Server Error", "none found", False),
    ],
)
def test_a_session_is_gone_only_where_all_else_is_answered(
    tmp_path, monkeypatch, status, listed, is_gone
):
    """A token that has run out is told as a session of somebody else's; a script that the account
    has still may hold rows, whatever is said of its status.
    """
    left, client = open_session(
        monkeypatch, tmp_path, kernels_status=status, kernels_list=listed
    )
    with pytest.raises(RemoteError) as raised:
        left.make()
    assert raised.value.is_final == is_gone
    names = [("kernels", "somebody/dr-x"), ("datasets", "somebody/dr-ab-data")]
    assert client.deleted == names * is_gone
    assert read_records(tmp_path) == [left.record] * is_gone
    assert left.record.state == ("closed" if is_gone else "running")


def test_rows_that_did_not_come_are_not_given_up(tmp_path, monkeypatch):
    """A log that is denied makes no session gone: it is complete, and stays open until its rows are
    here.
    """
    left, client = open_session(
        monkeypatch,
        tmp_path,
        kernels_status='has status "COMPLETE"',
        kernels_logs="403 Client Error: Forbidden",
        kernels_output="",
    )
    with pytest.raises(RemoteError, match="Kaggle gave nothing of C1-r00"):
        left.make()
    assert left.record.state == "running" and not client.deleted


@pytest.mark.parametrize("status", ["ready", FORBIDDEN, NOT_FOUND])
@pytest.mark.parametrize("refusal", [FORBIDDEN, NOT_FOUND, "", "503 Server Error"])
def test_no_photographs_stay_at_kaggle_untold(tmp_path, monkeypatch, refusal, status):
    """A deletion that is refused, or has no effect, is tried again. Where each one is, the session
    stays open, with the command for what stays, whatever the status of that.
    """
    left, client = open_session(
        monkeypatch,
        tmp_path,
        kernels_status=status,
        datasets_status=status,
        kernels_list="ref,title\nsomebody/dr-x,dr-x",
        datasets_list="ref,title\nsomebody/dr-ab-data,dr-ab-data",
    )
    monkeypatch.setattr("dr_lib.rooms.remote.client.PATIENCE_S", 0.3)
    names = {"kernels": "somebody/dr-x", "datasets": "somebody/dr-ab-data"}
    client.refusals = [refusal] * 99
    left.reach("fetched")
    with pytest.raises(
        RemoteError, match="^dr-x is not closed .* repeat the command to resume it$"
    ) as raised:
        left.close()
    for kind, name in names.items():
        assert f"to delete what is left on Kaggle: kaggle {kind} delete {name}" in str(
            raised.value
        )
    assert left.record.state == "fetched" and not client.deleted
    client.refusals = ["", refusal]
    left.close()
    assert dict(client.deleted) == names and left.record.state == "closed"


@pytest.mark.parametrize("listed", ["none found", "401 Client Error: Unauthorized"])
def test_what_was_never_at_kaggle_is_gone(tmp_path, monkeypatch, listed):
    """It has no status, and is not in the list of an account that is still known."""
    left, client = open_session(
        monkeypatch,
        tmp_path,
        kernels_status=NOT_FOUND,
        datasets_status=FORBIDDEN,
        kernels_list=listed,
        datasets_list=listed,
    )
    monkeypatch.setattr("dr_lib.rooms.remote.client.PATIENCE_S", 0.3)
    client.refusals = [FORBIDDEN] * 99
    with (
        nullcontext() if listed == "none found" else pytest.raises(RemoteError, match="not cl")
    ):
        left.close()
    assert (left.record.state == "closed") == (listed == "none found")


@pytest.mark.parametrize("status", ["running", "complete"])
def test_ctrl_c_deletes_what_runs_and_never_finished_rows(
    tmp_path, monkeypatch, capsys, status
):
    """The reader asked for the end of a session; one that is complete has its rows at Kaggle
    still. What cannot be stopped from outside is said to run on.
    """
    told = f'x has status "KernelWorkerStatus.{status.upper()}"'
    left, client = open_session(monkeypatch, tmp_path, kernels_status=told)
    left.service.look = lambda *_: signal.raise_signal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        left.make()
    assert len(client.deleted) == 2 * (status == "running")
    said = capsys.readouterr().out
    assert ("it ends by itself after at most 0.3 h" in said) == (status == "running")
    assert ("repeat the command to resume it" in said) == (status == "complete")


@pytest.mark.parametrize(
    ("log", "error"),
    [
        (["ValueError: no", "[NbConvertApp] Writing 3 bytes"], "ValueError: no"),
        (["Killed"], "Killed"),
        (["x"] * 100_000 + ["OSError: full"], "OSError: full"),
        ([], "it does not say why"),
    ],
)
def test_the_reason_is_found_in_the_log(tmp_path, monkeypatch, capsys, log, error):
    """The exception counts, not what Kaggle's own tools say behind it; of a long log the end is
    shown, and all of it kept.
    """
    left, _ = open_session(
        monkeypatch,
        tmp_path,
        kernels_status='has status "ERROR"',
        kernels_logs="\n".join(log),
        kernels_output="",
    )
    with pytest.raises(
        RemoteError, match=f"ended as error on Kaggle and left no row: {error}$"
    ):
        left.make()
    assert (tmp_path / "logs" / "dr-x.log").read_text().splitlines() == log
    assert len(capsys.readouterr().out.splitlines()) < 30


def test_a_machine_that_cannot_be_set_up_says_why(tmp_path, monkeypatch, capfd):
    """The last error is of what failed there, such as pip's, and not that something failed."""
    with tarfile.open(tmp_path / "dr-lib.part000", "w:gz"):
        pass
    monkeypatch.setattr(remote_script, "INSTALL", "raise ImportError('no internet')")
    with pytest.raises(SystemExit):
        remote_script.set_up(str(tmp_path / "home"), str(tmp_path), "dr-lib.part")
    assert capfd.readouterr().err.splitlines()[-1] == "ImportError: no internet"


def test_a_silent_session_shows_when_it_was_last_heard(cloud, monkeypatch):
    """Kaggle's client gives no progress of a script: the time of the last output stands for it."""
    monkeypatch.setattr("dr_lib.rooms.remote.session.SILENCE", timedelta(0))
    before = datetime.now()
    lines = cloud.run(write_study(cloud.house), "kaggle:cpu").output.splitlines()
    said = [line for line in lines if line.startswith("Kaggle reports that it runs; its last")]
    heard = {line[-5:] for line in said}
    minutes = {f"{before + timedelta(minutes=k):%H:%M}" for k in range(10)}
    assert heard and heard <= minutes


def test_a_session_is_no_longer_than_the_quota(cloud, monkeypatch):
    """Rows come at the end: what is left of the week, less the set-up, is all that a session is
    given.
    """
    monkeypatch.setenv("STAND_IN_FAULT", "quota 0.50h")
    cloud.run(write_study(cloud.house, repetitions=1), "kaggle:t4x2")
    (push,) = [call for call in cloud.calls if "push" in call]
    assert int(push[push.index("-t") + 1]) == 1800


def test_no_session_begins_that_holds_no_run(cloud):
    """By what the runs before it took there."""
    path = write_study(cloud.house)
    complete(cloud.house, path, {"C1": 9 * 3600.0}, run_id="C1-r00-kaggle-cpus-2")
    result = cloud.run(path, "kaggle:cpu")
    assert result.exit_code == 1 and "a run takes 540 min" in result.output
    assert "a session on kaggle:cpu has 510 min" in result.output
    assert not any("create" in call for call in cloud.calls)


def test_only_rows_of_the_runs_are_taken_in_and_large_files_are_named(cloud, tmp_path):
    """A row of another run is none, nor is one without its columns; nor does one leave the study's
    folder.
    """
    path = write_study(cloud.house)
    folder = path.with_suffix("")
    run = "C1-r00-colab-2-cpus-4-gib"
    complete(cloud.house, path, {"C1": 1.0})
    (there,) = folder.glob("rows/*")
    row = json.loads(there.read_bytes())
    there.unlink()
    rows = {  # by file
        f"rows/{run}.json": {"run_id": run},
        "rows/C1-r00-cut.json": {"study": None},
        "rows/C1-r00-/../../../C1-r00-out.json": {"run_id": "C1-r00-/../../../C1-r00-out"},
        "rows/C1-r07-colab-cpus.json": {"run_id": "C1-r07-colab-cpus", "repetition": 7},
    }
    far = tmp_path / "far"
    (far / "runs" / run).mkdir(parents=True)
    with (far / "runs" / run / "model.h5").open("wb") as file:
        file.truncate((remote_script.MAX_MIB + 1) * 2**20)
    results = tmp_path / "rows.zip"
    remote_script._collect(far, "C1-r00", 0, results)
    with zipfile.ZipFile(results, "a") as archive:
        for name, changes in rows.items():
            archive.writestr(name, json.dumps(row | changes))
    told = []
    record = Record("one", "colab:cpu", ["C1-r00"], "here", "", job={"on_cpu": []})
    session.Session(colab.Colab("cpu", print), folder, record, told.append).take_in(results)
    assert [path.stem for path in folder.glob("rows/*")] == [run]
    assert told == [
        f"runs/{run}/model.h5 is left out: it has more than 64 MiB",
        "C1-r00: ok",
    ]
    assert record.made == ["C1-r00"] and not list(tmp_path.rglob("*out.json"))


def start(cloud, path, on: str, called: str) -> subprocess.Popen:
    """Start a session in a process of its own, and wait until its client has been called with
    this word.
    """
    process = cloud.start(path, on)
    while not ((cloud.home / "calls").exists() and called in str(cloud.calls)):
        assert process.poll() is None
        time.sleep(0.05)
    return process


@pytest.mark.parametrize(
    ("on", "called", "end"),
    [
        ("colab:cpu", "'new'", signal.SIGINT),  # the machine is there, and has no name yet
        ("colab:cpu", "exec", signal.SIGTERM),
        ("kaggle:cpu", "push", signal.SIGINT),
    ],
)
def test_an_end_from_outside_stops_the_machine(cloud, on, called, end):
    """Ctrl-C reaches the process group: it ends as the runner does, with the machine given back,
    the record closed.
    """
    process = start(
        cloud, write_study(cloud.house, parameters={"trouble": "hangs"}), on, called
    )
    os.killpg(process.pid, end)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130 and err == "stopped; repeat the command to resume\n"
    assert (
        re.search("is (stopped|deleted)", out)
        and not cloud.list_left()
        and cloud.sessions[0]["ended"]
    )


def test_a_machine_without_a_name_is_not_taken_for_stopped(cloud, monkeypatch):
    """Killed while Colab's client has not noted its machine: the study goes no further until that
    has been ended, even if its file is no longer valid; the account's other machines are let be."""
    (cloud.home / "colab" / "somebody-elses").mkdir(parents=True)
    (cloud.home / "colab" / "somebody-elses" / "device").write_text("T4")
    path = write_study(cloud.house)
    monkeypatch.setenv("STAND_IN_FAULT", "slow to note")
    process = start(cloud, path, "colab:cpu", "'new'")
    while len(list(cloud.home.glob("colab/*/pid"))) < 1:
        time.sleep(0.05)
    process.kill()
    process.communicate()
    monkeypatch.setenv("STAND_IN_FAULT", "refused")
    path.write_text("no study")
    result = cloud.run(path, "colab:cpu")
    name = cloud.sessions[0]["session"]
    assert result.exit_code == 1 and f"m-s-{name} is still running on Colab (" in result.output
    assert (
        cloud.sessions[0]["state"] != "closed"
        and len([call for call in cloud.calls if "new" in call]) == 1
    )
    os.killpg(int((cloud.home / "colab" / name / "pid").read_text()), signal.SIGKILL)
    shutil.rmtree(cloud.home / "colab" / name)
    assert "is not a valid study file" in cloud.run(path, "colab:cpu").output
    assert cloud.sessions[0]["ended"] and cloud.list_left() == ["somebody-elses"]
    (path.with_suffix("") / "sessions.json").write_text(
        json.dumps([cloud.sessions[0] | {"state": "running", "host": "far"}])
    )
    assert f"{name} was opened on far and not closed" in cloud.run(path, "colab:cpu").output


@pytest.mark.slow
def test_a_run_that_the_device_cannot_make_is_made(cloud):
    """One row says skipped for both repetitions: no further machine is allocated for them."""
    path = write_study(cloud.house, parameters={"trouble": "unavailable"})
    assert "C1-r00: skipped" in cloud.run(path, "colab:cpu").output
    said = cloud.run(path, "colab:cpu").output
    assert "all 2 runs are already completed on colab:cpu" in said
    assert "scenarios skipped there: UnavailableError: no such thing" in said
    assert len(list(path.with_suffix("").glob("rows/*.json"))) == 1
    assert len(cloud.sessions) == 1


@pytest.mark.slow
def test_colab_brings_each_row_back_and_goes_on_after_a_kill(cloud, monkeypatch):
    """A run that fails has a row, though the client ends with 0. Killed with SIGKILL, the client
    leaves a machine that goes on: the next call fetches what it makes, and makes again what failed,
    priced by the units that the machine takes an hour.
    """
    path = write_study(cloud.house, parameters={"fail_at": 0})
    folder = cloud.house / "papermill_runs" / "trial"
    (cloud.house / "own.csv").write_text(PRICE)
    monkeypatch.setenv("DR_LIB_PRICES", str(cloud.house / "own.csv"))
    process = start(cloud, path, "colab:cpu", "C1-r00.zip")
    while not list(folder.glob("rows/*")):
        time.sleep(0.05)
    process.kill()
    process.communicate()
    (left,) = cloud.list_left()
    assert cloud.sessions[0]["session"] == left and cloud.sessions[0]["state"] != "closed"
    result = cloud.run(path, "colab:cpu")
    assert (
        f"{left} was left running by a client that ended early" in result.output
        and not cloud.list_left()
    )
    assert result.exit_code == 1 and "1 run failed:\nC1-r00-colab-" in result.output
    failed, completed = sorted(read_rows(folder), key=lambda row: row["repetition"])
    assert (failed["status"], failed["error"]) == ("failed", "ValueError: this one fails")
    assert (
        completed["status"] == "ok"
        and completed["commit"] == failed["commit"]
        and completed["cost_usd"] is not None
    )
    assert completed["session"] == left and failed["session"] == cloud.sessions[1]["session"]
    assert completed["priced_as"] == "colab:cpu" and completed["usd_per_hour"] == pytest.approx(
        0.08 * 0.1
    )
    assert (
        len(list(folder.glob("notebooks/*.ipynb")))
        == len(list(folder.glob("logs/C1-r0?.log")))
        == 2
    )
    record = cloud.sessions[1]
    assert record["usd"] == pytest.approx(
        0.1 * (record["units_before"] - record["units_after"]), abs=1e-4
    )


@pytest.mark.slow
def test_kaggle_goes_on_alone_and_another_device_ends_its_session(cloud):
    """The client is killed, the session goes on: the next call waits for its rows. They are of a
    CPU, not of two T4: each session ends at its first one, which is kept as what it is and counts
    for the CPU."""
    path = write_study(cloud.house)
    folder = cloud.house / "papermill_runs" / "trial"
    process = start(cloud, path, "kaggle:t4x2", "push")
    while not list(cloud.home.glob("kaggle/*/status")):
        time.sleep(0.05)
    process.kill()
    process.communicate()
    result = cloud.run(path, "kaggle:t4x2")
    assert (
        "was left running by a client that ended early" in result.output
        and "C1-r00: ok" in result.output
    )
    assert (
        "instead of the requested t4x2: C1-r00 is kept" in result.output.splitlines()[-1]
        and result.exit_code == 1
    )
    assert not cloud.list_left() and [row["repetition"] for row in read_rows(folder)] == [0]
    assert cloud.run(path, "kaggle:cpu").exit_code == 0 and not cloud.list_left()
    sessions = [
        row["session"] for row in sorted(read_rows(folder), key=lambda row: row["repetition"])
    ]
    assert sessions == [cloud.sessions[0]["session"], cloud.sessions[1]["session"]]
    assert (
        "all 2 runs are already completed on kaggle:cpu" in cloud.run(path, "kaggle:cpu").output
    )
    (created,) = {tuple(call[2:5]) for call in cloud.calls if "create" in call}
    assert created == ("datasets", "create", "-p") and not any(
        {"-u", "--public"} & set(call) for call in cloud.calls
    )


@pytest.mark.slow
def test_a_failure_that_every_run_would_repeat_ends_the_session(cloud):
    """The first refusal is the last run, and the machine is given back; the device that is asked
    for is the one that the study needs.
    """
    path = write_study(
        cloud.house, repetitions=3, parameters={"trouble": "refused"}, needs=["gpu"]
    )
    result = cloud.run(path, "colab:cpu")
    assert result.exit_code == 1 and "needs a GPU: choose another device" in result.output
    assert not (path.with_suffix("") / "sessions.json").exists()
    path = write_study(cloud.house, repetitions=3, parameters={"trouble": "refused"})
    result = cloud.run(path, "colab:cpu")
    assert "every other run would fail alike: they are not made" in result.output
    assert result.exit_code == 1 and "1 run failed:\nC1-r00-colab-" in result.output
    assert len(read_rows(path.with_suffix(""))) == 1 and not cloud.list_left()
