"""Both services' own clients, imported once; each call is a fork: python clients.py KAGGLE LINE.

KAGGLE is the address of the service in place of Kaggle's, LINE is the socket that calls come by.
The account of Colab is the stand-in's: COLAB names its folder, with machines.json and the folder
machine/content of its machine, whose Jupyter server is at JUPYTER. faults.json has faults by
command: the next calls of it meet them.
"""

import json
import os
import shutil
import signal
import socket
import sys
import threading
import time
import traceback
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

os.environ |= {"KAGGLE_USERNAME": "somebody", "KAGGLE_KEY": "none"}
import requests
from colab_cli import cli as colab
from colab_cli import client, common
from kaggle import cli as kaggle
from kagglesdk import kaggle_env

HOME = Path(os.environ["COLAB"])
MACHINES = HOME / "machines.json"
CONTENT = HOME / "machine" / "content"
FAULT: list[str] = []  # a signal for the client's caller
kaggle_env._env_to_endpoint[kaggle_env.KaggleEnv.PROD] = sys.argv[1]


def read() -> dict[str, str]:
    """The devices of the account's machines."""
    return json.loads(MACHINES.read_text()) if MACHINES.exists() else {}


def describe(kind: type, machine: str, device: str):
    """A machine as the service does."""
    url = os.environ["JUPYTER"]
    proxy = client.RuntimeProxyInfo(token="token", tokenExpiresInSeconds=3600, url=url)
    fields = {"variant": 0, "machineShape": 0, "runtimeProxyInfo": proxy}
    return kind(accelerator=device, endpoint=machine, **fields)


def assign(notebook_hash, variant=None, accelerator=None, shape=None):
    """Lend a machine; a caller that is killed then has not noted it."""
    CONTENT.mkdir(parents=True)
    machine = f"m-s-{time.time_ns()}"
    MACHINES.write_text(json.dumps(read() | {machine: accelerator.value}))
    if FAULT:
        end_caller()
    return describe(client.PostAssignmentResponse, machine, accelerator.value)


def unassign(machine: str) -> None:
    """Take a machine back: what runs on it ends, and results on it are gone."""
    with (HOME / "stopped").open("a") as file:
        file.writelines(f"{path.stem}\n" for path in CONTENT.glob("*.zip"))
    left = {name: device for name, device in read().items() if name != machine}
    MACHINES.write_text(json.dumps(left))
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if str(os.readlink(folder / "cwd")).startswith(str(CONTENT.parent)):
                os.kill(int(folder.name), signal.SIGKILL)
    shutil.rmtree(CONTENT.parent, ignore_errors=True)


def drop(*arguments, **options):
    """Cut each connection, with a text that holds 404, as the id of a kernel may."""
    raise requests.ConnectionError("HTTPSConnectionPool: /api/kernels/3f4040aa, token=SECRET")


def call_colab() -> None:
    """Call the client, which may meet a fault."""
    path = HOME / "faults.json"
    faults = json.loads(path.read_text()) if path.exists() else {}
    (command, *_) = [word for word in sys.argv[1:] if word in faults] or [""]
    fault = faults[command].pop(0) if faults.get(command) else ""
    path.write_text(json.dumps(faults))
    if fault:
        (HOME / "struck").touch()
    match fault:
        case "down":
            sys.exit("ColabRequestError: 503 Server Error: Service Unavailable, token=SECRET")
        case "silent" | "empty":
            time.sleep(20 if fault == "silent" else 0)
            return
        case "cut":
            requests.request = requests.Session.request = drop
            for name in vars(common.State.client):
                setattr(common.State.client, name, drop)
        case "SIGINT" | "SIGKILL" | "SIGTERM":
            FAULT.append(fault)
            if command != "new":
                end_caller()
        case "lost":  # the answer
            with suppress(SystemExit):
                colab.main()
            sys.exit("ConnectionError: Connection reset by peer")
    colab.main()


def end_caller() -> None:
    """Send the client's caller a signal."""
    os.kill(int((HOME / "caller").read_text()), signal.Signals[FAULT.pop()])
    time.sleep(0.3)


def end(status: int) -> None:
    """End a call, the answer of which may be lost."""
    sys.stdout.flush()
    sys.stderr.flush()
    caller.send(bytes([status]))
    os._exit(0)


def end_with_caller() -> None:
    """A call that is killed has no client."""
    caller.recv(1)
    os._exit(1)


common.State.client = SimpleNamespace(
    list_assignments=lambda: [
        describe(client.ListedAssignment, *machine) for machine in read().items()
    ],
    assign=assign,
    unassign=unassign,
)
signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the forks
with socket.socket(socket.AF_UNIX) as line:
    line.bind(sys.argv[2])
    line.listen()
    print("ready", flush=True)
    while True:
        caller, _ = line.accept()
        if not os.fork():
            break
        caller.close()
message, files, *_ = socket.recv_fds(caller, 2**16, 3)
for number, file in enumerate(files):
    os.dup2(file, number)
threading.Thread(target=end_with_caller, daemon=True).start()
signal.signal(signal.SIGCHLD, signal.SIG_DFL)
sys.argv = json.loads(message)
try:
    call_colab() if sys.argv[0] == "colab" else kaggle.main()
except SystemExit as error:
    if isinstance(error.code, str):
        print(error.code, file=sys.stderr)
    end(error.code if isinstance(error.code, int) else int(error.code is not None))
except BaseException:
    traceback.print_exc()
    end(1)
end(0)
