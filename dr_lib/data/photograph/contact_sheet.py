"""Show photographs with the circles found in them and their crops beneath, and compare the two
methods.

Real photographs are health data: a caption gives the row of the label table, never a name.
"""

import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Circle as Ring

from dr_lib.data.labels.privacy import name_image, pseudonym
from dr_lib.data.photograph.crop import METHODS, Crop, crop_fundus, turn_upright
from dr_lib.data.photograph.decode import decode, open_picture
from dr_lib.data.photograph.errors import NoFundusError, UnreadableImageError
from dr_lib.data.prepared.folder import Prepared
from dr_lib.hardware import without_stderr

SHOWN_SIDE = 320  # px; a photograph is decoded no smaller than that
RINGS = {"robust": {"edgecolor": "#00e5ff"}, "voets": {"edgecolor": "#ff40ff", "linestyle": "--"}}
NOWHERE = (np.nan, np.nan, np.nan)  # for the circle of a photograph that is refused


class Panel(NamedTuple):
    """A photograph to show."""

    caption: str
    source: str | Path | bytes  # a picture file, or what should have been one
    reason: str = ""  # why it was rejected; empty to crop it


def match_crops(table: pd.DataFrame, images: Path, data_dir: Path, private: Path) -> pd.DataFrame:
    """Find the photograph of each crop in `data_dir`, which takes the salt in its private folder.

    Args:
        table: of `tables.read_labels`, from the folder `images` that the crops were prepared from.

    Returns:
        The rows of `Prepared.photographs` with the image (its path), in the order of the label
        table.

    Raises:
        ValueError: a crop belongs to no photograph of the table.
        ShardError: the folder does not match its manifest.
    """
    salt = (Path(private) / "salt").read_bytes()
    image_ids = [pseudonym(salt, "image", name_image(path, images)) for path in table["image"]]
    crops = Prepared(data_dir).photographs
    if not set(crops["image_id"]) <= set(image_ids):
        raise ValueError(
            f"{data_dir} was not prepared from these photographs with the salt of {private}"
        )
    named = pd.DataFrame({"image_id": image_ids, "image": list(table["image"])})
    return named.merge(crops, on="image_id").sort_values(["row", "image"], ignore_index=True)


def choose_photographs(photographs: pd.DataFrame, num: int, seed: int = 0) -> pd.DataFrame:
    """Choose photographs of every status and every grade, then others at random."""
    shuffled = photographs.sample(frac=1, random_state=seed)
    is_known = shuffled["status"].duplicated() & shuffled["grade"].duplicated()
    return pd.concat([shuffled[~is_known], shuffled[is_known]])[:num].sort_values(["grade", "row"])


@without_stderr()  # the decoder complains of damaged files
def plot_contact_sheet(panels: Sequence[Panel], title: str, num_columns: int = 8) -> Figure:
    """Draw photographs with the circles of both methods, and beneath each its crops, or why there
    are none.

    The title should say whether the photographs are synthetic or real.
    """
    num_parts = 1 + (1 if all(panel.reason for panel in panels) else len(METHODS))
    num_rows = -(-len(panels) // num_columns)
    size = 1.55 * num_columns, 0.4 + (0.35 + 1.55 * num_parts) * num_rows
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.subplots(num_parts * num_rows, num_columns, squeeze=False)
    for ax in axes.flat:
        ax.set_axis_off()
    for index, panel in enumerate(panels):
        row, column = divmod(index, num_columns)
        _draw_panel(panel, *axes[row * num_parts : (row + 1) * num_parts, column])
    figure.suptitle(title)
    return figure


@without_stderr()
def compare_methods(images: Sequence[str], truth: np.ndarray | None = None) -> pd.DataFrame:
    """Crop photographs by both methods, and compare the circles with the true ones, or else with
    those of robust.

    Voets et al. ignore a photograph's EXIF orientation; of one that is to be turned their circle
    lies elsewhere.

    Args:
        images: paths.
        truth: (n, 3), x, y and radius of the true circles [px].

    Returns:
        A row per method: photographs, refused, and the median and the 95th percentile of the error,
        which is the larger of those of centre and radius [% of the radius].
    """
    circles = {}
    for method in METHODS:
        crops = [crop_or_explain(image, method) for image in images]
        circles[method] = np.array([getattr(crop, "circle", NOWHERE) for crop in crops]).reshape(
            -1, 3
        )
    known = circles["robust"] if truth is None else np.asarray(truth)
    rows = {}
    for method, found in circles.items():
        x, y, radius = (found - known).T
        error = pd.Series(100 * np.maximum(np.hypot(x, y), np.abs(radius)) / known[:, 2])
        rows[method] = len(found), np.isnan(found[:, 0]).sum(), *error.quantile([0.5, 0.95])
    columns = ["photographs", "refused", "median error [%]", "95th percentile [%]"]
    return pd.DataFrame.from_dict(rows, orient="index", columns=columns)


def crop_or_explain(source: str | Path | bytes, method: str = "robust") -> Crop | str:
    """Crop a photograph, or say why it cannot be used."""
    try:
        return crop_fundus(source, method=method)
    except (UnreadableImageError, NoFundusError) as error:
        return str(error)


def _draw_panel(panel: Panel, first: Axes, *others: Axes) -> None:
    first.set_title(panel.caption, fontsize="small", parse_math=False)
    try:
        picture = open_picture(panel.source)
        longer = max(picture.width, picture.height)
        reduction = next((k for k in (8, 4, 2) if longer >= k * SHOWN_SIDE), 1)
        image = turn_upright(decode(picture, reduction), picture.orientation)
        first.imshow(
            image,
            extent=(-0.5, reduction * image.shape[1] - 0.5, reduction * image.shape[0] - 0.5, -0.5),
        )
    except UnreadableImageError:
        _write(first, "no picture")
    for ax, method in zip(others, METHODS, strict=False):
        crop = panel.reason or crop_or_explain(panel.source, method)
        if isinstance(crop, str):
            _write(ax, crop)
        else:
            ax.imshow(crop.image)
            first.add_patch(
                Ring(
                    crop.circle[:2], crop.circle.radius, fill=False, linewidth=1.2, **RINGS[method]
                )
            )


def _write(ax: Axes, words: str) -> None:
    """Write words in the place of a picture."""
    ax.imshow(np.full((1, 1, 3), 235, np.uint8), extent=(0, 1, 0, 1))
    text = ax.text(0.5, 0.5, textwrap.fill(words, 22), ha="center", va="center")
    text.set(fontsize="x-small", parse_math=False)
