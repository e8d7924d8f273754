"""The output of an analysis notebook, shown in a language and written to files."""

import re
from base64 import b64encode
from collections.abc import Collection, Sequence
from io import BytesIO
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd
from IPython.display import HTML, Markdown, display
from matplotlib.figure import Figure

from dr_lib.errors import DrError
from dr_lib.files import find_listed, write_listed
from dr_lib.markdown import escape
from dr_lib.numbers import COMMAS, write_decimals, write_number, write_probability, write_span
from dr_lib.report.energy import summarise_energy
from dr_lib.report.judged import VERDICTS, count_by_chance, judge_claims
from dr_lib.report.papers import PAPERS
from dr_lib.report.select import (
    ALIKE,
    ARITHMETIC,
    PLAN,
    RUN,
    WARMTH,
    WORK,
    Selection,
    judge_models,
    list_runs,
    write_unlike,
)
from dr_lib.report.style import IMAGES, SAMPLE, choose_words, name_term, read_headers

WORDINGS = {
    "paraphrase": "{}, paraphrased",
    "derived": "{}, derived",
    "reading": "our reading of {}",
}
JUDGED = ["ours", "ours_low", "ours_high", "n", "num_satisfied", "num_parts", "num_missing"]
JUDGED += ["num_disturbed", "verdict", "versions", "reason"]
# of them where a verdict was reached
SHOWN = ["id", "claim", "published", "ours", "n", "verdict"]
COMMITS = ("commit", "code_sha256", "notebook_sha256")
COMMITS += ("data_sha256", "labels_sha256", "split_sha256")
VERSIONS = ("python", "keras", "tensorflow", "jax", "torch", "mxnet", "numpy", "driver")
RESULTS = ("train_s", "steady_epoch_s", "metric_auc_test", "metric_kappa_test", "predict_ms")
# columns of probabilities, with three decimals, and as they are
SHARES = ("p", "share", "validation_sensitivity", "validation_specificity")
EXACT = ("threshold", "predicted", "probability_referable")
# columns whose words the figures have too
SAID = ("point", "probabilities", "error", "ratio_of")
# of the names of columns that say more of another one
ENDS = ("_low", "_high", "_scope", "_left_out", "_over_all")
WIDE = 40  # characters; in LaTeX longer cells are wrapped


