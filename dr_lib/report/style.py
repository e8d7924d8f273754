"""Shared by all figures and tables: colours, words in two languages, number formats, axes,
panels.
"""

import re
from collections.abc import Callable, Sequence
from functools import cache
from html import escape
from io import BytesIO
from pathlib import Path

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.backend_bases import RendererBase
from matplotlib.collections import PathCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.text import Text
from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter

from dr_lib.numbers import write_number

INK = "#1b1f24"
MUTED = "#5b6572"
OURS = "#0b62a8"  # and what is right
WRONG = "#c2570c"
THEIRS = "#8b949e"  # what a paper published, and chance
ACCELERATOR_COLOURS = {"cpu": "#00806a", "gpu": OURS, "tpu": "#7b4fa3"}
FRAMEWORK_COLOURS = {  # none is an accelerator's
    "mxnet": "#cc78bc",
    "pytorch": "#0173b2",
    "tensorflow": "#d55e00",
    "keras_jax": "#56b4e9",
    "keras_torch": "#ca9161",
}
OTHER_COLOUR = "#404040"
LINES = (OURS, WRONG, "#cc78bc", "#ca9161", "#56b4e9", "#404040")
COLUMN = 6.5  # width of a page's column [inches]
HALF = 3.2
NAMES = {
    "mxnet": "MXNet",
    "pytorch": "PyTorch",
    "tensorflow": "TensorFlow",
    "keras_jax": "Keras / JAX",
    "keras_torch": "Keras / PyTorch",
    "mnist": "MNIST",
    "cifar10": "CIFAR-10",
    "cpu": "CPU",
    "colab": "Colab",
    "kaggle": "Kaggle",
    "vgg19": "VGG19",
    "mobilenet": "MobileNet",
    "inception_v3": "InceptionV3",
}
# others as their column
FACTOR_NAMES = {"dataset": "data set", "image_size": "image side", "residual": "repetitions"}
SAMPLE = "synthetic sample, not photographs"
IMAGES = "synthetic images, for timing only"


def read_headers() -> dict[str, str]:
    """Read the English headers of table columns, with units."""
    return {
        column: row.english
        for row in _read_words().itertuples()
        for column in row.columns.split()
    }


def choose_words(lang: str) -> Callable[[str], str]:
    """Return a function that translates sentences; English sentences are the keys of words.csv.

    Raises:
        ValueError: the language is neither en nor pt.
    """
    if lang not in ("en", "pt"):
        raise ValueError(f"no words for lang={lang!r}: choose en or pt")
    return _read_portuguese().__getitem__ if lang == "pt" else str


def translate(text: str, lang: str) -> str:
    """Translate a text that may be one of the suite's own; any other stays as it is."""
    return text if lang == "en" else _read_portuguese().get(text, text)


def name(level: object) -> str:
    """Write a level as people do: MNIST for mnist, 32 for 32.0."""
    return NAMES.get(level) or (f"{level:g}" if isinstance(level, float) else str(level))


def name_term(term: str, say: Callable[[str], str]) -> str:
    """Name a factor, or an interaction of factors joined by x."""
    return " x ".join(say(FACTOR_NAMES.get(factor, factor)) for factor in term.split(" x "))


class ShownFigure(Figure):
    """A figure that a notebook shows as a cell's value, even before pyplot has drawn one.

    A $ in a name begins no formula; only the powers of ten of an axis are formulas.
    """

    def draw(self, renderer: RendererBase) -> None:
        """Draw the figure with names as they are."""
        for text in self.findobj(Text):
            if "\\mathdefault" not in text.get_text() and "$" in text.get_text():
                text.set_parse_math(False)
        super().draw(renderer)

    def _repr_png_(self) -> bytes:
        return write_figure(self, "png")


