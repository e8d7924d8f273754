"""Stand-ins for the clients `colab` (google-colab-cli 0.7.5) and `kaggle` (2.2.5): this file, under
either name.

They take what the real ones take, word for word, and say what these say; test_drift.py holds the
two together. The work is really done, in a folder: a machine of Colab is a folder with a Jupyter
kernel, one of Kaggle a folder with a process. `STAND_IN` names the folder of it all, in which
`calls` lists each call; `STAND_IN_FAULT` what goes wrong, `STAND_IN_DEVICE` what the service gives
in place of what was asked for, `STAND_IN_PYTHON` the machine's Python. A fault such as `upload 503`
or `status 401 404` is each of these answers once, with a right one behind it.
"""

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from contextlib import suppress
from pathlib import Path

HOME = Path(os.environ["STAND_IN"])
FAULT = os.environ.get("STAND_IN_FAULT", "")
VERSION = FAULT.removeprefix("version ") if FAULT.startswith("version ") else ""
PYTHON = os.environ.get("STAND_IN_PYTHON", sys.executable)
GPUS = {"t4": "T4", "l4": "L4", "g4": "G4", "a100": "A100", "h100": "H100"}
HOUR = {"CPU": 0.08, "T4": 1.76}  # units
DENIED = (
    "403 Client Error: Forbidden for url: https://api.kaggle.com/v1/{}\n\nYou don't have access"
    " to this resource.\n"
)
DENIED += (
    "If this is a competition, you may need to accept its rules first at\n "
    " https://www.kaggle.com/competitions"
)
MISSING = (
    "404 Client Error: Not Found for url: https://api.kaggle.com/v1/{}\n\nThe resource was not"
    " found. Check the "
)
MISSING += (
    "spelling of the reference you passed.\nTo search for one, try 'kaggle search <query>'."
)
BROKEN = (
    "503 Server Error: Service Unavailable for url: https://api.kaggle.com/v1/{}\n\nThis is a"
    " problem on Kaggle's "
)
BROKEN += "side, not with your command. Please try again later."
# the real client makes one sentence of both, for the status of a script
DENIED_STATUS = (
    "Cannot access kernel '{}' (Permission 'kernels.get' was denied). The most likely"
)
DENIED_STATUS += " cause is a wrong kernel slug."
ANSWERS = {"401": DENIED_STATUS, "403": DENIED_STATUS, "404": MISSING, "503": BROKEN}


def build_colab() -> argparse.ArgumentParser:
    """The options of google-colab-cli that these stand-ins know."""
    parser = argparse.ArgumentParser(prog="colab", allow_abbrev=False)
    parser.add_argument("--config")  # the client's notes
    commands = parser.add_subparsers(dest="command", required=True)
    for name in (
        "new",
        "sessions",
        "status",
        "stop",
        "usage",
        "version",
        "exec",
        "upload",
        "download",
    ):
        command = commands.add_parser(name, allow_abbrev=False)
        if name not in ("sessions", "usage", "version"):
            command.add_argument("-s", "--session", required=True)
        if name == "new":
            command.add_argument("--tpu")
            command.add_argument("--gpu")
        if name == "exec":
            command.add_argument("-f", "--file", required=True)
            command.add_argument("--timeout", type=float, default=30.0)
        if name in ("upload", "download"):
            command.add_argument("source")
            command.add_argument("target")
    return parser


def build_kaggle() -> argparse.ArgumentParser:
    """The options of kaggle that these stand-ins know."""
    parser = argparse.ArgumentParser(prog="kaggle", allow_abbrev=False)
    parser.add_argument(
        "--version", action="version", version=f"Kaggle CLI {VERSION or '2.2.5'}"
    )
    # else: an old version, on stdout
    parser.add_argument("-W", dest="no_warn", action="store_true", required=True)
    groups = parser.add_subparsers(dest="group", required=True)
    groups.add_parser("quota").add_argument("--csv", action="store_true", required=True)
    groups.add_parser("config").add_subparsers(dest="command", required=True).add_parser("view")
    datasets = groups.add_parser("datasets").add_subparsers(dest="command", required=True)
    kernels = groups.add_parser("kernels").add_subparsers(dest="command", required=True)
    datasets.add_parser("create", allow_abbrev=False).add_argument(
        "-p", dest="folder", required=True
    )
    push = kernels.add_parser("push", allow_abbrev=False)
    output = kernels.add_parser("output", allow_abbrev=False)
    push.add_argument("-p", dest="folder", required=True)
    push.add_argument("-t", dest="timeout", type=int, required=True)
    push.add_argument("--accelerator", default="")
    output.add_argument("-p", dest="path", required=True)
    output.add_argument("-o", dest="force", action="store_true")
    output.add_argument("--file-pattern", default="")
    logs = kernels.add_parser("logs")
    logs.add_argument("-f", dest="follow", action="store_true", required=True)
    status = kernels.add_parser("status")
    for command in (output, logs, status, datasets.add_parser("status")):
        command.add_argument("id")
    for command in (kernels.add_parser("list"), datasets.add_parser("list")):
        for option in ("--mine", "--csv"):
            command.add_argument(option, action="store_true", required=True)
        command.add_argument("--search", required=True)
    for command in (kernels.add_parser("delete"), datasets.add_parser("delete")):
        command.add_argument("id")
        command.add_argument("--yes", action="store_true", required=True)
    return parser


