"""Draw where a network looks: a photograph, its Grad-CAM map, the control beside it, and the lesions."""

import numpy as np
from matplotlib.figure import Figure

from dr_lib.figures.style import SAMPLE, choose_words, open_panels, write_title


def plot_explanations(
    photographs: np.ndarray,
    maps: np.ndarray,
    control: np.ndarray,
    lesions: np.ndarray | None = None,
    lang: str = "en",
    *,
    is_synthetic: bool = False,
) -> Figure:
    """Draw a row per photograph; there is no map without the control, which shows what random weights look at.

    Args:
        photographs: (n, side, side, 3) uint8 RGB.
        maps: (n, side, side) in [0, 1], of `training.explain`.
        control: the same of the network with random weights.
        lesions: (n, side, side) in [0, 1], where they are known.
        lang: en or pt.
        is_synthetic: the title then says that these are no photographs.
    """
    say = choose_words(lang)
    titles = [say("photograph"), say("Grad-CAM of the network"), say("control: random weights"), say("lesions")]
    columns = [None, maps, control, *([] if lesions is None else [lesions])]
    figure, axes = open_panels(len(photographs) * len(columns), columns=len(columns), width=1.9, heights=2.1)
    for k, ax in enumerate(axes):
        row, column = divmod(k, len(columns))
        ax.axis("off")
        if column == 3:
            ax.imshow(lesions[row], cmap="gray", vmin=0, vmax=1)
        else:
            ax.imshow(photographs[row])
        if column in (1, 2):
            ax.imshow(columns[column][row], cmap="inferno", vmin=0, vmax=1, alpha=0.6)
        if row == 0:
            ax.set_title(titles[column], fontsize="medium")
    title = write_title("Where the network looks, and where random weights do", is_synthetic, say, SAMPLE)
    figure.suptitle(title)
    return figure
