"""Add what a cloud runtime lacks of what the notebooks need, and leave alone what it ships."""

import importlib
import importlib.util
import re
import subprocess
import sys
import tempfile
from importlib.metadata import distributions
from pathlib import Path

from dr_lib.hardware.facts import find_platform

PACKAGES = {  # module: what pip calls it
    "ai_edge_litert": "ai-edge-litert",
    "cv2": "opencv-python-headless",
    "google_crc32c": "google-crc32c",
    "matplotlib": "matplotlib",
    "pandas": "pandas",
    "PIL": "pillow",
    "psutil": "psutil",
    "pydantic": "pydantic",
    "scipy": "scipy",
    "seaborn": "seaborn",
    "sklearn": "scikit-learn",
    "starlette": "starlette",
    "statsmodels": "statsmodels",
    "uvicorn": "uvicorn",
}
SOMETIMES = ("ai_edge_litert", "cv2", "starlette", "statsmodels", "uvicorn")  # a notebook that needs one asks for it
ALWAYS = tuple(name for name in PACKAGES if name not in SOMETIMES)


class MissingPackageError(RuntimeError):
    """A package is missing; the message says how to get it."""


def install_missing(*modules: str) -> list[str]:
    """Install what is missing on Colab or Kaggle, where a notebook may; elsewhere say what to install.

    What the runtime ships is held at its version, so that its TensorFlow, JAX and NumPy still fit each other. No
    framework is installed.

    Args:
        modules: needed besides those that every notebook needs, such as cv2.

    Returns:
        The packages installed.

    Raises:
        MissingPackageError: this is no cloud runtime, or the installation failed.
    """
    missing = [PACKAGES[name] for name in (*ALWAYS, *modules) if importlib.util.find_spec(name) is None]
    if missing and find_platform() == "local":
        raise MissingPackageError(f"{', '.join(missing)} missing: pip install -r requirements.txt")
    if missing:
        _install(missing)
        importlib.invalidate_caches()
    return missing


def _install(packages: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        held = Path(folder) / "held.txt"
        shipped: dict[str, str] = {}
        for found in distributions():  # in the order of sys.path: the first of a name is the one that is imported
            if found.metadata["Name"]:
                shipped.setdefault(re.sub(r"[-_.]+", "-", found.metadata["Name"]).lower(), found.version)
        held.write_text("\n".join(f"{name}=={number}" for name, number in shipped.items()), encoding="utf-8")
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--constraint", str(held), *packages]
        ran = subprocess.run(command, capture_output=True, text=True)
    if ran.returncode:
        why = ran.stderr.strip().splitlines()[-1:] or ["pip failed"]
        hint = "a Kaggle notebook has its internet switched on under Settings"
        raise MissingPackageError(f"could not install {', '.join(packages)} ({why[0]}); {hint}")
