"""Read the versions of what a training imported."""

from __future__ import annotations

import platform
import sys


def read_versions(*packages: str) -> dict[str, str]:
    """Versions of Python, NumPy, imported packages and their CUDA; `backend`, the last of them."""
    cuda = ""
    if "torch" in packages:
        cuda = sys.modules["torch"].version.cuda or ""
    elif "tensorflow" in packages:
        cuda = sys.modules["tensorflow"].sysconfig.get_build_info().get("cuda_version", "")
    return {
        "python": platform.python_version(),
        "backend": packages[-1],
        "cuda": cuda,
        **{name: sys.modules[name].__version__ for name in ("numpy", *packages)},
    }
