"""The bench of rates: what fails, and what it writes."""

import numpy as np
import pytest

rates = pytest.importorskip("tools.rates", reason="it simulates claims, scenarios and exports")


@pytest.mark.parametrize(
    ("count", "studies", "limit", "fails"),
    [
        (10, 10, 0.63, True),  # at least 0.01^(1/10) = 0.631
        (10, 10, 0.632, False),
        (0, 10, 0.0, False),
        (1, 10, 0.001, True),  # at least 1 - 0.99^(1/10) = 0.001005
        (1, 10, 0.00101, False),
        (10, 10, None, False),
        (0, 0, 0.03, False),
    ],
)
def test_a_rate_fails_beyond_chance(count, studies, limit, fails):
    """Where its 99 % lower bound, solved by hand, is above the limit."""
    rate = rates.Rate(count, studies, limit)
    assert rate.fails() == fails == str(rate).startswith("**")


def test_a_failing_line_is_named_and_the_page_says_so(monkeypatch, tmp_path, capsys):
    """The command fails; the page has both designs, and a line is repeated to the bit."""

    def flip(rng: np.random.Generator, studies: int) -> rates.Rows:
        heads = rates.count_true(rng.random(studies) < 0.5, 0.03)
        return {"coin": {"heads": heads, "edge": rates.Rate(0, studies, 0.03)}}

    page = tmp_path / "rates.md"
    monkeypatch.setattr(rates, "PAGE", page)
    part = rates.Part("Coins", "Fair.", [rates.Line("coin", flip, 50)])
    monkeypatch.setattr(rates, "PARTS", [part])
    texts = []
    for _ in range(2):
        assert rates.main([]) == 1
        assert "FAILS  coin: heads" in capsys.readouterr().out
        texts.append(page.read_text().split("Failed")[1])
    assert texts[0] == texts[1] and "Failed: 1." in page.read_text()
    assert "| coin | 50 | **" in texts[0] and "0.0 [0.0, 8.8] ≤ 3" in texts[0]


def test_a_line_of_each_part_runs():
    """Two studies of its first line: rates between 0 and 1, a limit somewhere in each part."""
    tasks = {task.part.title: task for task in reversed(rates.list_tasks(full=False))}
    assert len(tasks) == len(rates.PARTS)
    for title in (
        "Verdicts",
        "Equal arms",
        "Machines and sessions",
        "Effects of factors",
        "Plans",
    ):
        rows, _ = tasks[title]._replace(studies=2).run()
        found = [rate for each in rows.values() for rate in each.values()]
        assert all(rate.count <= rate.studies == 2 for rate in found)
        assert any(rate.limit is not None for rate in found)
