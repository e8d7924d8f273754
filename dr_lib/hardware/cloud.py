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
NAMED_IN = [
    f"class/dmi/id/{name}"
    for name in ("sys_vendor", "bios_version", "product_name", "chassis_asset_tag")
]
NAMED_IN += [f"firmware/devicetree/base/{name}" for name in ("model", "compatible")]


@cache
def find_instance_type(system: Path = Path("/sys"), address: str = ADDRESS) -> str:
    """Find the instance type: m5.xlarge, n1-standard-4, NC4as_T4_v3 (Azure's without its
    Standard_).

    The service is asked only where DMI or the device tree names its cloud; empty elsewhere, and
    where it does not answer within 2 s, as in containers that are kept from it.
    """
    cloud = _find_cloud(system)
    if cloud is None:
        return ""
    questions = {
        "aws": ("/latest/meta-data/instance-type", {}),
        "google": ("/computeMetadata/v1/instance/machine-type", {"Metadata-Flavor": "Google"}),
        "azure": (
            "/metadata/instance/compute/vmSize?api-version=2021-02-01&format=text",
            {"Metadata": "true"},
        ),
    }
    path, headers = questions[cloud]
    try:
        if cloud == "aws":  # a session first (IMDSv2)
            token = _ask(
                address,
                "PUT",
                "/latest/api/token",
                {"X-aws-ec2-metadata-token-ttl-seconds": "60"},
            )
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
    if _find_cloud(system) != "google":
        return 0, 1
    path = "/computeMetadata/v1/instance/attributes/"
    headers = {"Metadata-Flavor": "Google"}
    try:
        number = int(_ask(address, "GET", f"{path}agent-worker-number", headers))
        workers = _ask(address, "GET", f"{path}worker-network-endpoints", headers)
    except (OSError, http.client.HTTPException, ValueError):
        return 0, 1
    return number, len(workers.split(","))


def _find_cloud(system: Path) -> str | None:
    named = " ".join(read_text(system / name) for name in NAMED_IN).lower()
    # EC2 on Nitro or Xen, Compute Engine, Azure's chassis (Microsoft alone is any Hyper-V)
    clouds = {
        "amazon": "aws",
        "google compute engine": "google",
        "7783-7084-3265-9085-8269-3286-77": "azure",
    }
    return next((cloud for name, cloud in clouds.items() if name in named), None)


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
