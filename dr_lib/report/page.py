"""The output of an analysis notebook, shown in a language and written to files."""

import re
from collections.abc import Sequence
from html import escape as escape_html
from pathlib import Path

import numpy as np
import pandas as pd
from IPython.display import HTML, Markdown, display
from matplotlib.figure import Figure

from dr_lib.errors import DrError
from dr_lib.files import find_listed, write_listed
from dr_lib.markdown import escape
from dr_lib.numbers import (
    write_days,
    write_decimals,
    write_number,
    write_probability,
)
from dr_lib.report.answer import Answer
from dr_lib.report.energy import ENERGIES, tabulate_energy
from dr_lib.report.groups import IDENTITY, Selection, write_levels
from dr_lib.report.rows import Paper
from dr_lib.report.style import (
    HALF,
    IMAGES,
    MUTED,
    SAMPLE,
    choose_words,
    embed_figure,
    name,
    name_term,
    read_headers,
    write_figure,
    write_scoped,
)

WIDE = 40  # characters; in LaTeX longer cells are wrapped
MAX_COLUMNS = 8  # of a table on the page; the CSV has all


class Page:
    """A page that shows its parts in the notebook and, given a folder, writes them to files.

    Headings, captions, sentences and the suite's own words in cells are in the language, numbers
    have its decimal sign. Sentences are no Markdown: what came from a file is shown as it is.

    Example:
        >>> page = Page("report", lang="pt")  # or Page() to show without writing
        >>> page.number(0.25)
        '0,25'
    """

    def __init__(self, out: str | Path = "", lang: str = "en"):
        """Start a page.

        Args:
            out: folder for the PNG, PDF and SVG of each figure and the CSV and LaTeX of each
                table; empty for none. What an earlier page listed there is deleted.
            lang: en, or pt with decimal commas.

        Raises:
            DrError: a file that an earlier page listed there was changed.
        """
        self.say = choose_words(lang)
        self.lang = lang
        self._out = Path(out) if out else None
        if self._out:
            self._out.mkdir(parents=True, exist_ok=True)
            for path in find_listed(self._out):
                path.unlink()
        self._counts = {"Figure": 0, "Table": 0}
        self._headers = read_headers()
        self._notice = ""

    def write(self, name: str, content: bytes) -> None:
        """Write a file, and list it, if there is a folder for files."""
        if self._out:
            write_listed(self._out / name, content)

    def title(self, words: str, paper: Paper | None, selection: Selection) -> None:
        """Show the question, the paper, the study, the machines and the number of runs."""
        rows = selection.finished
        say = self.say
        facts = []
        if studies := _list_values(rows, "study"):
            facts.append(say("Study {}").format(studies))
        if paper:
            facts.append(say("compared with {}").format(say(paper.authors)))
        if len(rows):
            machines = "; ".join(sorted(set(rows["environment"])))
            if cpus := _list_values(rows, "cpu"):  # of a server elsewhere nobody knows it
                machines += f" ({cpus})"
            facts.append(say("measured on {}").format(machines))
        facts.append(say("runs: {}").format(len(rows)))
        facts.append(write_days(rows.get("started_at", ()), self.lang))
        is_synthetic = rows.get("data_kind", pd.Series()).eq("synthetic").any()
        # trainings on fundus photographs have a task
        notice = SAMPLE if "task" in rows else IMAGES
        self.heading(words, facts, notice if is_synthetic else "")

    def heading(self, words: str, facts: Sequence[str], notice: str = "") -> None:
        """Show the page's title below one line of facts, and a notice.

        The notice also stands in each figure.
        """
        self._notice = self.say(notice) if notice else ""
        warning = f"<p><mark>{self._notice}</mark></p>" if notice else ""
        line = escape_html(" · ".join(filter(None, facts)))
        self.html(f"<header><p>{line}</p><h1>{self.say(words)}</h1>{warning}</header>")

    def answer(
        self, answer: Answer, figure: Figure | None = None, name: str = "", caption: str = ""
    ) -> None:
        """Show what a report says first, with a figure and its caption."""
        drawn = ""
        if figure and figure.axes:
            drawn = self._draw(figure, name, escape_html(self.say(caption), quote=False))
        self.html(answer.write(drawn, self.say))

    def section(self, words: str) -> None:
        """Start a section that only some reports have."""
        title = self.say(words)
        display(HTML(f"<h2>{title}</h2>"), metadata={"section": title})

    def html(self, text: str) -> None:
        """Show HTML."""
        display(HTML(text))

    def findings(self, sentences: Sequence[str]) -> None:
        """Show the findings as one paragraph."""
        display(Markdown(escape(" ".join(sentences))))

    def note(self, words: str, *values: object) -> None:
        """Show a separate sentence with values in it."""
        self.findings([self.say(words).format(*values)])

    def number(self, value: float) -> str:
        """Format a number as text."""
        return write_number(value, self.lang)

    def figure(
        self, figure: Figure, name: str, caption: str, *values: object, is_ours: bool = True
    ) -> None:
        """Show a figure with its number and caption, unless it is empty.

        Args:
            figure: under the notice of the page, if there is one.
            name: of its files, without suffix.
            caption: what is drawn.
            values: that stand in the caption.
            is_ours: false where nothing is drawn but what a paper printed, whatever our own images
                were.
        """
        if not figure.axes:
            return
        text = escape_html(self.say(caption).format(*values), quote=False)
        self.html(self._draw(figure, name, self._count("Figure") + text, is_ours))

    def _draw(self, figure: Figure, name: str, caption: str, is_ours: bool = True) -> str:
        """Write a figure to its files, and return it for the page."""
        if self._notice and is_ours:
            figure.supxlabel(self._notice, fontsize=9, color=MUTED, x=0.99, ha="right")
        name = re.sub(r"[^\w.-]", "_", name)  # it may hold a network's name
        for suffix in ("png", "pdf", "svg"):
            self.write(f"{name}.{suffix}", drawn := write_figure(figure, suffix))
        width = "half" if figure.get_figwidth() <= HALF else "wide"
        picture = embed_figure(drawn, re.sub("<[^>]+>", "", caption))
        return f'<figure class="{width}">{picture}<figcaption>{caption}</figcaption></figure>'

    def table(
        self,
        table: pd.DataFrame,
        name: str,
        caption: str,
        *,
        columns: Sequence[str] = (),
    ) -> None:
        """Show a table with its number and caption, with bounds below their values.

        Args:
            table: values under the names of their columns; `x_low` and `x_high` are the bounds of
                `x`. The CSV holds them as they are, the page and LaTeX as they are read.
            name: of its files, without suffix.
            caption: what a row is, and what stands in brackets.
            columns: to show, in order; by default the first MAX_COLUMNS.

        Raises:
            DrError: another column has no header in words.csv.
        """
        if table.empty:
            return
        words = self.say(caption)
        shown = self.keep(table, name, words, columns)
        self.html(write_table(shown, self._count("Table") + escape_html(words, quote=False)))

    def _count(self, kind: str) -> str:
        """Count a figure or a table, and write its number for its caption."""
        self._counts[kind] += 1
        return f"<strong>{self.say(kind)} {self._counts[kind]}.</strong> "

    def energy(self, selection: Selection, g_per_kwh: float) -> None:
        """Show the energy that runs used."""
        self.table(
            tabulate_energy(selection, g_per_kwh=g_per_kwh),
            "energy",
            "Energy of a run, counted by its GPUs, mean [95 % interval].",
            columns=["group", "n", *ENERGIES],
        )

    def appendix(self, selection: Selection) -> None:
        """Show what was excluded and why, and the parameters and versions of the others."""
        self.section("Appendix: runs, parameters, versions")
        reasons = selection.excluded["reason"].value_counts()
        if reasons.empty:
            self.note("All rows that were read are timed.")
        counted = reasons.rename_axis("reason").reset_index(name="n")
        self.table(counted, "excluded", "Rows that are not timed, with reasons.")
        levels = write_levels(selection.finished, ["commit", "notebook_sha256", *IDENTITY])
        values = {name: _list_values(levels, name) for name in levels}
        stated = [f"{name} = {text}" for name, text in values.items() if text]
        self.findings(["; ".join(stated)])

    def format(
        self,
        table: pd.DataFrame,
        name: str,
        columns: Sequence[str] = (),
    ) -> pd.DataFrame:
        """Format a table, as for `table`, for reading: cells are text, bounds stand in brackets."""
        shown = {}
        for column in columns or table:
            base = re.sub("_(low|high|scope)$", "", column)
            if base != column and base in table:
                continue  # it says more of another column
            if column not in self._headers:  # even if these rows have none of it
                raise DrError(f"column {column} of table {name} has no header in words.csv")
            if column not in table:
                continue
            if f"{column}_low" in table:
                cells = [write_scoped(row, column, self.lang) for _, row in table.iterrows()]
            else:
                cells = [self._write_cell(column, value) for value in table[column]]
            shown[self.say(self._headers[column])] = cells
        shown = pd.DataFrame(shown)
        return shown.loc[:, (shown != "–").any()].iloc[:, :MAX_COLUMNS]  # nothing empty

    def keep(
        self,
        table: pd.DataFrame,
        name: str,
        caption: str,
        columns: Sequence[str] = (),
    ) -> pd.DataFrame:
        """Format the table for reading and LaTeX, and write it unformatted as CSV."""
        shown = self.format(table, name, columns)
        if not self._out:  # LaTeX needs a package that is not everywhere
            return shown
        self.write(f"{name}.csv", table.to_csv(index=False).encode())
        is_wide = [shown[header].str.len().max() > WIDE for header in shown]
        wide = f"p{{{0.7 / max(1, sum(is_wide)):.2f}\\linewidth}}"
        latex = shown.to_latex(
            index=False,
            escape=True,
            column_format="".join(wide if each else "l" for each in is_wide),
            caption=re.sub(r"([%&_#$])", r"\\\1", caption),
            label=f"tab:{name}",
        )
        self.write(f"{name}.tex", f"% needs the package booktabs\n{latex}".encode())
        return shown

    def _write_cell(self, column: str, value: object) -> str:
        if value is None or (column == "disturbed" and not value):
            return "–"
        if isinstance(value, (bool, np.bool_)):
            return self.say("yes") if value else ""
        if isinstance(value, (float, np.floating)):
            if column in ("p", "share"):  # never 0, but < 0.001
                return write_probability(max(value, 1e-6), self.lang, 3)
            if column in ("threshold", "predicted", "probability_referable"):
                return write_probability(value, self.lang)
            return self.number(value)
        text = str(value)
        if column == "level":
            text = write_decimals(name(text), self.lang)
        if column in ("term", "factor"):
            return name_term(text, self.say)
        return self.say(text)


