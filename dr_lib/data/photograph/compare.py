"""The ways of finding the disc, compared over the same photographs, with the truth where it is known."""

from pathlib import Path

import numpy as np
import pandas as pd

from dr_lib.data.photograph.crop import METHODS, Circle, Crop, NoFundusError, UnreadableImageError, crop_fundus


def crop_or_reason(source: str | Path | bytes, method: str = "robust") -> Crop | str:
    """Crop a photograph, or say why it cannot be used."""
    try:
        return crop_fundus(source, method=method)
    except (UnreadableImageError, NoFundusError) as error:
        return str(error)


def compare_methods(photographs: pd.DataFrame, truth: pd.DataFrame | None = None) -> pd.DataFrame:
    """Find the disc of each photograph by every method.

    Voets et al. ignore a photograph's EXIF orientation; of one that is to be turned their circle lies elsewhere.

    Args:
        photographs: row and image (path).
        truth: x, y and radius of the true circle [px], with the photographs' paths as index.

    Returns:
        A row per photograph with row and image; for each method its circle (`robust_x`, `robust_y`, `robust_radius`
        [px]), `robust_refused` (the reason, or empty) and, given the truth, `robust_error_percent`: the larger of the
        errors of centre and radius; and `centre_percent` and `radius_percent`, by how much voets differs from robust.
        Per cent are of the radius.
    """
    rows, circles = photographs[["row", "image"]].reset_index(drop=True), {}
    for method in METHODS:
        crops = [crop_or_reason(image, method) for image in rows["image"]]
        found = [(np.nan,) * 3 if isinstance(crop, str) else crop.circle for crop in crops]
        circles[method] = np.array(found).reshape(-1, 3)
        rows[[f"{method}_{name}" for name in Circle._fields]] = circles[method]
        rows[f"{method}_refused"] = [crop if isinstance(crop, str) else "" for crop in crops]
    rows["centre_percent"], rows["radius_percent"] = _differ(circles["voets"], circles["robust"])
    if truth is not None:
        true = truth[list(Circle._fields)].reindex(rows["image"]).to_numpy()
        for method in METHODS:
            rows[f"{method}_error_percent"] = np.maximum(*_differ(circles[method], true))
    return rows


def read_truth(images: Path) -> pd.DataFrame | None:
    """Read the true circles that the synthetic sample has in `circles.csv`, by path; None where there are none."""
    path = Path(images) / "circles.csv"
    if not path.is_file():
        return None
    truth = pd.read_csv(path)
    if not {"image", *Circle._fields} <= set(truth):
        return None  # somebody else's file of that name
    return truth.set_index(pd.Index([str(Path(images) / image) for image in truth["image"]]))


def summarise_methods(compared: pd.DataFrame) -> pd.DataFrame:
    """Sum up `compare_methods`: per measure its number of photographs, median, 95th percentile and largest value."""
    words = {
        "centre_percent": "voets beside robust: centre [% of the radius]",
        "radius_percent": "voets beside robust: radius [%]",
        **{f"{method}_error_percent": f"{method} beside the truth: error [% of the radius]" for method in METHODS},
    }
    measured = compared[[name for name in words if name in compared]].rename(columns=words)
    quantiles = measured.quantile([0.5, 0.95, 1]).set_axis(["median", "95th percentile", "largest"]).T
    quantiles.insert(0, "photographs", measured.count())
    return quantiles


def count_refusals(compared: pd.DataFrame) -> dict[str, int]:
    """How many photographs each method refused."""
    return {method: int((compared[f"{method}_refused"] != "").sum()) for method in METHODS}


def _differ(circles: np.ndarray, others: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """By how much centre and radius differ, in per cent of the others' radius; both (photographs, 3)."""
    x, y, radius = (circles - others).T
    percent = 100 / others[:, 2]
    return np.hypot(x, y) * percent, np.abs(radius) * percent
