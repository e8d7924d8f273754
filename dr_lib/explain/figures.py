"""Draw where a network looks: a photograph, its Grad-CAM map, the control, and the lesions."""

import numpy as np
from matplotlib.figure import Figure

from dr_lib.report.style import COLUMN, SAMPLE, open_panels, translate

TITLES = ("photograph", "Grad-CAM of the network", "control: random weights", "lesions")


def plot_explanations(
    photographs: np.ndarray,
    maps: np.ndarray,
    control: np.ndarray,
    lesions: np.ndarray | None,
    *,
    is_synthetic: bool,
    lang: str = "en",
) -> Figure:
    """Draw one row per photograph, each map with its control, the map of random weights.

    Args:
        photographs: (n, side, side, 3) uint8 RGB.
        maps: (n, side, side) in [0, 1], of `training.explain`.
        control: the same of the network with random weights.
        lesions: (n, side, side) in [0, 1], where they are known.
        is_synthetic: the title then says that these are no photographs.
        lang: en or pt.
    """
    columns = 3 if lesions is None else 4
    heights = COLUMN / columns  # each panel is a square
    figure, axes = open_panels(len(photographs) * columns, columns=columns, heights=heights)
    for ax, title in zip(axes[:columns], TITLES, strict=False):
        ax.set_title(translate(title, lang), fontsize="medium")
    for k, ax in enumerate(axes):
        row, column = divmod(k, columns)
        ax.axis("off")
        if column < 3:
            ax.imshow(photographs[row])
        if column > 0:
            drawn = (maps, control, lesions)[column - 1][row]
            is_mask = column == 3
            colours = "gray" if is_mask else "inferno"
            ax.imshow(drawn, vmin=0, vmax=1, cmap=colours, alpha=None if is_mask else 0.6)
    if is_synthetic:
        figure.suptitle(translate(SAMPLE, lang))
    return figure