def write_table(shown: pd.DataFrame, caption: str = "") -> str:
    """Write a formatted table for the page: numbers to the right, bounds below their value."""
    kinds = []
    heads = ""
    for header in shown:
        is_number = shown[header].str.match(r"(?:[<>] )?[-–\d∞]").all()
        kinds.append(' class="n"' if is_number else "")
        heads += f"<th{kinds[-1]}>{escape_html(header)}</th>"
    rows = []
    # a number, its bounds, and what it is true of
    parts = re.compile(r"^([^[(]*\d[^[(]*?)(?: (\[.*?\]))?(?: (\(.*\)))?$")
    marked = r'\1 <i>\2</i><i class="why">\3</i>'
    for values in shown.to_numpy():
        cells = []
        for value, kind in zip(values, kinds, strict=True):
            cell = escape_html(value)
            cells.append(f"<td{kind}>{parts.sub(marked, cell) if kind else cell}</td>")
        rows.append(re.sub(" ?<i[^>]*></i>", "", f"<tr>{''.join(cells)}</tr>"))
    caption = caption and f"<caption>{caption}</caption>"
    return (
        f'<div class="scroll"><table>{caption}<thead><tr>{heads}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )


def _list_values(rows: pd.DataFrame, column: str) -> str:
    """List the distinct values of a column as sorted text; empty if it is missing."""
    values = rows[column].dropna() if column in rows else []
    return ", ".join(sorted({str(value) for value in values} - {""}))
