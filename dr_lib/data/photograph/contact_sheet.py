"""Contact sheets: photographs with the circle found in each, their crops beneath, and why some have none.

They show health data wherever the photographs are real: a caption says the row of the label table, never a name.
"""

import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import cv2
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Circle as Ring

from dr_lib.data.labels.privacy import name_image, pseudonym
from dr_lib.data.photograph.compare import crop_or_reason
from dr_lib.data.photograph.crop import METHODS, TURNS, Circle, UnreadableImageError, turn_upright
from dr_lib.data.photograph.decode import decode, open_picture
from dr_lib.data.photograph.pixels import decode_jpeg
from dr_lib.data.shards.records import from_example, read_shards
from dr_lib.data.shards.tfrecord import unframe

SIDE = 320  # px of the longer side of a photograph as it is shown
MAX_CANDIDATES = 500  # photographs that are looked at to choose those with the most different looks
RINGS = ({"edgecolor": "#00e5ff"}, {"edgecolor": "#ff40ff", "linestyle": "--"})  # of the first circle, of a second


class ContactSheetError(ValueError):
    """There is nothing to show, or the photographs are not those of the records."""


class Panel(NamedTuple):
    """A photograph, and beneath it what became of it."""

    caption: str
    source: str | Path | bytes  # a picture file, or what should have been one
    circles: Sequence[Circle]  # to draw on it
    crops: Sequence[np.ndarray | str]  # (side, side, 3) uint8 RGB, or the reason why there is none


