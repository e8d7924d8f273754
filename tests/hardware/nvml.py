"""A stand-in for NVIDIA's management library, with GPUs of one's own."""

import sys
from types import ModuleType, SimpleNamespace

import pytest


class NVMLError(Exception):
    """As the library's."""


def put_nvml(
    monkeypatch: pytest.MonkeyPatch,
    *gpus: tuple[str, float, float, str],
    fault: str = "",
    is_sliced: bool = False,
) -> ModuleType:
    """Put (name, GiB, compute capability, UUID) in place of this machine's GPUs. A fault, the
    name of an error, is what the library begins with.
    """
    module = ModuleType("pynvml")
    kinds = {
        name: type(name, (NVMLError,), {})
        for name in (
            "NVMLError_LibraryNotFound",
            "NVMLError_DriverNotLoaded",
            "NVMLError_NotSupported",
            "NVMLError_Unknown",
        )
    }

    def begin():
        if fault:
            raise kinds[fault](fault)

    functions = {
        "nvmlInit": begin,
        "nvmlDeviceGetCount": lambda: len(gpus),
        "nvmlDeviceGetHandleByIndex": lambda number: number,
        "nvmlDeviceGetHandleByUUID": [gpu[3] for gpu in gpus].index,
        "nvmlDeviceGetMigMode": lambda number: [is_sliced] * 2,
        "nvmlDeviceGetName": lambda number: gpus[number][0],
        "nvmlDeviceGetMemoryInfo": lambda number: SimpleNamespace(
            total=int(gpus[number][1] * 2**30), used=2**30
        ),
        "nvmlDeviceGetCudaComputeCapability": lambda number: map(
            int, str(gpus[number][2]).split(".")
        ),
        "nvmlSystemGetDriverVersion": lambda: "550.54.15",
        "nvmlDeviceGetUUID": lambda number: gpus[number][3],
    }
    vars(module).update(functions, NVMLError=NVMLError, **kinds)
    monkeypatch.setitem(sys.modules, "pynvml", module)
    return module
