"""What runs used in energy, measured or bounded, and the carbon dioxide that the electricity of a
place stands for.

Measured are the GPUs and the processors' packages; memory, disks, power supplies and cooling come
on top.
"""

import math
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import stats

from dr_lib.runs.prices import PriceError, find_price
from dr_lib.statistics.intervals import UPPER, mean_interval

GRIDS, RATED_POWER = (Path(__file__).with_name(f"{name}.csv") for name in ("grids", "rated_power"))
J_PER_KWH = 3.6e6
WHOLE = 0.95  # of the time of a run has to be monitored: the energy of a part is not the run's
CANNOT = "not measurable"
UNMEASURED = "not measured"
CPU_WAYS = {"RAPL": "RAPL", "no RAPL counter": f"{CANNOT}: no RAPL counter"}
CPU_WAYS |= {"RAPL is for root alone": f"{CANNOT}: RAPL is for root alone", "": UNMEASURED}
# how each part was measured, or why not
WAYS = ("NVML counter", "sampled power", CANNOT, *CPU_WAYS.values())
SHARES = {  # joules per what: the columns whose product counts them
    "joules_per_image": ("epochs", "num_images_train"),
    "joules_per_epoch": ("epochs",),
    "joules_per_prediction": ("num_predictions",),
}


class EnergyError(ValueError):
    """The electricity of a place is not known."""


def find_grid(place: str, region: str = "") -> pd.Series:
    """Find the electricity of a cloud's region, or where that is not known, of a place.

    Returns:
        The row of grids.csv: `place`, and `g_per_kwh`, what a kilowatt-hour emitted in a `year` [g
        of CO2].

    Raises:
        EnergyError: neither is known; those that are are named.
    """
    grids = pd.read_csv(GRIDS, keep_default_na=False)
    is_region = grids["regions"].str.split().map(lambda regions: region in regions)
    found = pd.concat([grids[is_region], grids[grids["place"] == place]])
    if found.empty:
        known = ", ".join(grids["place"])
        raise EnergyError(
            f"the emissions of electricity in {place!r} are not known: choose from {known}"
        )
    return found.iloc[0]


def find_rated_power(accelerator: str) -> float:
    """The rated power of an accelerator in watts, by the name that its driver gives; NaN where
    none is published.
    """
    rated = pd.read_csv(RATED_POWER)
    watts = rated["watts"][[fnmatchcase(accelerator, pattern) for pattern in rated["accelerator"]]]
    return float(watts.iloc[0]) if len(watts) else math.nan


