"""The constraints of each runtime: what it ships, and the rest of requirements.txt."""

import re

import pytest
from packaging.utils import canonicalize_name

from tests.conftest import ROOT
from tools.constraints import REQUIREMENTS, list_all, read_list
from tools.runtimes import RUNTIMES

FILES = {runtime.name: runtime.python for runtime in RUNTIMES}
FILES |= {"oldest": "3.11", "newest": "3.11"}


@pytest.mark.parametrize("name", FILES)
def test_a_runtime_is_pinned_to_the_last_package(name):
    """Dated; each package once, with one version that requirements.txt and the runtime accept."""
    path = ROOT / "constraints" / f"{name}.txt"
    head, *lines = path.read_text().splitlines()
    assert re.fullmatch(rf"# {name}, Python {FILES[name]}, .* on 202\d-\d\d-\d\d", head)
    pinned = dict(line.split("==") for line in lines)
    assert len(pinned) == len(lines)
    cloud = name not in ("oldest", "newest")
    for entry in list_all(name) if cloud else read_list(REQUIREMENTS).values():
        assert entry.specifier.contains(pinned[canonicalize_name(entry.name)]), entry
    assert ("tensorflow-cpu" if cloud else "tensorflow") in pinned or name == "colab-tpu"
