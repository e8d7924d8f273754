"""Shared by all figures and tables: colours, words in two languages, axes, panels."""

from collections.abc import Callable, Sequence
from functools import cache, partial
from html import escape
from io import BytesIO
from pathlib import Path

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.backend_bases import RendererBase
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter

from dr_lib.numbers import write_number, write_span
from dr_lib.runs import schema

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
SAMPLE = "synthetic sample, not photographs"
IMAGES = "synthetic images, for timing only"


@cache
def read_headers() -> dict[str, str]:
    """Read the English headers of table columns, with units."""
    return {
        column: row.english
        for row in _read_words().itertuples()
        for column in row.columns.split()
    }


def choose_words(lang: str) -> Callable[[str], str]:
    """Return a function that translates as `translate` does.

    Raises:
        ValueError: the language is neither en nor pt.
    """
    if lang not in ("en", "pt"):
        raise ValueError(f"no words for lang={lang!r}: choose en or pt")
    return partial(translate, lang=lang)


def translate(text: str, lang: str) -> str:
    """Translate a text that is one of the suite's own, a key of words.csv; any other stays."""
    return text if lang == "en" else _read_portuguese().get(text, text)


def name(level: object) -> str:
    """Write a level as people do: MNIST for mnist, 32 for 32.0."""
    return NAMES.get(level) or (f"{level:g}" if isinstance(level, float) else str(level))


def name_column(column: str, say: Callable[[str], str]) -> str:
    """Name a column of work, stack or hardware as its header does, without the unit: image side,
    or lado da imagem; another by itself.
    """
    is_ours = column in {*schema.WORK, *schema.STACK, *schema.HARDWARE, "residual"}
    header = read_headers().get(column, column) if is_ours else column
    return say(header).partition(" [")[0]


def name_term(term: str, say: Callable[[str], str]) -> str:
    """Name a factor, or an interaction of factors joined by x."""
    return " x ".join(name_column(factor, say) for factor in term.split(" x "))


def write_scoped(row: pd.Series, column: str, lang: str) -> str:
    """Write a value of a row and its bounds, with what they rest on if it is less than all."""
    text = write_span(row, column, lang)
    scope = row.get(f"{column}_scope")
    return f"{text} ({translate(scope, lang)})" if scope and isinstance(scope, str) else text


class ShownFigure(Figure):
    """A figure that a notebook shows as a cell's value, even before pyplot has drawn one.

    A $ in a name begins no formula; only the powers of ten of an axis are formulas.
    """

    def draw(self, renderer: RendererBase) -> None:
        """Draw the figure with names as they are."""
        for text in self.findobj(Text):
            text.set_parse_math("\\mathdefault" in text.get_text())
        super().draw(renderer)

    def _repr_png_(self) -> bytes:
        return write_figure(self, "png")


def write_figure(figure: Figure, suffix: str) -> bytes:
    """Write a figure as png, pdf or svg; its text stays text."""
    drawn = BytesIO()
    dates = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}
    settings = {"svg.fonttype": "none", "svg.hashsalt": "dr", "pdf.fonttype": 42}
    with rc_context(settings):
        figure.savefig(drawn, format=suffix, dpi=150, metadata=dates.get(suffix))
    return drawn.getvalue()


def embed_figure(svg: bytes, words: str) -> str:
    """Turn a figure into part of a page, which gives it its type and its width; words tell those
    who do not see it.
    """
    text = svg.decode()
    text = text[text.index("<svg") :]
    return text.replace("<svg", f'<svg role="img" aria-label="{escape(words)}"', 1)


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
    heights = np.broadcast_to(heights, num_rows)
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
        ax.spines[:].set_color(MUTED)
        ax.tick_params(colors=MUTED, labelcolor=INK, labelsize=9)
    return figure, list(axes[:num_panels])


def draw_runs(
    ax: Axes, x: np.ndarray, y: np.ndarray, disturbed: pd.Series, size: float, colour: str
) -> None:
    """Draw a point per run, side by side; hollow if the run was disturbed."""
    ax.scatter(
        x,
        y,
        size**2,
        facecolors=np.where(disturbed, "white", colour),
        edgecolors=colour,
        linewidths=0.8,
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
