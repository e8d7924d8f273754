"""Find the cloud's name for this machine, from the metadata service, whose address all clouds
share.
"""

from __future__ import annotations

import http.client
from functools import cache
from pathlib import Path

from dr_lib.hardware.cgroups import read_text

AZURE = "Standard_"  # before its names of machines; rows leave it out, price lists may not
ADDRESS = "169.254.169.254:80"
TIMEOUTS_S = (0.2, 2.0)  # of the first try and the second: a busy service is late
GOOGLE = {"Metadata-Flavor": "Google"}
CLOUDS = {  # what names each, in small letters, and where its service has the instance type
    "amazon": ("/latest/meta-data/instance-type", {}),  # EC2 on Nitro or Xen
    "google compute engine": ("/computeMetadata/v1/instance/machine-type", GOOGLE),
    # Azure's chassis: Microsoft alone is any Hyper-V
    "7783-7084-3265-9085-8269-3286-77": (
        "/metadata/instance/compute/vmSize?api-version=2021-02-01&format=text",
        {"Metadata": "true"},
    ),
}


@cache
def find_instance_type(system: Path = Path("/sys"), address: str = ADDRESS) -> str:
    """Find the instance type: m5.xlarge, n1-standard-4, NC4as_T4_v3 (Azure's without its
    Standard_).

    The service is asked only where DMI or the device tree names its cloud; empty elsewhere, and
    where it does not answer within 2 s, as in containers that are kept from it.
    """
    cloud = _find_cloud(system)
    if not cloud:
        return ""
    path, headers = CLOUDS[cloud]
    try:
        if cloud == "amazon":  # a session first (IMDSv2)
            session = {"X-aws-ec2-metadata-token-ttl-seconds": "60"}
            token = _ask(address, "PUT", "/latest/api/token", session)
            headers = {"X-aws-ec2-metadata-token": token}
        answer = _ask(address, "GET", path, headers)
    except (OSError, http.client.HTTPException, UnicodeError):
        return ""
    return answer.strip().rpartition("/")[2].removeprefix(AZURE)


@cache
def find_tpu_worker(system: Path = Path("/sys"), address: str = ADDRESS) -> tuple[int, int]:
    """Find this machine's index and the number of machines in a Cloud TPU slice; (0, 1)
    elsewhere.
    """
    if _find_cloud(system) != "google compute engine":
        return 0, 1
    path = "/computeMetadata/v1/instance/attributes/"
    try:
        number = int(_ask(address, "GET", f"{path}agent-worker-number", GOOGLE))
        workers = _ask(address, "GET", f"{path}worker-network-endpoints", GOOGLE)
    except (OSError, http.client.HTTPException, ValueError):
        return 0, 1
    return number, len(workers.split(","))


def _find_cloud(system: Path) -> str:
    files = [
        "class/dmi/id/sys_vendor",
        "class/dmi/id/bios_version",
        "class/dmi/id/product_name",
        "class/dmi/id/chassis_asset_tag",
        "firmware/devicetree/base/model",
        "firmware/devicetree/base/compatible",
    ]
    named = " ".join(read_text(system / name) for name in files).lower()
    return next((name for name in CLOUDS if name in named), "")


def _ask(address: str, method: str, path: str, headers: dict[str, str]) -> str:
    """Query the service, bypassing proxies; raise an HTTPException without a valid answer."""
    for timeout_s in TIMEOUTS_S:
        connection = http.client.HTTPConnection(address, timeout=timeout_s)
        try:
            connection.request(method, path, headers=headers)
            response = connection.getresponse()
            if response.status != http.client.OK:
                raise http.client.HTTPException(response.status)
            return response.read(65536).decode("ascii")
        except TimeoutError:
            continue
        finally:
            connection.close()
    raise TimeoutError(f"{address} does not answer within {timeout_s:g} s")
