"""Colab's own client, for which the account is a file and a machine is a Jupyter server: JUPYTER
names its address.

STAND_IN names the folder of the machines; in it, an empty file `fault` fails the next upload, once,
and `no units` the account's units.
"""

import json
import os
import sys
from pathlib import Path
from types import SimpleNamespace

import requests
from colab_cli import client, common, contents
from colab_cli.cli import main
from colab_cli.consumption import ConsumptionUserInfo

HOME = Path(os.environ["STAND_IN"])
MACHINES = HOME / "machines.json"


def read() -> dict[str, str]:
    """The devices of the account's machines."""
    return json.loads(MACHINES.read_text()) if MACHINES.exists() else {}


def describe(kind: type, machine: str, device: str):
    """A machine as the service does."""
    proxy = client.RuntimeProxyInfo(
        token="token", tokenExpiresInSeconds=3600, url=os.environ["JUPYTER"]
    )
    return kind(
        accelerator=device, endpoint=machine, variant=0, machineShape=0, runtimeProxyInfo=proxy
    )


def assign(notebook_hash, variant=None, accelerator=None, shape=None):
    """Lend a machine."""
    MACHINES.write_text(json.dumps(read() | {"m-s-1": accelerator.value}))
    return describe(client.PostAssignmentResponse, "m-s-1", accelerator.value)


def unassign(machine: str) -> None:
    """Take a machine back."""
    MACHINES.write_text(
        json.dumps({name: device for name, device in read().items() if name != machine})
    )


def count_units() -> ConsumptionUserInfo:
    """What the account has left."""
    if (HOME / "no units").exists():
        raise requests.HTTPError("403 Client Error: Forbidden")
    return ConsumptionUserInfo(
        paid_compute_units_balance=9.5,
        consumption_rate_hourly=1.76 * len(read()),
        assignments_count=len(read()),
    )


def upload(self, *paths: str):
    """Upload a file, unless this is the one that fails."""
    if (HOME / "fault").exists():
        (HOME / "fault").unlink()
        raise requests.HTTPError("503 Server Error: Service Unavailable")
    return send(self, *paths)


send = contents.ContentsClient.upload
contents.ContentsClient.upload = upload
common.State.client = SimpleNamespace(
    get_consumption_user_info=count_units,
    list_assignments=lambda: [
        describe(client.ListedAssignment, *machine) for machine in read().items()
    ],
    assign=assign,
    unassign=unassign,
)
sys.argv[0] = "colab"
main()
