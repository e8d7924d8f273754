"""Speed-up, efficiency and price by the number of machines, by hand."""

import numpy as np
import pandas as pd
import pytest

from dr_lib.evidence.scaling import fit_laws, summarise_scaling
from dr_lib.evidence.select import select_runs
from dr_lib.figures.scaling import plot_scaling

WORK = {
    "framework": "keras_jax",
    "dataset": "mnist",
    "image_size": 32,
    "network": 1,
    "accelerator": "cpu",
}
# seconds of an epoch by scaling and machines; geometric means 10, 6.25, 4.5 and 10, 12.5
EPOCHS = {
    ("strong", 1): (8.0, 12.5),
    ("strong", 2): (5.0, 7.8125),
    ("strong", 4): (4.05, 5.0),
    ("weak", 1): (8.0, 12.5),
    ("weak", 2): (10.0, 15.625),
}


@pytest.fixture
def runs() -> pd.DataFrame:
    """Runs on one, two and four machines of 3.6 USD an hour each."""
    lines = [
        {**WORK, "scaling": scaling, "num_machines": machines, "steady_epoch_s": seconds}
        | {"cost_per_epoch_usd": machines * seconds * 0.001}
        for (scaling, machines), times in EPOCHS.items()
        for seconds in times
    ]
    return pd.DataFrame(lines)


def test_speedup_and_efficiency_are_those_of_the_geometric_means(runs):
    """By hand: 10 s over 6.25 s, over two machines; weak: 2 x 10 s over 12.5 s. Prices are of
    all machines.
    """
    table = summarise_scaling(runs).set_index(["scaling", "num_machines"])
    measured = table[table["basis"] == "measured"]
    assert measured["speedup"].round(4).to_dict() == {
        ("strong", 1): 1.0,
        ("strong", 2): 1.6,
        ("strong", 4): 2.2222,
        ("weak", 1): 1.0,
        ("weak", 2): 1.6,
    }
    assert measured["efficiency"].round(4).tolist() == [1.0, 0.8, 0.5556, 1.0, 0.8]
    assert (measured["n"] == 2).all()
    two = measured.loc[("strong", 2)]
    assert two["speedup_low"] < 1.6 < two["speedup_high"]
    assert two["cost_per_epoch_usd"] == pytest.approx(2 * 6.4 * 0.001, rel=0.1)
    first = measured.loc[("strong", 1)]
    assert first["speedup_low"] == first["speedup_high"] == 1.0


def test_the_law_predicts_what_was_not_measured(runs):
    """4.5 / 10 = s + (1 - s) / 4 gives 0.267, 6.25 / 10 gives 0.25: between them; eight machines
    follow from it.
    """
    laws = fit_laws(runs)
    assert laws["scaling"].tolist() == ["strong"] and laws["n"].tolist() == [6]
    share = laws["serial_share_percent"].iloc[0] / 100
    assert 0.25 < share < 0.267
    predicted = summarise_scaling(runs).query("basis == 'predicted'").set_index("num_machines")
    assert predicted.index.tolist() == [8, 16] and (predicted["n"] == 0).all()
    assert predicted.loc[8, "speedup"] == pytest.approx(1 / (share + (1 - share) / 8))
    assert predicted.loc[16, "efficiency"] == pytest.approx(predicted.loc[16, "speedup"] / 16)


def test_a_law_predicts_only_where_its_fit_was_tested(runs):
    """Two numbers of machines fit every law; times that no share explains refuse it; faster than
    any number is none.
    """
    strong = runs[runs["scaling"] == "strong"]
    slower = strong.assign(steady_epoch_s=[8.0, 8.1, 4.0, 4.1, 8.0, 8.1])
    # what fits into caches
    faster = strong.assign(steady_epoch_s=[10.0, 10.2, 4.5, 4.55, 1.94, 1.97])
    for unfit in (strong[strong["num_machines"] < 4], slower, faster):
        table = summarise_scaling(unfit)
        assert set(table["basis"]) == {"measured"}
        plot_scaling(table)


def test_unlike_machines_are_not_compared(runs):
    """Another processor is no speed-up; rehearsed and real machines are both held against one
    machine.
    """
    runs = runs.assign(cpu=["Xeon" if number == 1 else "EPYC" for number in runs["num_machines"]])
    assert set(summarise_scaling(runs)["num_machines"]) == {2, 4}  # of the EPYC, among themselves
    both = pd.concat(
        [runs.assign(cpu="Xeon"), runs[runs["num_machines"] > 1].assign(cpu="Xeon", rehearsed=True)]
    )
    table = summarise_scaling(both).query("basis == 'measured'")
    assert table.groupby(["scaling", "rehearsed"]).size().to_dict() == {
        ("strong", False): 3,
        ("strong", True): 3,
        ("weak", False): 2,
        ("weak", True): 2,
    }
    assert (table["n"] == 2).all()


def test_where_nothing_scales_there_is_no_table(runs):
    """Rows of one number of machines, or of other notebooks, which have none."""
    assert summarise_scaling(runs[runs["num_machines"] == 2]).empty and fit_laws(runs[:2]).empty
    assert summarise_scaling(runs.drop(columns=["num_machines", "scaling"])).empty


@pytest.mark.parametrize(
    ("lang", "words"), [("en", "Speed-up by the number"), ("pt", "Aceleração pelo número")]
)
def test_the_figure_tells_measured_from_predicted(runs, lang, words):
    """What is predicted is hollow; the ideal and both scalings are named."""
    figure = plot_scaling(summarise_scaling(runs), lang)
    (ax,) = figure.axes
    assert words in figure.get_suptitle()
    hollow = [
        line for line in ax.lines if line.get_markerfacecolor() == "white" and len(line.get_xdata())
    ]
    assert [line.get_xdata().tolist() for line in hollow] == [[8, 16]]
    assert len(ax.get_legend().get_texts()) == 4
    np.testing.assert_allclose(ax.lines[0].get_ydata(), ax.lines[0].get_xdata())


def test_machines_are_in_the_name_of_an_environment():
    """Runs of two machines are another environment than of one, and rehearsed ones than real
    ones.
    """
    common = {
        "run_id": "r",
        "notebook": "10",
        "status": "ok",
        "platform": "local",
        "accelerator": "cpu",
    }
    common |= {"num_accelerators": 1, "resumed": 0, "disturbed": False, "train_s": 1.0}
    rows = [{"num_machines": 1}, {"num_machines": 2}, {"num_machines": 2, "rehearsed": True}, {}]
    selection = select_runs(pd.DataFrame([common | row for row in rows]))
    names = [
        "local, CPU",
        "local, CPU, 2 machines",
        "local, CPU, 2 machines (rehearsed)",
        "local, CPU",
    ]
    assert selection.timed["environment"].tolist() == names
