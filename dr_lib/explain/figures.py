"""Draw where a network looks: a photograph, its Grad-CAM map, and the control."""

import numpy as np
from matplotlib.figure import Figure

from dr_lib.report.style import COLUMN, SAMPLE, open_panels, translate

TITLES = ("photograph", "Grad-CAM of the network", "control: random weights")


def plot_explanations(
    photographs: np.ndarray,
    maps: np.ndarray,
    control: np.ndarray,
    *,
    is_synthetic: bool,
    lang: str = "en",
) -> Figure:
    """Draw one row per photograph, each map with its control, the map of random weights.

    Args:
        photographs: (n, side, side, 3) uint8 RGB.
        maps: (n, side, side) in [0, 1], of `training.explain`.
        control: the same of the network with random weights.
        is_synthetic: the title then says that these are no photographs.
        lang: en or pt.
    """
    columns = len(TITLES)
    heights = COLUMN / columns  # each panel is a square
    figure, axes = open_panels(len(photographs) * columns, columns=columns, heights=heights)
    for ax, title in zip(axes[:columns], TITLES, strict=True):
        ax.set_title(translate(title, lang), fontsize="medium")
    for k, ax in enumerate(axes):
        row, column = divmod(k, columns)
        ax.axis("off")
        ax.imshow(photographs[row])
        if column > 0:
            drawn = (maps, control)[column - 1][row]
            ax.imshow(drawn, vmin=0, vmax=1, cmap="inferno", alpha=0.6)
    if is_synthetic:
        figure.suptitle(translate(SAMPLE, lang))
    return figure
