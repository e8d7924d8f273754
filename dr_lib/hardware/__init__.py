"""Detect the hardware, choose a training plan, and apply it.

cgroups  limits of containers: CPU time and memory
cpus     the processor, and how many CPUs may be used
facts    what the machine has
settings environment variables that change what is timed
plans    facts -> backend, strategy, precision, and why
devices  plan -> devices that are there, or an error
"""

from dr_lib.hardware.devices import (
    Device,
    activate,
    distribute,
    import_keras,
    import_tensorflow,
    make_once,
)
from dr_lib.hardware.facts import Facts, HardwareError, probe
from dr_lib.hardware.plans import Plan, Request, choose

__all__ = [
    "Device",
    "Facts",
    "HardwareError",
    "Plan",
    "Request",
    "activate",
    "choose",
    "distribute",
    "import_keras",
    "import_tensorflow",
    "make_once",
    "probe",
]
