"""How the gradability score answers to known damage, on real photographs beside the clone, and what
it costs.

python tests/bench_gradability.py
"""

import sys
import time
from pathlib import Path

import cv2
import numpy as np
from scipy.stats import spearmanr

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from dr_lib.data.photograph.crop import crop_fundus  # noqa: E402
from dr_lib.data.photograph.gradability import score_gradability  # noqa: E402

STEPS = {
    "blur": (0, 1, 2, 4, 8),  # sigma of the photograph [px of 512]
    "dark": (1, 0.5, 0.25),  # exposure
    "bright": (1, 2),
    "covered": (0, 0.1, 0.25, 0.5),  # share of the circle under a dark wedge
}


def read_photographs(data: Path) -> list[bytes]:
    """The files of odir512."""
    return [path.read_bytes() for path in sorted((data / "odir512" / "images").iterdir())]


def is_well_exposed(encoded: bytes) -> bool:
    """Whether its bright end is neither dark nor lost: doubling or halving its exposure makes it
    worse.
    """
    crop = crop_fundus(encoded).image
    red = crop[..., 0][crop.any(axis=2)]
    return np.quantile(red, 0.95) >= 125 and (red >= 254).mean() < 0.03


def degrade(encoded: bytes, kind: str, by: float) -> np.ndarray:
    """Make a photograph worse, and crop it."""
    image = cv2.imdecode(np.frombuffer(encoded, np.uint8), cv2.IMREAD_COLOR)
    if kind == "blur" and by:
        image = cv2.GaussianBlur(image, (0, 0), by)
    elif kind == "covered":
        x, y, _ = crop_fundus(encoded).circle
        rows, columns = np.indices(image.shape[:2])
        angle = np.arctan2(rows - y, columns - x) / (2 * np.pi) % 1
        image = np.where((angle < by)[..., None], image // 20, image)
    elif kind in ("dark", "bright"):
        image = np.clip(np.round(image * float(by)), 0, 255).astype(np.uint8)
    return crop_fundus(cv2.imencode(".png", image)[1].tobytes()).image


def compare_steps(photographs: list[bytes], what: str) -> None:
    """Print how often the score falls in each step, and Spearman's correlation with the damage."""
    for kind, steps in STEPS.items():
        scores = np.array(
            [[score_gradability(degrade(image, kind, by)) for by in steps] for image in photographs]
        )
        damage = np.broadcast_to(np.arange(len(steps)), scores.shape)
        fallen = ", ".join(f"{share:.1%}" for share in (np.diff(scores, axis=1) < 0).mean(axis=0))
        means = ", ".join(f"{mean:.3f}" for mean in scores.mean(axis=0))
        rank = spearmanr(damage.ravel(), scores.ravel()).statistic
        print(
            f"{what} (n = {len(scores)}), {kind} {steps}: mean {means}; falls in {fallen}; Spearman"
            f" {rank:.2f}"
        )


def compare_cost(photographs: list[bytes]) -> None:
    """Print the CPU time of the score as a share of that of the crop: medians over the
    photographs.
    """
    cv2.setNumThreads(1)
    times = []
    for encoded in photographs:
        start = time.thread_time()
        crop = crop_fundus(encoded)
        cropped = time.thread_time()
        score_gradability(crop.image)
        times.append((1000 * (cropped - start), 1000 * (time.thread_time() - cropped)))
    crop_ms, score_ms = np.median(times, axis=0)
    print(
        f"CPU ms, medians of {len(times)}: crop {crop_ms:.2f}, score {score_ms:.2f}"
        f" ({score_ms / crop_ms:.0%} of it)"
    )


if __name__ == "__main__":
    photographs = read_photographs(ROOT.parent / "shared" / "data")[::4]
    compare_cost(photographs)
    compare_steps(photographs, "all")
    compare_steps(list(filter(is_well_exposed, photographs)), "well exposed")
