"""Each room can be taken away."""

from itertools import combinations

import pytest

from dr_lib.rooms import find_rooms
from tools.rooms import try_without

# a room is taken from three copies of five, no two rooms from the same three: for any two rooms
# there is a copy with the one and without the other
COPIES = range(5)
TAKEN = dict(zip(find_rooms(), combinations(COPIES, 3), strict=False))


@pytest.mark.slow
@pytest.mark.parametrize("copy", COPIES)
def test_the_suite_works_without_a_room(copy, monkeypatch):
    """All modules, the collection of all tests, the commands, the front door and the pages; `make
    rooms` runs every fast test.
    """
    monkeypatch.setenv(
        "PYTEST_ADDOPTS", "--assert=plain"
    )  # which compiles tests in half the time
    assert TAKEN.keys() == find_rooms().keys()
    assert try_without(*(room for room in TAKEN if copy in TAKEN[room]), quick=True) == ""
