"""Predictions of a model that errs in a known way, as a table that anybody may have written."""

from pathlib import Path

import numpy as np
import pandas as pd
from scipy.special import softmax

# how Voets et al. train: by hand, from train.py and lib/ of their repository at commit 15f2af3
AUTHORS = {
    "crop_method": "voets",
    "image_size": 299,
    "model": "inception_v3",
    "weights": "imagenet",
    "task": "referable",
    "recipe": "full",
    "mode": "paper",
    "augmentation": "colour",
    "optimizer": "rmsprop_voets",  # rho 4e-5, epsilon 1e-10, a constant rate, rises of 0.01
    "learning_rate": 1e-3,
    "batch_size": 32,
    "epochs": 200,
    "patience": 11,
}


def draw_predictions(
    num_patients: int = 120, seed: int = 0, noise: float = 1.0
) -> pd.DataFrame:
    """Two eyes of each patient with a grade, five probabilities, a split, a camera and an age."""
    rng = np.random.default_rng(seed)
    patient = np.arange(2 * num_patients) // 2
    shared = rng.normal(size=num_patients)[patient]
    severity = 1.2 * shared + 0.6 * rng.normal(size=2 * num_patients)
    error = np.random.default_rng(seed + int(100 * noise)).normal(size=2 * num_patients)
    away = (severity + noise * error)[:, None] - np.array([-0.5, 0.35, 1.05, 1.75, 2.5])
    split = np.array(["train", "validation", "test"])[np.digitize(patient % 10, [3, 6])]
    table = pd.DataFrame(
        {
            "image_id": [f"i{k:03}" for k in range(len(patient))],
            "patient_id": [f"p{k:03}" for k in patient],
            "split": split,
            "eye": np.array(["left", "right"])[np.arange(len(patient)) % 2],
            "grade": np.digitize(severity, [0, 0.7, 1.4, 2.1]),
            "camera": np.array(["A", "B"])[patient % 2],
            "age": 30 + patient % 50,
        }
    )
    names = [f"probability_{grade}" for grade in range(5)]
    probabilities = softmax(-2 * away**2, axis=1).round(6)
    probabilities[split == "train"] = np.nan
    return table.join(pd.DataFrame(probabilities, columns=names))


def draw_abroad(noise: float = 1.0, version: str = "v1") -> pd.DataFrame:
    """Other patients, all of the test split, of a model that errs more; what `predict
    --external` writes.
    """
    table = draw_predictions(60, seed=7, noise=noise)
    abroad = table[table["split"] != "train"].assign(
        split="test", model_version=version, dataset="abroad"
    )
    return abroad.assign(
        image_id="x" + abroad["image_id"], patient_id="x" + abroad["patient_id"]
    )


def write(folder: Path, table: pd.DataFrame, name: str = "mine") -> Path:
    """Write a table as predictions."""
    path = folder / f"{name}.csv"
    table.to_csv(path, index=False)
    return path