def plot_contact_sheet(panels: Sequence[Panel], title: str, num_columns: int = 8) -> Figure:
    """Draw photographs with their circles, and beneath each its crops.

    Args:
        panels: in the order to show them; each has as many crops as the first.
        title: of the figure; it should say whether the photographs are drawn or real.
        num_columns: photographs side by side.

    Raises:
        ContactSheetError: there are no panels.
    """
    if not panels:
        raise ContactSheetError("no photographs to show: choose at least one")
    num_rows, num_crops = -(-len(panels) // num_columns), len(panels[0].crops)
    heights = [1.0, *[1.0] * num_crops] * num_rows
    figure = Figure(figsize=(1.55 * num_columns, 0.4 + 1.55 * sum(heights) + 0.35 * num_rows), layout="constrained")
    axes = figure.subplots(len(heights), num_columns, height_ratios=heights, squeeze=False)
    for ax in axes.flat:
        ax.set_axis_off()
    for index, panel in enumerate(panels):
        row, column = divmod(index, num_columns)
        first, *others = axes[row * (1 + num_crops) :, column][: 1 + num_crops]
        _draw_photograph(first, panel)
        for ax, crop in zip(others, panel.crops, strict=True):
            _draw_crop(ax, crop)
    figure.get_layout_engine().set(w_pad=0.02, h_pad=0.02, wspace=0.02, hspace=0.01)
    figure.suptitle(title)
    return figure


def match_records(table: pd.DataFrame, images: Path, data_dir: Path, private: Path) -> pd.DataFrame:
    """Find the photograph of each record, which only the salt in the private folder can tell.

    Args:
        table: of `tables.read_labels`, from the folder `images`.
        images: folder that the records were prepared from.
        data_dir: folder of the records.
        private: their private folder.

    Returns:
        A row per record, in the order of the label table: row, image (path), shard (path), split, image_id, grade,
        status, x, y and radius. The crops stay in the shards: those of 88,000 photographs are 1.6 GB.

    Raises:
        ContactSheetError: there is no salt, or a record belongs to no photograph of the table.
        ShardError: a shard does not match the manifest.
    """
    advice = f"give the folder of photographs that {data_dir} was prepared from, and the private folder of that time"
    try:
        salt = (Path(private) / "salt").read_bytes()
    except OSError as error:
        raise ContactSheetError(f"{private} has no salt that can be read: {advice}") from error
    image_ids = [pseudonym(salt, "image", name_image(path, images)) for path in table["image"]]
    known = table[["row", "image"]].set_axis(image_ids)
    columns = ["image_id", "grade", "status", "x", "y", "radius"]
    records = [
        (str(Path(data_dir) / shard), shard.partition("-")[0], *(getattr(record, name) for name in columns))
        for shard, in_shard in read_shards(data_dir)
        for record in in_shard
    ]
    found = pd.DataFrame(records, columns=["shard", "split", *columns])
    if not set(found["image_id"]) <= set(known.index):
        raise ContactSheetError(f"the salt or the photographs are not those of the records: {advice}")
    return known.loc[found["image_id"]].reset_index(drop=True).join(found).sort_values(["row", "image"])


def choose_looks(photographs: pd.DataFrame, num: int = 16, seed: int = 0) -> pd.DataFrame:
    """Choose photographs of every status and grade, then those that look least like any chosen before.

    A random choice shows the common twenty times over; what a person has to see is the dark, the pale and the clipped.
    Looks are compared by the colours of the crop on a grid of 4 x 4.

    Args:
        photographs: from `match_records`.
        num: how many to choose; fewer where there are no more.
        seed: of which one stands for its status and grade, and of the candidates where there are thousands.

    Returns:
        The rows chosen, by grade, and in the column encoded the JPEG of each crop.
    """
    shuffled = photographs.sample(frac=1, random_state=seed)
    needed = shuffled[~(shuffled["status"].duplicated() & shuffled["grade"].duplicated())]
    candidates = pd.concat([needed, shuffled.drop(needed.index)[:MAX_CANDIDATES]])
    candidates = candidates.assign(encoded=_read_crops(candidates))
    looks = np.array([_describe_look(encoded) for encoded in candidates["encoded"]])
    chosen = list(range(min(num, len(needed))))
    while len(chosen) < min(num, len(candidates)):
        distances = np.linalg.norm(looks[:, None] - looks[chosen], axis=-1).min(axis=1)
        chosen.append(int(distances.argmax()))
    return candidates.iloc[chosen].sort_values(["grade", "row", "image"])


def lay_out_records(photographs: pd.DataFrame) -> list[Panel]:
    """Show each record's photograph, circle and crop as its shard holds them; rows as `choose_looks` gives them."""
    return [
        Panel(
            f"row {p.row}, grade {p.grade}\n{p.status.replace('+', ', ')}",
            p.image,
            [Circle(p.x, p.y, p.radius)],
            [decode_jpeg(p.encoded)],
        )
        for p in photographs.itertuples()
    ]


def lay_out_rejected(rejected: pd.DataFrame, num: int = 8) -> list[Panel]:
    """Show `num` photographs of `rejected.csv` with their reasons, one of each kind of reason first."""
    order = name_kinds(rejected["reason"]).duplicated().sort_values(kind="stable").index
    return [Panel(f"row {p.row}", p.image, [], [p.reason]) for p in rejected.loc[order][:num].itertuples()]


def name_kinds(reasons: pd.Series) -> pd.Series:
    """Take out of the reasons in `rejected.csv` what is one photograph's own: the row of its twin, its size."""
    return reasons.replace({r"as row \d+$": "as row ...", r"^\d+ x \d+ px": "... px"}, regex=True)


def lay_out_files(files: Mapping[str, bytes]) -> list[Panel]:
    """Crop pictures that are nobody's, and show under the name of each what came of it."""
    crops = {name: crop_or_reason(encoded) for name, encoded in files.items()}
    return [
        Panel(f"{name}\nrefused", files[name], [], [crop])
        if isinstance(crop, str)
        else Panel(f"{name}\n{crop.status}", files[name], [crop.circle], [crop.image])
        for name, crop in crops.items()
    ]


def lay_out_differences(compared: pd.DataFrame, num: int = 8) -> list[Panel]:
    """Show where the methods differ most, with both circles and both crops; refused by one of them comes first."""
    refused = (compared[[f"{method}_refused" for method in METHODS]] != "").sum(axis=1)
    off = compared[["centre_percent", "radius_percent"]].max(axis=1).where(refused != 1, np.inf)
    panels = []
    for index in off.dropna().sort_values(ascending=False, kind="stable").index[:num]:
        row = compared.loc[index]
        crops = [crop_or_reason(row["image"], method) for method in METHODS]
        circles = [Circle(*row[[f"{method}_{name}" for name in Circle._fields]]) for method in METHODS]
        words = "refused by one" if np.isinf(off[index]) else f"{off[index]:.1f} % of the radius"
        shown = [crop if isinstance(crop, str) else crop.image for crop in crops]
        panels.append(Panel(f"row {row['row']}\n{words}", row["image"], circles, shown))
    return panels


def _read_crops(photographs: pd.DataFrame) -> list[bytes]:
    """Fetch the JPEGs of a few photographs out of their shards."""
    wanted, shards = set(photographs["image_id"]), map(Path, photographs["shard"].unique())
    records = (from_example(payload) for shard in shards for payload in unframe(shard.read_bytes()))
    crops = {record.image_id: record.encoded for record in records if record.image_id in wanted}
    return [crops[image_id] for image_id in photographs["image_id"]]


def _describe_look(encoded: bytes) -> np.ndarray:
    return cv2.resize(decode_jpeg(encoded), (4, 4), interpolation=cv2.INTER_AREA).ravel() / 255


def _draw_photograph(ax: Axes, panel: Panel) -> None:
    """Draw a photograph in the middle of a square, and its circles as far as the square reaches."""
    ax.set_title(panel.caption, fontsize="small")
    try:
        image, width, height = _read_small(panel.source)
    except UnreadableImageError:
        _write(ax, "no picture")
        return
    ax.imshow(image, extent=(-0.5, width - 0.5, height - 0.5, -0.5))
    for circle, look in zip(panel.circles, RINGS, strict=False):
        ax.add_patch(Ring(circle[:2], circle.radius, fill=False, linewidth=1.2, **look))
    x, y, half = (width - 1) / 2, (height - 1) / 2, 0.52 * max(width, height)
    ax.set(xlim=(x - half, x + half), ylim=(y + half, y - half))


def _draw_crop(ax: Axes, crop: np.ndarray | str) -> None:
    if isinstance(crop, str):
        _write(ax, crop)
    else:
        ax.imshow(crop)


def _write(ax: Axes, words: str) -> None:
    """Write words into the place of a picture."""
    ax.imshow(np.full((1, 1, 3), 235, np.uint8), extent=(0, 1, 0, 1))
    ax.text(0.5, 0.5, textwrap.fill(words, 22), ha="center", va="center", fontsize="x-small")


def _read_small(source: str | Path | bytes) -> tuple[np.ndarray, int, int]:
    """Read a photograph upright with a longer side of at most SIDE, and its full width and height."""
    encoded, (width, height, kind, orientation), _ = open_picture(source)
    reduction = next((k for k in (8, 4, 2) if max(width, height) >= k * SIDE), 1)
    image = decode(encoded, reduction, is_jpeg=kind == "jpeg")
    missing = max(0, round(height * image.shape[1] / width) - len(image))  # rows of a file that is cut short
    image = cv2.copyMakeBorder(image, 0, missing, 0, 0, cv2.BORDER_CONSTANT, value=(128, 128, 128))
    factor = min(1, SIDE / max(image.shape[:2]))
    image = cv2.resize(image, None, fx=factor, fy=factor, interpolation=cv2.INTER_AREA)
    image = turn_upright(image, orientation)
    return (image, height, width) if TURNS[orientation][0] else (image, width, height)
