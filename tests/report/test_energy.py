"""Energy and what it emits, by hand; what is not counted is never 0."""

import pandas as pd
import pytest

from dr_lib.report.energy import measure_energy, tabulate_energy
from dr_lib.report.groups import select_runs
from tests.report.real_rows import T4X2, TPU, copy_row

NAN = float("nan")
COUNTED = {
    "gpu_energy_j": 3.96e6,
    "epochs": 10,
    "num_images_train": 1007,
    "num_images_dropped": 7,
}


def test_joules_and_grams_by_hand():
    """1.1 kWh: 396 kJ an epoch of 1,000 images, 42.35 g by Brazil's 38.5 g a kWh."""
    runs = pd.DataFrame([copy_row("10", **COUNTED, **T4X2)])
    (row,) = measure_energy(runs, g_per_kwh=38.5).to_dict("records")
    names = ("energy_j", "joules_per_epoch", "joules_per_image", "gco2")
    assert [row[name] for name in names] == pytest.approx([3.96e6, 396_000, 396, 42.35])
    assert pd.isna(row["joules_per_prediction"])
    load = copy_row("22", "litert_int8", gpu_energy_j=500.0, num_predictions=200, **T4X2)
    assert measure_energy(pd.DataFrame([load]))["joules_per_prediction"].tolist() == [2.5]
    assert measure_energy(runs)["gco2"].isna().all()
    early = measure_energy(runs.assign(epochs_done=4))  # of ten: 990 kJ each
    assert early["joules_per_epoch"].tolist() == pytest.approx([990_000])


def test_the_energy_of_a_part_is_not_the_runs():
    """94 of 100 s of a training are no measurement, 96 are."""
    runs = [
        copy_row("10", train_s=100.0, monitored_s=s, **COUNTED, **T4X2) for s in (94.0, 96.0)
    ]
    energy = measure_energy(pd.DataFrame(runs))
    assert energy["energy_j"].tolist() == pytest.approx([NAN, 3.96e6], nan_ok=True)


@pytest.mark.parametrize("changes", [TPU, T4X2])
def test_what_nobody_counted_is_not_measured(changes):
    """A TPU tells nothing, nor an older GPU. They have no line beside what was counted."""
    rows = [copy_row("10", **changes), copy_row("10", **COUNTED, **T4X2)]
    assert tabulate_energy(select_runs(pd.DataFrame(rows[:1]))).empty
    assert tabulate_energy(select_runs(pd.DataFrame(rows)))["n"].tolist() == [1]
    assert tabulate_energy(select_runs(pd.DataFrame())).empty
