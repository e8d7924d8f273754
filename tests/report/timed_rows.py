"""Rows of trainings on three machines, with the times that a test gives them."""

import pandas as pd

CPU = {"platform": "local", "accelerator": "cpu", "num_accelerators": 1}
T4 = {"platform": "kaggle", "accelerator": "Tesla T4", "num_accelerators": 2}
TPU = {"platform": "colab", "accelerator": "TPU v5 lite", "num_accelerators": 1}


def make_runs(seconds, hardware, **columns):
    """A row for each time; a column has one value for all, or one for each."""
    row = {
        "run_id": "r",
        "status": "ok",
        "error": "",
        "data_kind": "photographs",
        "model": "small_cnn",
    }
    return pd.DataFrame({"train_s": seconds}).assign(**row | hardware | columns)
