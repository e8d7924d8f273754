"""The instance type: asked of the cloud that DMI names, played by a server on loopback, and of
no other.
"""

import socket
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from dr_lib.hardware import cloud
from dr_lib.hardware.cloud import find_instance_type, find_tpu_worker

GOOGLE = ("Metadata-Flavor", "Google")
ATTRIBUTES = "/computeMetadata/v1/instance/attributes"
ANSWERS = {  # path: the header that a service wants, its answer
    "/latest/meta-data/instance-type": (("X-aws-ec2-metadata-token", "a-token"), "m5.xlarge"),
    "/computeMetadata/v1/instance/machine-type": (GOOGLE, "projects/1/machineTypes/n1-small"),
    f"{ATTRIBUTES}/agent-worker-number": (GOOGLE, "2"),
    f"{ATTRIBUTES}/worker-network-endpoints": (
        GOOGLE,
        "a:b:10.0.0.2,a:b:10.0.0.3,a:b:10.0.0.4",
    ),
    "/metadata/instance/compute/vmSize?api-version=2021-02-01&format=text": (
        ("Metadata", "true"),
        "Standard_F4s_v2",
    ),
}


@pytest.fixture
def service():
    """The metadata services of three clouds at one address, and the paths that they were asked
    for.
    """

    class Service(BaseHTTPRequestHandler):
        def answer(self, status, text=""):
            self.send_response(status)
            self.end_headers()
            self.wfile.write(text.encode())

        def do_PUT(self):
            asked.append(self.path)
            is_asked_well = "X-aws-ec2-metadata-token-ttl-seconds" in self.headers
            self.answer(200 if is_asked_well else 400, "a-token")

        def do_GET(self):
            asked.append(self.path)
            (name, value), text = ANSWERS[self.path]
            self.answer(*(200, text) if self.headers[name] == value else (403,))

        def log_message(self, *_):
            pass

    asked = []
    server = ThreadingHTTPServer(("127.0.0.1", 0), Service)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield f"127.0.0.1:{server.server_port}", asked
    server.shutdown()


def write_system(folder: Path, files: dict[str, str]) -> Path:
    """A /sys that says this of the machine."""
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"{text}\n")
    return folder


DMI = "class/dmi/id"
EC2 = {f"{DMI}/sys_vendor": "Amazon EC2"}
COMPUTE_ENGINE = {f"{DMI}/product_name": "Google Compute Engine"}
AZURE = {
    f"{DMI}/sys_vendor": "Microsoft Corporation",
    f"{DMI}/chassis_asset_tag": "7783-7084-3265-9085-8269-3286-77",
}


@pytest.mark.parametrize(
    ("files", "instance_type", "num_asked"),
    [
        (EC2, "m5.xlarge", 2),
        ({f"{DMI}/sys_vendor": "Xen", f"{DMI}/bios_version": "4.11.amazon"}, "m5.xlarge", 2),
        ({"firmware/devicetree/base/compatible": "amazon,ec2"}, "m5.xlarge", 2),
        (COMPUTE_ENGINE, "n1-small", 1),
        (AZURE, "F4s_v2", 1),
        ({f"{DMI}/sys_vendor": "Microsoft Corporation"}, "", 0),  # anybody's Hyper-V
        ({f"{DMI}/sys_vendor": "LENOVO", f"{DMI}/product_name": "Google Pixelbook"}, "", 0),
        ({}, "", 0),
    ],
)
def test_the_cloud_that_is_named_is_asked_in_its_own_way(
    tmp_path, service, files, instance_type, num_asked
):
    """And nobody is asked where no cloud is named."""
    address, asked = service
    assert find_instance_type(write_system(tmp_path, files), address) == instance_type
    assert len(asked) == num_asked


def test_a_slice_of_cloud_tpu_tells_its_machines(tmp_path, service):
    """The third of three, by the names of the TPU's metadata; elsewhere there is one machine,
    and nobody is asked.
    """
    address, asked = service
    assert find_tpu_worker(tmp_path / "other", address) == (0, 1) and not asked
    assert find_tpu_worker(write_system(tmp_path, COMPUTE_ENGINE), address) == (2, 3)


def test_a_busy_service_is_asked_once_more(tmp_path, service, monkeypatch):
    """Its answers come late, and the machine keeps its name."""
    address, asked = service
    service_s = cloud.TIMEOUTS_S[0] + 0.3
    answer = ThreadingHTTPServer.process_request
    monkeypatch.setattr(
        ThreadingHTTPServer,
        "process_request",
        lambda *request: time.sleep(service_s) or answer(*request),
    )
    assert find_instance_type(write_system(tmp_path, AZURE), address) == "F4s_v2"


def test_a_service_that_does_not_answer_leaves_it_empty(tmp_path, monkeypatch):
    """It listens and says nothing, as in a container one hop too far away; or nobody listens at
    all.
    """
    system = write_system(tmp_path, EC2)
    monkeypatch.setattr("dr_lib.hardware.cloud.TIMEOUTS_S", (0.1, 0.2))
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        assert find_instance_type(system, address) == ""
    find_instance_type.cache_clear()
    assert find_instance_type(system, address) == ""
