"""Energy and what it emits, by hand; what cannot be measured is never 0."""

import numpy as np
import pandas as pd
import pytest

from dr_lib.evidence.energy import (
    EnergyError,
    find_grid,
    find_rated_power,
    measure_energy,
    summarise_energy,
)
from tests.evidence.real_rows import T4X2, TPU, copy_row

COUNTED = {"gpu_energy_j": 3.6e6, "gpu_energy_sampled_j": 3.24e6, "gpu_energy_from": "NVML counter"}
COUNTED |= {
    "cpu_energy_j": 0.36e6,
    "cpu_energy_from": "RAPL",
    "epochs": 10,
    "num_images_train": 1007,
}
COUNTED |= {"num_images_dropped": 7}
BLIND = {"cpu_energy_j": None, "cpu_energy_from": "no RAPL counter"}


def test_joules_and_grams_by_hand():
    """1 kWh of GPUs and 0.1 kWh of processors: 396 kJ an epoch of 1,000 images, 42.35 g by
    Brazil's 38.5 g a kWh.
    """
    (row,) = measure_energy(
        pd.DataFrame([copy_row("10", **COUNTED, **T4X2)]), grid="Brazil"
    ).to_dict("records")
    names = ("energy_j", "joules_per_epoch", "joules_per_image", "gco2", "gpu_difference_percent")
    assert [row[name] for name in names] == pytest.approx([3.96e6, 396_000, 396, 42.35, -10])
    assert (row["grid"], row["gpu_measured"], row["cpu_measured"]) == (
        "Brazil, 2023",
        "NVML counter",
        "RAPL",
    )
    assert np.isnan(row["bound_j"]) and np.isnan(row["joules_per_prediction"])


def test_the_energy_of_a_part_is_not_the_runs():
    """94 of 100 s of a training on two T4 or of a load test are no measurement, 96 are; a bound
    is of all 100 s.
    """
    runs = [copy_row("10", train_s=100.0, monitored_s=s, **COUNTED, **T4X2) for s in (94.0, 96.0)]
    load = {
        "cpu_energy_j": 500.0,
        "cpu_energy_from": "RAPL",
        "num_predictions": 200,
        "load_s": 100.0,
    }
    runs += [copy_row("22", "litert_int8", monitored_s=s, **load) for s in (94.0, 96.0)]
    energy = measure_energy(pd.DataFrame(runs))
    assert energy["energy_j"].tolist() == pytest.approx([np.nan, 3.96e6, np.nan, 500], nan_ok=True)
    assert energy["gpu_measured"].tolist() == ["not measured", "NVML counter", "", ""]
    assert (
        energy["cpu_measured"].tolist() == ["not measured", "RAPL"] * 2
        and energy["bound_j"][0] == 14_000
    )


def test_the_two_meters_differ_by_an_interval_around_any_sign():
    """-2, 1 and 4 %: mean 1, deviation 3, t of two degrees of freedom 4.3027: 1 +- 7.4524."""
    runs = [
        copy_row("10", **COUNTED | {"gpu_energy_sampled_j": 36e3 * (100 + k)}, **T4X2)
        for k in (-2, 1, 4)
    ]
    (row,) = summarise_energy(pd.DataFrame(runs), ["accelerator"]).to_dict("records")
    found = [row[f"gpu_difference_percent{bound}"] for bound in ("", "_low", "_high")]
    assert found == pytest.approx([1, -6.4524, 8.4524], abs=1e-3)


def test_a_prediction_has_its_share_of_the_load():
    """500 J for 200 answers on a processor, whose GPU is none of the endpoint's."""
    row = copy_row(
        "22", "litert_int8", cpu_energy_j=500.0, cpu_energy_from="RAPL", num_predictions=200
    )
    energy = summarise_energy(pd.DataFrame([row, row | {"cpu_energy_j": 700.0}]), ["format"])
    assert energy["joules_per_prediction"].tolist() == pytest.approx([3.0]) and energy[
        "n"
    ].tolist() == [2]
    assert "gpu_measured" not in energy and energy["joules_per_prediction_low"][0] < 3


def test_what_is_not_measurable_has_a_bound_and_no_number():
    """Four chips TPU v2, 8 cores, use 112 kJ in 100 s at 280 W each, two T4 14 kJ; nobody
    publishes a v5e's power.
    """
    v2 = TPU | {"num_accelerators": 8}
    lite = TPU | {"accelerator": "TPU v5 lite"}
    runs = [copy_row("10", monitored_s=100.0, **BLIND, **about) for about in (v2, T4X2, lite)]
    energy = summarise_energy(pd.DataFrame(runs), ["accelerator"])
    assert energy["bound_j"].tolist() == pytest.approx([112_000, 14_000, np.nan], nan_ok=True)
    assert set(energy["gpu_measured"]) == {"not measurable"}
    assert set(energy["cpu_measured"]) == {"not measurable: no RAPL counter"}
    assert not {"gpu_energy_j", "cpu_energy_j", "gco2", "joules_per_image"} & set(energy)


def test_a_processors_energy_is_not_the_runs_where_the_gpu_tells_nothing():
    """The smaller part would pass for the whole; a row of before there was a meter was not
    measured.
    """
    run = copy_row("10", cpu_energy_j=9.0, cpu_energy_from="RAPL", **T4X2)
    assert measure_energy(pd.DataFrame([run]))["energy_j"].isna().all()
    old = pd.DataFrame([{"accelerator": "cpu", "num_accelerators": 1, "train_s": 3.0}])
    assert (
        measure_energy(old)["cpu_measured"].tolist() == ["not measured"]
        and summarise_energy(old[:0], []).empty
    )


def test_the_region_of_the_price_chooses_the_electricity(tmp_path, monkeypatch):
    """São Paulo's machine runs on Brazil's, whatever is asked for; an unknown place is named."""
    own = tmp_path / "own.csv"
    own.write_text(
        "provider,instance,region,currency,usd_per_hour,date,source\nAWS,g4dn,sa-east-1,USD,0.9,,a"
        " bill\n"
    )
    monkeypatch.setenv("DR_LIB_PRICES", str(own))
    runs = pd.DataFrame([copy_row("10", **COUNTED, priced_as=label) for label in ("g4dn", "")])
    assert measure_energy(runs, grid="United States")["grid"].tolist() == [
        "Brazil, 2023",
        "United States, 2022",
    ]
    with pytest.raises(EnergyError, match="'Mars' are not known: choose from Brazil"):
        find_grid("Mars")


@pytest.mark.parametrize(
    ("accelerator", "watts"),
    [
        ("Tesla T4", 70),
        ("Tesla V100-SXM2-16GB", 300),
        ("NVIDIA A100-SXM4-80GB", 400),
        ("NVIDIA H100 80GB HBM3", 700),
    ]
    + [("NVIDIA L4", 72), ("NVIDIA L40S", np.nan), ("Tesla P100-PCIE-16GB", 250), ("cpu", np.nan)],
)
def test_rated_powers_are_the_data_sheets(accelerator, watts):
    """By the name that the driver gives; an L40S is no L4."""
    assert find_rated_power(accelerator) == pytest.approx(watts, nan_ok=True)
