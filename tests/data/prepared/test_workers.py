"""Work handed out to processes comes back in order, in small portions, and the processes do not
outlive it.
"""

import pytest

from dr_lib.data.prepared.workers import TASKS_PER_WORKER, map_over


@pytest.mark.parametrize("workers", [0, 2])
def test_items_are_drawn_as_results_are_taken(workers):
    """Results come in the order of the items, and only a few items are under way, however many
    there are.
    """
    drawn = []

    def draw():
        for number in range(-2000, 0):
            drawn.append(number)
            yield number

    with map_over(workers) as map_items:
        results = map_items(abs, draw())
        assert next(results) == 2000
        assert len(drawn) <= max(workers, 1) * TASKS_PER_WORKER
        assert list(results) == list(range(1999, 0, -1))


def test_an_error_in_a_worker_is_raised_here():
    """A mistake in the work is no dead worker."""
    with pytest.raises(ZeroDivisionError), map_over(2) as map_items:
        list(map_items(eval, ["1", "1 / 0"]))