def measure_energy(runs: pd.DataFrame, *, grid: str = "World") -> pd.DataFrame:
    """Add to each run what it used: a sum of what was measured, NaN where its accelerator or its
    whole time was not.

    Args:
        runs: one row per run, with `accelerator`, and what `monitor.summarise` found where it was
            monitored.
        grid: the place of those whose price names no region.

    Returns:
        The runs with `energy_j` of GPUs and processors, `gpu_difference_percent` of the sampled
        power to the counter, `joules_per_image`, `joules_per_epoch`, `joules_per_prediction`,
        `gco2` [g] and the `grid` with its year; `bound_j` of accelerators that tell nothing, their
        rated power x time; `gpu_measured` and `cpu_measured`, one of WAYS each (empty: none is
        used).

    Raises:
        EnergyError: the place is not known.
    """
    needed = [
        "gpu_energy_j",
        "gpu_energy_sampled_j",
        "cpu_energy_j",
        "monitored_s",
        "train_s",
        "num_accelerators",
    ]
    needed += [
        "load_s",
        "num_images_dropped",
        *{name for names in SHARES.values() for name in names},
    ]
    number = runs.reindex(columns=needed).astype(float)
    # of the last batch of each epoch
    number["num_images_train"] -= number["num_images_dropped"].fillna(0.0)
    text = (
        runs.reindex(columns=["gpu_energy_from", "cpu_energy_from", "priced_as"])
        .astype(object)
        .fillna("")
    )
    time_s = number["train_s"].fillna(number["load_s"])
    is_part = number["monitored_s"] < WHOLE * time_s
    on_cpu = runs["accelerator"] == "cpu"
    machines = runs.reindex(columns=["num_machines", "rehearsed"])
    # one of them is watched
    is_part |= (machines["num_machines"].astype(float) > 1) & ~machines["rehearsed"].eq(True)
    is_cut = {name: is_part & number[f"{name}_energy_j"].notna() for name in ("gpu", "cpu")}
    gpu_j, cpu_j = (number[f"{name}_energy_j"].mask(is_part) for name in ("gpu", "cpu"))
    energy_j = cpu_j.where(on_cpu, gpu_j + cpu_j.fillna(0.0))
    counted_j = gpu_j.where(text["gpu_energy_from"] == "NVML counter")
    grids = [find_grid(grid, _find_region(label)) for label in text["priced_as"]]
    watts = runs["accelerator"].map(find_rated_power) * number["num_accelerators"]
    per = {
        name: energy_j / number[list(counts)].prod(axis=1, skipna=False)
        for name, counts in SHARES.items()
    }
    return runs.assign(
        gpu_energy_j=gpu_j.where(~on_cpu),
        cpu_energy_j=cpu_j,
        energy_j=energy_j,
        gpu_difference_percent=100 * number["gpu_energy_sampled_j"] / counted_j - 100,
        **per,
        gco2=energy_j / J_PER_KWH * [each.g_per_kwh for each in grids],
        grid=[f"{each.place}, {each.year}" for each in grids],
        bound_j=(watts * time_s.combine(number["monitored_s"], np.fmax)).where(
            ~on_cpu & gpu_j.isna()
        ),
        gpu_measured=text["gpu_energy_from"]
        .replace("", CANNOT)
        .mask(is_cut["gpu"], UNMEASURED)
        .mask(on_cpu, ""),
        cpu_measured=text["cpu_energy_from"].map(CPU_WAYS).mask(is_cut["cpu"], UNMEASURED),
    )


def summarise_energy(
    runs: pd.DataFrame, keys: Sequence[str], *, grid: str = "World"
) -> pd.DataFrame:
    """Say what runs of one kind used, as the mean of each with its 95 % interval in _low and _high.

    Kinds differ in `keys`, or in the way in which a part was measured.

    Returns:
        A row per kind: `keys`, `n` runs, and what `measure_energy` adds, but columns in which
        nothing is known.
    """
    if not len(runs):
        return pd.DataFrame()
    means = ["gpu_energy_j", "gpu_difference_percent", "cpu_energy_j", *SHARES, "gco2", "bound_j"]
    told = ["grid", "gpu_measured", "cpu_measured"]
    lines = []
    for key, rows in measure_energy(runs, grid=grid).groupby(
        [*keys, *told], sort=False, dropna=False
    ):
        line = dict(zip([*keys, *told], key, strict=True)) | {"n": len(rows)}
        for name in means:
            values = rows[name].dropna()
            if name == "gpu_difference_percent":  # below 0, too: t on the plain values
                half = stats.t.ppf(UPPER, max(1, len(values) - 1)) * values.sem()
                found = values.mean(), values.mean() - half, values.mean() + half
            else:
                found = (
                    mean_interval(values)[:3]
                    if (values > 0).all()
                    else (values.mean(), np.nan, np.nan)
                )
            line |= {
                f"{name}{bound}": value
                for bound, value in zip(("", "_low", "_high"), found, strict=True)
            }
        lines.append(line)
    table = pd.DataFrame(lines).dropna(axis=1, how="all")
    columns = [
        *keys,
        "n",
        *(f"{name}{bound}" for name in means for bound in ("", "_low", "_high")),
        *told[1:],
    ]
    columns += ["grid"] if "gco2" in table else []
    return table[[name for name in columns if name in table and not (table[name] == "").all()]]


def _find_region(label: str) -> str:
    """The region of a price; empty where there is no such price, or it names none."""
    try:
        return find_price(label).region
    except PriceError:
        return ""
