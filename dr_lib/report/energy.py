"""The energy that runs used, if their GPUs count it, and its carbon dioxide emissions.

Processors, memory, disks, power supplies and cooling come on top.
"""

import numpy as np
import pandas as pd

from dr_lib.report.groups import Selection, tabulate_groups

ENERGIES = "energy_j joules_per_image joules_per_epoch joules_per_prediction gco2".split()


def measure_energy(runs: pd.DataFrame, *, g_per_kwh: float = 0.0) -> pd.DataFrame:
    """Add the energy of its GPUs to each run; NaN if it was not measured over the whole time.

    Args:
        runs: one row per run, with `accelerator`, and what `monitor.summarise` found where it was
            monitored.
        g_per_kwh: CO2 of a kilowatt-hour where they ran [g]; 0 where it is not known.

    Returns:
        The runs with `energy_j`, `joules_per_image`, `joules_per_epoch`, `joules_per_prediction`,
        `gco2` [g].
    """
    columns = (
        "gpu_energy_j monitored_s train_s load_s epochs epochs_done"
        " num_images_train num_images_dropped num_predictions"
    )
    number = runs.reindex(columns=columns.split()).astype(float)
    time_s = number["train_s"].fillna(number["load_s"])
    # the energy of a part of the time is not the run's
    is_part = number["monitored_s"] < 0.95 * time_s
    energy_j = number["gpu_energy_j"].mask(is_part | (runs["accelerator"] == "cpu"))
    epochs = number["epochs_done"].fillna(number["epochs"])  # some runs stop early
    # without the photographs of the last batch of each epoch
    num_images = number["num_images_train"] - number["num_images_dropped"].fillna(0.0)
    return runs.assign(
        energy_j=energy_j,
        joules_per_image=energy_j / (epochs * num_images),
        joules_per_epoch=energy_j / epochs,
        joules_per_prediction=energy_j / number["num_predictions"],
        gco2=energy_j / 3.6e6 * (g_per_kwh or np.nan),  # 3.6e6 J per kWh
    )


def tabulate_energy(selection: Selection, *, g_per_kwh: float = 0.0) -> pd.DataFrame:
    """Tabulate what the GPUs of each group's runs used, see `measure_energy` and
    `tabulate_groups`; runs that were not measured have no line.
    """
    if selection.timed.empty:
        return selection.timed
    measured = measure_energy(selection.timed, g_per_kwh=g_per_kwh).dropna(subset=["energy_j"])
    counted = selection._replace(timed=measured, finished=measured)
    return tabulate_groups(counted, ENERGIES)