def write_figure(figure: Figure, suffix: str) -> bytes:
    """Write a figure as png, pdf or svg: text stays text, over 2,000 marks become a picture."""
    marks = {line: len(line.get_xdata()) for line in figure.findobj(Line2D)}
    for points in figure.findobj(PathCollection):
        marks[points] = len(points.get_offsets())
    if sum(marks.values()) > 2000:
        for artist, number in marks.items():
            artist.set_rasterized(number > 100)
    drawn = BytesIO()
    settings = {"svg.fonttype": "none", "svg.hashsalt": "dr", "pdf.fonttype": 42}
    with rc_context(settings):
        figure.savefig(
            drawn,
            format=suffix,
            dpi=150,
            metadata={"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(suffix),
        )
    return drawn.getvalue()


def embed_figure(svg: bytes, words: str) -> str:
    """Turn a figure into part of a page: it has the page's type, its width, and words for it."""
    text = svg.decode()
    text = text[text.index("<svg") :]
    # as Matplotlib 3.10 writes it, and as earlier ones do
    text = re.sub(r"font-family: [^;\"]*(; )?", "", text)
    text = re.sub(r"font: (?:(\d{3}|bold) )?([\d.]+px)[^;\"]*", _name_size, text)
    text = re.sub(r' width="[\d.]+pt"| height="[\d.]+pt"', "", text, count=2)
    return text.replace("<svg", f'<svg role="img" aria-label="{escape(words)}"', 1)


def _name_size(font: re.Match) -> str:
    return f"font-weight: {font[1] or 'normal'}; font-size: {font[2]}"


def open_panels(
    num_panels: int,
    *,
    columns: int = 1,
    width: float = COLUMN,
    heights: Sequence[float] | float = 3.0,
    share: str = "",
) -> tuple[Figure, list[Axes]]:
    """Open a figure with this many panels, row by row, without upper and right frame lines.

    Args:
        num_panels: one at least.
        columns: panels side by side, at most.
        width: of the figure, COLUMN or HALF.
        heights: of each row, inches, or one for all.
        share: of the axes x, y or xy that all panels share.
    """
    columns = min(columns, num_panels)
    num_rows = -(-num_panels // columns)
    heights = [heights] * num_rows if isinstance(heights, (int, float)) else list(heights)
    figure = ShownFigure(figsize=(width, 0.4 + sum(heights)), layout="constrained")
    axes = figure.subplots(
        num_rows,
        columns,
        height_ratios=heights,
        squeeze=False,
        sharex="x" in share,
        sharey="y" in share,
    ).ravel()
    for ax in axes[num_panels:]:
        ax.remove()
    for ax in axes[:num_panels]:
        sns.despine(ax=ax)
        ax.tick_params(colors=MUTED, labelcolor=INK, labelsize=9)
        for spine in ax.spines.values():
            spine.set_color(MUTED)
    return figure, list(axes[:num_panels])


def draw_runs(
    ax: Axes, x: np.ndarray, y: np.ndarray, disturbed: pd.Series, size: float, colour: str
) -> None:
    """Draw a point per run, side by side; hollow if the run was disturbed."""
    is_disturbed = disturbed.to_numpy(bool)
    for is_kind, fill in ((~is_disturbed, colour), (is_disturbed, "white")):
        if is_kind.any():
            ax.plot(
                np.asarray(x)[is_kind],
                np.asarray(y)[is_kind],
                "o",
                mfc=fill,
                mec=colour,
                mew=0.8,
                ms=size,
                zorder=4,
            )


def use_commas(ax: Axes, lang: str, axes: str = "xy") -> None:
    """Write the numbers of the axes with the decimal sign of the language."""
    for axis in axes:
        getattr(ax, f"{axis}axis").set_major_formatter(
            lambda value, _: write_number(value, lang, "{:g}")
        )


def space_ticks(ax: Axes, lang: str, axes: str = "xy") -> None:
    """Place ticks of logarithmic axes at 1, 2 and 5; on short axes as usual, on wide ones at powers
    of ten.
    """
    use_commas(ax, lang, axes)
    for axis in (getattr(ax, f"{axis}axis") for axis in axes):
        low, high = axis.get_view_interval()
        fine = LogLocator(subs=(1,) if high > 3000 * low else (1, 2, 5))
        axis.set_major_locator(
            fine if high > 5 * low else MaxNLocator(5, steps=[1, 2, 2.5, 5, 10])
        )
        axis.set_minor_formatter(NullFormatter())


@cache
def _read_words() -> pd.DataFrame:
    return pd.read_csv(Path(__file__).with_name("words.csv"), keep_default_na=False)


@cache
def _read_portuguese() -> dict[str, str]:
    return _read_words().set_index("english")["portuguese"].to_dict()