def refuse(sentence: str) -> None:
    """End as a client does that was refused."""
    sys.exit(f"{sentence}")


def fail_once(question: str, name: str) -> None:
    """Give the next answer of the fault that is about this question, unless the last one was one
    of them.
    """
    about, *codes = FAULT.split() or [""]
    given = HOME / f"{question}-answers"
    count = len(given.read_text()) if given.exists() else 0
    given.write_text("x" * (count + 1))
    if about == question and codes == ["always"]:
        refuse(BROKEN.format(name))
    if about == question and count % 2 == 0 and count // 2 < len(codes):
        refuse(ANSWERS[codes[count // 2]].format(name))


def start_machine(
    folder: Path, hints: dict[str, str], command: list[str], log: Path, before: str = ""
) -> None:
    """Start a process of a machine, which outlives this one; it ends with the tests' process
    group at the latest.
    """
    environment = {
        name: value for name, value in os.environ.items() if name != "PYTHONPATH"
    } | hints
    process = subprocess.Popen(
        command,
        cwd=folder,
        env=environment,
        start_new_session=True,
        stdin=subprocess.DEVNULL,
        stdout=log.open("wb"),
        stderr=subprocess.STDOUT,
    )
    (folder / "pid").write_text(str(process.pid))


def stop_machine(folder: Path) -> None:
    """End all of a machine, what it starts meanwhile too, and forget it in one step."""
    import psutil

    with suppress(OSError, ValueError):
        os.killpg(int((folder / "pid").read_text()), signal.SIGKILL)
    is_at_work = True
    while is_at_work:
        ended = []
        for process in psutil.process_iter():  # the far side is in a group of its own
            with suppress(psutil.Error):
                if folder in (cwd := Path(process.cwd()), *cwd.parents):
                    process.kill()
                    ended.append(process)
        psutil.wait_procs(ended, timeout=5)
        is_at_work = bool(ended)
    gone = HOME / f"gone-{folder.name}"
    folder.rename(gone)
    shutil.rmtree(gone)


def colab(options: argparse.Namespace) -> None:
    """Do what a command of `colab` does."""
    machines = HOME / "colab"
    name = getattr(options, "session", "") or "none"
    machine = machines / name
    notes = Path(options.config or "/nowhere")
    noted = notes.read_text() if notes.exists() else ""
    match options.command:
        case "version":
            print(f"Version: {VERSION or '0.7.5'}")
        case "usage":
            rates = [HOUR.get(path.read_text(), 1.0) for path in machines.glob("*/device")]
            print(
                "Current balance:"
                f" {100 - len((HOME / 'calls').read_text().splitlines()) / 100:.2f} compute"
                " units"
            )
            print(f"Usage rate: {sum(rates):.2f}/hr\nActive assignments: {len(rates)}")
        case "sessions":
            for path in machines.glob("*/device"):
                machine = path.parent.name
                name = machine if machine == noted else "?"
                print(
                    f"[{name}] m-s-{machine} | Hardware: {path.read_text()} | Shape: Standard |"
                    " Variant: X"
                )
        case "status" | "stop" | "exec" | "upload" | "download" if not (
            noted == name and machine.exists()
        ):
            notes.unlink(missing_ok=True)
            print(f"[colab] Session '{options.session}' not found.")
            # the client's own status: 0 for these two
            sys.exit(options.command not in ("status", "stop"))
        case "new":
            print(f"[colab] Creating session '{options.session}'...")
            if FAULT == "refused":
                refuse(
                    "[colab] Allocation refused (precondition failed). This can mean too many"
                    " active sessions."
                )
            device = GPUS.get((options.gpu or "").lower(), "A100") if options.gpu else "CPU"
            device = options.tpu.upper() if options.tpu else device
            content = machine / "content"
            content.mkdir(parents=True)
            (machine / "device").write_text(os.environ.get("STAND_IN_DEVICE", device))
            hints = {
                "COLAB_RELEASE_TAG": "stand-in",
                "IPYTHONDIR": str(machine),
                "TMPDIR": str(machine),
            }
            command = [PYTHON, "-m", "ipykernel_launcher", "-f", str(machine / "kernel.json")]
            start_machine(machine, hints, command, machine / "log")
            time.sleep(60 if FAULT == "slow to note" else 0.5)
            # the client writes the name down after the machine is there
            notes.parent.mkdir(parents=True, exist_ok=True)
            notes.write_text(name)
            print("[colab] Session READY.")
        case "stop":
            if FAULT == "unstoppable":
                url = "https://colab.research.google.com/tun/m/x?authuser=0&colab-runtime-proxy-token=SECRET"
                sentence = (
                    f"ColabRequestError: Failed to issue request POST {url} (Service"
                    " Unavailable)"
                )
                refuse(textwrap.fill(sentence, int(os.environ.get("COLUMNS", 80))))
            stop_machine(machine)
            print("[colab] Session terminated.")
        case "status":
            print(f"[{options.session}] m-s | Hardware: X | Status: IDLE")
        case "upload":
            fail_once("upload", options.target)
            shutil.copyfile(options.source, machine / options.target)
        case "download":
            if not (machine / options.source).is_file():
                print(f"[colab] Download failed: File or directory not found: {options.source}")
                sys.exit(1)
            shutil.copyfile(machine / options.source, options.target)
        case "exec":
            code = Path(options.file).read_text().replace("'/content", f"'{machine}/content")
            script = machine / "content" / "remote_script.py"
            if ".start(" in code:
                text = script.read_text().replace("'/content", f"'{machine}/content")
                script.write_text(text)
                # so that the set-up fails
                if FAULT == "no disk":
                    (machine / "content" / "dr-lib").touch()
            if FAULT in ("lost", "forgets") and ".look(" in code:
                stop_machine(machine) if FAULT == "lost" else None
                if FAULT == "lost" or not (HOME / "forgot").exists():
                    (HOME / "forgot").touch()
                    notes.unlink()
                    print(
                        f"[colab] Session '{name}' appears to be lost (404/401). Cleaning up."
                    )
                    sys.exit(1)
            code = code.replace(".look(", ".lost(") if FAULT == "failing cell" else code
            if FAULT == "slow":
                raise TimeoutError("Timeout waiting for output")
            execute(machine / "kernel.json", code, options.timeout)


def execute(connection: Path, code: str, timeout_s: float) -> None:
    """Run code in a kernel and print what it prints; an error of the code is no error of the
    client.
    """
    from jupyter_client import BlockingKernelClient

    while not connection.exists() or not connection.read_text().endswith("}"):
        time.sleep(0.05)
    client = BlockingKernelClient(connection_file=str(connection))
    client.load_connection_file()
    client.start_channels(
        hb=False
    )  # a heart that misses a second on a busy machine is no death
    client.wait_for_ready(timeout=120)

    def show(message: dict) -> None:
        content = message["content"]
        text = (
            "\n".join(content["traceback"]) + "\n"
            if "traceback" in content
            else content.get("text", "")
        )
        print(text, end="", flush=True)

    client.execute_interactive(code, output_hook=show, timeout=timeout_s)


def kaggle(options: argparse.Namespace) -> None:
    """Do what a command of `kaggle` does."""
    what = (options.group, getattr(options, "command", ""))
    machine = HOME / "kaggle" / getattr(options, "id", "none").rpartition("/")[2]
    state = machine / "status"
    match what:
        case ("config", _):
            print(
                "Configuration values from ~/.kaggle\n- username: somebody\n- auth_method:"
                " LEGACY_API_KEY"
            )
        case ("quota", _):
            left = FAULT.removeprefix("quota ") if FAULT.startswith("quota ") else "29.50h"
            print("resource,used,remaining,total,refreshAt")
            print(
                f"GPU,0.50h,{left},30.00h,2026-11-28T00:00:00+00:00\nTPU,0.00h,20.00h,20.00h,2026-11-28"
            )
        case ("datasets", "create"):
            about = json.loads(Path(options.folder, "dataset-metadata.json").read_text())
            if FAULT == "no dataset":
                print("Dataset creation error: You have used up your private storage.")
                return
            machine = HOME / "kaggle" / about["id"].rpartition("/")[2]
            shutil.copy(Path(options.folder, "dataset-metadata.json"), HOME)
            shutil.copytree(
                options.folder, machine, ignore=shutil.ignore_patterns("dataset-metadata.json")
            )
            print(
                "Your private Dataset is being created. Please check progress at"
                " https://www.kaggle.com/x"
            )
        case ("datasets", "status"):
            if not machine.exists():
                refuse(DENIED.format("GetDatasetStatus"))
            fail_once("dataset", options.id)
            print("ready", end="")
        case ("kernels", "push"):
            push(options)
        case (_, "list"):
            for path in HOME.glob(f"kaggle/*{options.search}*"):
                print(f"ref,title\nsomebody/{path.name},{path.name}")
        case ("kernels", "status"):
            if not state.exists():
                refuse(MISSING.format("GetKernelSessionStatus"))
            fail_once("status", options.id)
            print(f'{options.id} has status "KernelWorkerStatus.{state.read_text().strip()}"')
            if state.read_text().strip() == "ERROR":
                print('Failure message: "Your notebook was stopped"')
        case ("kernels", "output"):
            for path in (machine / "working").iterdir() if FAULT != "no rows" else ():
                if re.search(options.file_pattern, path.name):
                    content = path.read_bytes()
                    (Path(options.path) / path.name).write_bytes(
                        content[:-100] if FAULT == "cut rows" else content
                    )
        case ("kernels", "logs"):
            for name in ("log", "errors"):
                print((machine / name).read_text(), end="", flush=True)
            time.sleep(60 if state.read_text().strip() == "RUNNING" else 0)
        case ("kernels", "delete"):
            if FAULT == "unstoppable":
                refuse(BROKEN.format("DeleteKernel"))
            if not state.exists():
                refuse(MISSING.format("DeleteKernel"))
            stop_machine(machine)
        case ("datasets", "delete"):
            if not machine.exists():
                refuse(DENIED.format("DeleteDataset"))
            shutil.rmtree(machine)


def push(options: argparse.Namespace) -> None:
    """Start a script on a machine of its own, whose status follows it."""
    about = json.loads(Path(options.folder, "kernel-metadata.json").read_text())
    machine = HOME / "kaggle" / about["id"].rpartition("/")[2]
    if FAULT == "refused":
        # and ends with 0
        print("Kernel push error: Maximum weekly GPU quota of 30.00 hours has been reached.")
        return
    if machine.exists():
        print("Kernel push error: 409 Client Error: Conflict, the name is taken")
        return
    code = (
        Path(options.folder, about["code_file"])
        .read_text()
        .replace("'/kaggle/", f"'{machine}/")
    )
    if FAULT == "half":  # the session ends before the second run
        code = code.replace("['C1-r00', 'C1-r01']", "['C1-r00']")
    (machine / "working").mkdir(parents=True)
    (machine / "input").symlink_to(
        HOME / "kaggle" / about["dataset_sources"][0].rpartition("/")[2]
    )
    (machine / "script.py").write_text(
        "raise MemoryError('no room')" if FAULT == "dies" else code
    )
    # else in a process group of its own
    run = f'timeout --foreground {options.timeout} "$0" script.py 2> errors'
    # the session says itself that it runs: a client that is killed before has begun none
    begun = "echo RUNNING > status.tmp; mv status.tmp status"
    ended = f"{run} && s=COMPLETE || s=ERROR; echo $s > status.tmp; mv status.tmp status"
    hints = {"KAGGLE_KERNEL_RUN_TYPE": "Batch", "TMPDIR": str(machine)}
    start_machine(machine, hints, ["bash", "-c", f"{begun}; {ended}", PYTHON], machine / "log")
    while not (machine / "status").exists():
        time.sleep(0.01)
    print(
        "Kernel version 1 successfully pushed.  Please check progress at"
        " https://www.kaggle.com/code/x"
    )


def main() -> None:
    """Note the call, and do it."""
    name = Path(sys.argv[0]).name
    HOME.mkdir(exist_ok=True)
    with (HOME / "calls").open("a") as file:
        file.write(json.dumps([name, *sys.argv[1:]]) + "\n")
    is_refused = FAULT == "no credentials" and not {"version", "--version"} & set(sys.argv)
    if is_refused and name == "colab":
        print("To authorize colab-cli, visit this URL in any browser:", file=sys.stderr)
        input("Enter the authorization code: ")
    if is_refused:
        print(
            "Authentication required to call the Kaggle API.\n\nFirst, you will need a Kaggle"
            " account."
        )
        sys.exit(1)
    {"colab": colab, "kaggle": kaggle}[name](
        {"colab": build_colab, "kaggle": build_kaggle}[name]().parse_args()
    )


if __name__ == "__main__":
    main()