class Page:
    """A page that shows its parts in the notebook and, given a folder, writes them to files.

    Headings, captions and sentences are in the language, numbers have its decimal sign, and cells
    stay in English but for verdicts and those of SAID. Sentences are no Markdown: what came from a
    file is shown as it is.

    Example:
        >>> page = Page("report", lang="pt")  # or Page() to show without writing
        >>> page.number(0.25)
        '0,25'
    """

    def __init__(self, out: str | Path = "", lang: str = "en"):
        """Start a page.

        Args:
            out: folder for the PNG and PDF of each figure and the CSV and LaTeX of each table;
                empty for none. What an earlier page listed there is deleted.
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

    def title(self, words: str, paper: str, selection: Selection) -> None:
        """Show the question, the paper, the study, the machines and the number of runs."""
        rows = selection.finished if len(selection.finished) else selection.runs
        say = self.say
        facts = []
        if studies := _list_values(rows, "study"):
            facts.append(say("Study {}").format(", ".join(studies)))
        if paper:
            facts.append(say("compared with {}").format(say(PAPERS[paper].authors)))
        if environments := _list_values(rows, "environment"):
            processors = ", ".join(_list_values(rows, "cpu"))
            places = "; ".join(environments) + (f" ({processors})" if processors else "")
            facts.append(say("measured on {}").format(places))
        num_runs = len(list_runs(rows))
        counts = {0: say("no run of ours yet"), 1: say("one run")}
        count = counts.get(num_runs, say("{} runs").format(num_runs))
        days = sorted({moment[:10] for moment in _list_values(rows, "started_at")})
        span = " … ".join(dict.fromkeys([days[0], days[-1]])) if days else ""
        facts.append(", ".join(filter(None, [count, span])))
        is_synthetic = "data_kind" in rows and (rows["data_kind"] == "synthetic").any()
        notice = (
            SAMPLE if "task" in rows else IMAGES
        )  # trainings on fundus photographs have a task
        self.heading(words, facts, notice if is_synthetic else "")
        if selection.others:
            words = "Only the newest kind of run is analysed; choose another with only: {}."
            self.note(words, selection.others)
        for warmth in _list_values(selection.finished, "warmth"):
            if warmth in WARMTH:
                self.findings([f"{say(WARMTH[warmth]).capitalize()}."])

    def heading(self, words: str, facts: Sequence[str], notice: str = "") -> None:
        """Show the page's title, one line of facts, and a notice above both.

        The notice also stands in each figure.
        """
        self._notice = self.say(notice) if notice else ""
        warning = f"> **{self._notice.upper()}**\n\n" if notice else ""
        display(Markdown(f"# {self.say(words)}\n\n{warning}{escape('; '.join(facts))}."))

    def section(self, words: str) -> None:
        """Start a section that only some reports have."""
        display(Markdown(f"## {self.say(words)}"))

    def findings(self, sentences: Sequence[str]) -> None:
        """Show the findings as one paragraph."""
        display(Markdown(escape(" ".join(sentences))))

    def note(self, words: str, *values: object) -> None:
        """Show a separate sentence with values in it."""
        self.findings([self.say(words).format(*values)])

    def number(self, value: float, form: str = "") -> str:
        """Format a number as text."""
        return write_number(value, self.lang, form)

    def interval(self, row: pd.Series, column: str, unit: str = "") -> str:
        """Format a value of a row and its bounds as text, with what they rest on if it is less
        than all.
        """
        text = f"{write_span(row, column, self.lang)} {unit}".strip()
        notes = []
        if isinstance(scope := row.get(f"{column}_scope"), str):
            notes += map(self.say, scope.split("; "))
        if (number := row.get(f"{column}_left_out", 0)) > 0:
            words = self.say("without {} outliers, {} with them")
            notes.append(words.format(f"{number:.0f}", self.number(row[f"{column}_over_all"])))
        return f"{text} ({'; '.join(notes)})" if notes else text

    def count_verdicts(self, paper: str, judged: pd.DataFrame) -> str:
        """Count, in a sentence, the claims of a paper that hold, do not hold, and cannot be
        judged.
        """
        words = self.say("Of {} claims of {}: {}.")
        return words.format(len(judged), self.say(PAPERS[paper].authors), self._count(judged))

    def figure(
        self, figure: Figure, name: str, caption: str, *values: object, is_ours: bool = True
    ) -> None:
        """Show a figure with its number and caption.

        Args:
            figure: under the notice of the page, if there is one.
            name: of its files, without suffix.
            caption: what is drawn.
            values: that stand in the caption.
            is_ours: false where nothing is drawn but what a paper printed, whatever our own images
                were.
        """
        if self._notice and is_ours:
            figure.suptitle(f"{figure.get_suptitle()}\n{self._notice}".strip())
        name = re.sub(r"[^\w.-]", "_", name)  # it may hold a network's name
        for suffix in ("pdf", "png"):
            drawn = BytesIO()
            figure.savefig(drawn, format=suffix, dpi=150)
            self.write(f"{name}.{suffix}", drawn.getvalue())
        # as it is stored: IPython 7.34, which Colab and Kaggle ship, has no Image with an
        # alternative text
        text = self.say(caption).format(*values)
        picture = {"image/png": b64encode(drawn.getvalue()).decode(), "text/plain": text}
        width = int(96 * figure.get_figwidth())
        # a wide picture scrolls on a phone, others shrink to its width
        look = {"width": width, "alt": text, "unconfined": width > 600}
        display(picture, metadata={"image/png": look}, raw=True)
        self._caption("Figure", text)

    def table(
        self, table: pd.DataFrame, name: str, caption: str, *, own: Collection[str] = ()
    ) -> None:
        """Show a table with its number and caption, with bounds next to their values.

        Args:
            table: values under the names of their columns; `x_low` and `x_high` are the bounds of
                `x`. The CSV holds them as they are, the page and LaTeX as they are read.
            name: of its files, without suffix.
            caption: what a row is, and what stands in brackets.
            own: columns that a user named, which are their own headers.

        Raises:
            DrError: another column has no header in words.csv.
        """
        if table.empty:
            return
        shown = self._keep(table, name, own)
        display(HTML(shown.to_html(index=False, border=0)))
        self._caption("Table", self.say(caption))

    def stacks(self, timed: pd.DataFrame, keys: Sequence[str]) -> None:
        """Say where the software or the models of several machines differ, and what is unknown.

        Args:
            timed: timed rows of a `Selection`.
            keys: columns that tell apart what machines are compared in.
        """
        if timed.empty:
            return
        if timed.reindex(columns=ARITHMETIC).isna().any(axis=None):
            self.note(
                "The arithmetic of these rows is not known: no ratio is of hardware alone."
            )
        cells = [
            [rows] for _, rows in timed.groupby(list(keys)) if rows["machine"].nunique() > 1
        ]
        if unlike := write_unlike(cells):
            words = (
                "The software of the machines differs, or is unknown, in {}: a ratio of their "
                "times is of stack and hardware."
            )
            self.note(words, unlike)
        pairs = [[rows for _, rows in list_runs(cell).groupby("machine")] for (cell,) in cells]
        compared = [judge_models(*pair) for sides in pairs for pair in combinations(sides, 2)]
        unequal = [models.words for models in compared if models.verdict != ALIKE]
        if unequal:
            words = "In {} of {} pairs of machines models are not shown to be equal: {}."
            self.note(words, len(unequal), len(compared), unequal[0])

    def energy(self, runs: pd.DataFrame, keys: Sequence[str], g_per_kwh: float) -> None:
        """Show the energy that runs used, from `summarise_energy`."""
        self.table(
            summarise_energy(runs, keys, g_per_kwh=g_per_kwh),
            "energy",
            "Energy of a run, counted by its GPUs, mean [95 % interval].",
            own=keys,
        )

    def judge(self, paper: str, selection: Selection) -> pd.DataFrame:
        """Explain how claims are judged, judge a paper's claims, show and return them."""
        rule = self.say(
            "A claim holds only if the whole 95 % interval satisfies it, and does not hold "
            "only if the whole interval violates it. A claim about every case is judged case "
            "by case; to refute it, the 95 % apply to all intervals together. Rows from "
            "hardware, data or work other than the paper's are listed but not compared, and "
            "machines only where their software is alike. Patch versions may differ, and are "
            "listed too."
        )
        judged = judge_claims(paper, selection)
        self.section("The paper's claims")
        if judged["verdict"].isin(VERDICTS[:4]).any():
            display(Markdown(rule))
        self.claims(judged)
        return judged

    def claims(self, judged: pd.DataFrame, name: str = "claims") -> None:
        """Show a paper's judged claims, then all claims with versions and reasons, folded.

        Then how many verdicts could be wrong by chance.

        Args:
            judged: from `judge_claims`.
            name: of the table's files.
        """
        say = self.say
        table = self._keep(self._tabulate(judged), name)
        headers = [say(self._headers[column]) for column in SHOWN]
        is_judged = judged["verdict"].isin(VERDICTS[:4]).to_numpy()
        shown = table[is_judged].reindex(columns=headers)
        if len(shown):
            display(HTML(shown.to_html(index=False, border=0)))
        else:
            display(Markdown(say("No claim can be judged.")))
        summary = say("All {} claims, with versions and reasons: {}")
        summary = summary.format(len(judged), self._count(judged))
        folded = table.to_html(index=False, border=0)
        display(HTML(f"<details><summary>{summary}</summary>{folded}</details>"))
        num_given, by_chance = count_by_chance(judged)
        if num_given:
            words = say(
                "Of {} verdicts that follow from no other, at most {} are expected to be wrong "
                "by chance."
            )
            display(Markdown(words.format(num_given, self.number(by_chance))))

    def appendix(self, selection: Selection, varied: Sequence[str] = ()) -> None:
        """Show what was excluded and why, the parameters of every run, commits and versions."""
        runs = selection.finished
        varied = [*varied, *selection.factors]
        self.section("Appendix: runs, parameters, versions")
        reasons = selection.excluded["reason"].value_counts()
        if reasons.empty:
            display(Markdown(self.say("All rows that were read are timed.")))
        counted = reasons.rename_axis("reason").reset_index(name="n")
        self.table(counted, "excluded", "Rows that are not timed, with reasons.")
        given = set(selection.runs) - set(COMMITS)
        parameters = [
            name
            for name in dict.fromkeys([*WORK, *PLAN, *varied, "cold", "disturbed"])
            if name in given
        ]
        alike = [name for name in parameters if runs[name].nunique(dropna=False) == 1]
        values = {name: write_decimals(str(runs[name].iloc[0]), self.lang) for name in alike}
        stated = [f"{k} = {v}" for k, v in values.items() if v not in ("nan", "", "None")]
        self.findings([self.say("Common to all runs: {}.").format("; ".join(stated))])
        listed = ["run_id", "seed", *(name for name in parameters if name not in alike)]
        if "study" in runs and runs["study"].nunique() > 1:
            listed = ["study", *listed]
        results = [f"{name}{end}" for name in RESULTS for end in ("", "_low", "_high")]
        listed = [name for name in [*listed, *results] if name in runs]
        shown = list_runs(runs)[listed]
        if "run_id" in shown:
            names = shown["run_id"].str.extract(RUN)
            if names["machine"].nunique(dropna=False) == 1:  # the page names it at its top
                shown["run_id"] = names["run"].fillna(shown["run_id"])
        self.table(
            shown,
            "runs_timed",
            "Every finished run: its own settings, times and scores [95 % interval].",
            own=varied,
        )
        texts = {name: ", ".join(_list_values(runs, name)) for name in (*COMMITS, *VERSIONS)}
        if (
            len(_list_values(runs, "commit")) > 1
            and len(_list_values(runs, "code_sha256")) == 1
        ):
            self.findings([self.say("The commits of the runs differ, their code does not.")])
        lines = [f"- {name}: {escape(text)}" for name, text in texts.items() if text]
        display(Markdown("\n".join(lines)))

    def _count(self, judged: pd.DataFrame) -> str:
        counts = judged["verdict"].value_counts()
        verdicts = [verdict for verdict in VERDICTS if verdict in counts]
        return ", ".join(f"{self.say(verdict)} {counts[verdict]}" for verdict in verdicts)

    def _caption(self, kind: str, text: str) -> None:
        self._counts[kind] += 1
        display(Markdown(f"**{self.say(kind)} {self._counts[kind]}.** {escape(text)}"))

    def _place(self, row) -> str:
        """Name the place in the paper, and whether the words are its own."""
        place = row.place if row.wording == "reading" else self.say(row.place)
        return (
            place if row.wording == "quoted" else self.say(WORDINGS[row.wording]).format(place)
        )

    def _tabulate(self, judged: pd.DataFrame) -> pd.DataFrame:
        is_portuguese = self.lang == "pt"
        table = judged[["id"]].assign(
            claim=judged["words_pt" if is_portuguese else "words"],
            place=[self._place(row) for row in judged.itertuples()],
            published=judged["published"].str.translate(COMMAS if is_portuguese else {}),
        )
        table = table.join(judged[JUDGED])
        return table.assign(verdict=table["verdict"].map(self.say))

    def format(self, table: pd.DataFrame, name: str, own: Collection[str] = ()) -> pd.DataFrame:
        """Format a table, as for `table`, for reading: cells are text, bounds stand in brackets."""
        shown = {}
        for column in table:
            base = next((column.removesuffix(end) for end in ENDS if column.endswith(end)), "")
            if base in table:
                continue
            if column in self._headers:
                header = self.say(self._headers[column])
            elif column in own:
                header = column
            else:
                raise DrError(f"column {column} of table {name} has no header in words.csv")
            if f"{column}_low" in table:
                shown[header] = [self.interval(row, column) for _, row in table.iterrows()]
            else:
                shown[header] = [self._write_cell(column, value) for value in table[column]]
        shown = pd.DataFrame(shown)
        return shown.loc[:, (shown != "–").any()]  # nothing empty

    def _keep(self, table: pd.DataFrame, name: str, own: Collection[str] = ()) -> pd.DataFrame:
        """Format the table for reading and LaTeX, and write it unformatted as CSV."""
        shown = self.format(table, name, own)
        if not self._out:  # LaTeX needs a package that is not everywhere
            return shown
        self.write(f"{name}.csv", table.to_csv(index=False).encode())
        is_wide = [shown[header].str.len().max() > WIDE for header in shown]
        widths = ["p{0.4\\linewidth}" if wide else "l" for wide in is_wide]
        latex = shown.to_latex(index=False, escape=True, column_format="".join(widths))
        self.write(f"{name}.tex", latex.encode())
        return shown

    def _write_cell(self, column: str, value: object) -> str:
        if column == "disturbed" and not value:
            return "–"
        if isinstance(value, (bool, np.bool_)):
            return "yes" if value else ""
        if isinstance(value, (float, np.floating)):
            if column in ("p", "share") and value < 0.001:
                return f"< {self.number(0.001)}"
            if column in (*SHARES, *EXACT):
                return write_probability(value, self.lang, 3 if column in SHARES else None)
            return self.number(value)
        if value is None:
            return "–"
        text = str(value)
        if column in SAID:
            return self.say(text)
        if column in ("level", "levels"):
            return write_decimals(text, self.lang)
        return name_term(text, str) if column in ("term", "factor") else text


def _list_values(rows: pd.DataFrame, column: str) -> list[str]:
    """List the distinct values of a column as sorted text; empty if it is missing."""
    values = rows[column].dropna() if column in rows else []
    return sorted({str(value) for value in values} - {""})
