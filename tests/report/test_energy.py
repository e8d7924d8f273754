"""Energy and what it emits, by hand; what is not counted is never 0."""

import pandas as pd
import pytest

from dr_lib.report.energy import measure_energy, tabulate_energy
from dr_lib.report.groups import select_runs
from tests.report.real_rows import T4X2, TPU, copy_row

COUNTED = {
    "gpu_energy_j": 3.96e6,
    "epochs": 10,
    "num_images_train": 1007,
    "num_images_dropped": 7,
}


def test_joules_and_grams_by_hand():
    """1.1 kWh: 396 kJ an epoch of 1,000 images, 42.35 g by Brazil's 38.5 g a kWh; where four
    epochs were trained, 990 kJ each. 500 J of 200 predictions are 2.5 J each.
    """
    runs = pd.DataFrame([copy_row("10", **COUNTED, **T4X2)])
    (row,) = measure_energy(runs, g_per_kwh=38.5).to_dict("records")
    names = ("energy_j", "joules_per_epoch", "joules_per_image", "gco2")
    assert [row[name] for name in names] == pytest.approx([3.96e6, 396_000, 396, 42.35])
    assert pd.isna(row["joules_per_prediction"])
    (early,) = measure_energy(runs.assign(epochs_done=4)).to_dict("records")
    assert early["joules_per_epoch"] == pytest.approx(990_000) and pd.isna(early["gco2"])
    load = copy_row("22", "litert_int8", gpu_energy_j=500.0, num_predictions=200, **T4X2)
    assert measure_energy(pd.DataFrame([load]))["joules_per_prediction"].tolist() == [2.5]


def test_what_nobody_counted_whole_is_not_measured():
    """A TPU tells nothing, nor an older GPU, and 94 of 100 s are no measurement, as 96 are; they
    have no line beside what was counted.
    """
    whole = copy_row("10", train_s=100.0, monitored_s=96.0, **COUNTED, **T4X2)
    part = whole | {"monitored_s": 94.0, "seed": 9}
    for row in (part, copy_row("10", **TPU), copy_row("10", **T4X2)):
        assert tabulate_energy(select_runs(pd.DataFrame([row]))).empty
        table = tabulate_energy(select_runs(pd.DataFrame([row, whole])))
        assert (table["n"].tolist(), table["energy_j"].tolist()) == ([1], [3.96e6])
    assert tabulate_energy(select_runs(pd.DataFrame())).empty
