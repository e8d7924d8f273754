"""Each room can be taken away."""

import pytest

from dr_lib.rooms import find_rooms
from tools.rooms import try_without


@pytest.mark.slow
@pytest.mark.parametrize("room", find_rooms())
def test_the_suite_works_without_a_room(room):
    """All modules, the collection of all tests, the commands, the front door and the pages; `make
    rooms` runs every fast test.
    """
    assert try_without(room, quick=True) == ""
