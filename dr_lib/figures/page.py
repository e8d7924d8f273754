"""What an analysis notebook shows: figures and tables with captions, also written as files, and
claims as sentences.
"""

import re
from base64 import b64encode
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path

import numpy as np
import pandas as pd
from IPython.display import HTML, Markdown, display
from matplotlib.figure import Figure

from dr_lib.evidence.energy import COUNTER, UNMEASURED, summarise_energy
from dr_lib.evidence.evaluation import (
    CALIBRATED,
    ERRORS,
    HANDLING,
    LEVELS,
    POINTS,
    SOURCES,
    STAGES,
    SUBGROUPS,
)
from dr_lib.evidence.papers import PAPERS
from dr_lib.evidence.select import EXCLUSIONS, PLAN, WORK, Selection, list_runs
from dr_lib.evidence.serving.endpoint import REASONS
from dr_lib.evidence.training_time import MODE_VERDICTS
from dr_lib.evidence.verdicts import VERDICTS, count_by_chance, judge_claims
from dr_lib.figures.style import (
    IMAGES,
    SAMPLE,
    choose_words,
    name_line,
    name_term,
    read_headers,
)
from dr_lib.markdown import escape
from dr_lib.numbers import write_decimals, write_interval, write_number, write_span

ANSWERS = ("precision of a mean", "difference of two means")
EVALUATION = {
    *STAGES,
    *POINTS,
    *SOURCES,
    *HANDLING,
    *SUBGROUPS,
    *LEVELS,
    *CALIBRATED,
    *ERRORS,
}
# values of cells in words.csv
SAID = {
    *VERDICTS,
    *MODE_VERDICTS,
    *ANSWERS,
    *EVALUATION,
    COUNTER,
    UNMEASURED,
    *REASONS,
}
SAID |= {*EXCLUSIONS.values()}
WORDINGS = {
    "paraphrase": "{}, paraphrased",
    "derived": "{}, derived",
    "reading": "our reading of {}",
}
APPENDIX = ("commit", "notebook_sha256", "data_sha256", "labels_sha256", "split_sha256")
HASHED = (*APPENDIX, "python", "keras", "tensorflow", "jax", "torch", "mxnet", "numpy", "driver")
IDENTITY = ("study", "environment", "cpu", "started_at")
LISTED = (
    "train_s",
    "steady_epoch_s",
    "metric_auc_test",
    "metric_kappa_test",
    "predict_ms",
    "disturbed",
)
WIDE = 40  # characters; in LaTeX longer cells are wrapped
MAX_SENTENCES = 6  # about claims that rows of other hardware cannot judge; more are folded


class Page:
    """What is shown goes to the notebook and, if there is a folder, into files beside the report.

    Sentences are no Markdown: what came into them from a file is shown as it is.
    """

    def __init__(self, out: str | Path = "", lang: str = "en"):
        """Begin a page.

        Args:
            out: folder for the PNG and PDF of each figure and the CSV and LaTeX of each table;
                empty for none.
            lang: en, or pt with decimal commas.
        """
        self.say = choose_words(lang)
        self.lang = lang
        self._out = Path(out) if out else None
        self._counts = {"Figure": 0, "Table": 0}
        self._headers = read_headers()
        self._notice = ""

    def title(self, words: str, paper: str, selection: Selection) -> None:
        """Show what the page is about: the question, the paper, the study, the machines and the
        number of runs.
        """
        rows = selection.finished if len(selection.finished) else selection.runs
        say = self.say
        listed = {
            column: sorted({str(v) for v in rows[column]} - {"nan"})
            for column in rows
            if column in IDENTITY
        }
        about = [say("Study {}").format(", ".join(listed["study"]))] if "study" in listed else []
        about += [say("beside {}").format(say(PAPERS[paper].authors))] if paper else []
        if "environment" in listed:
            processors = f" ({', '.join(listed['cpu'])})" if "cpu" in listed else ""
            about.append(
                say("measured on {}").format("; ".join(listed["environment"]) + processors)
            )
        days = sorted({day[:10] for day in listed.get("started_at", [])})
        num_runs = len(list_runs(rows))
        count = {0: say("no run of ours yet"), 1: say("one run")}.get(
            num_runs, say("{} runs").format(num_runs)
        )
        about.append(", ".join([count, *([" … ".join(days[:1] + days[1:][-1:])] if days else [])]))
        is_synthetic = "data_kind" in rows and (rows["data_kind"] == "synthetic").any()
        notice = SAMPLE if "task" in rows else IMAGES  # trainings on fundus photographs have a task
        self.heading(words, about, notice if is_synthetic else "")

    def heading(self, words: str, about: Sequence[str], notice: str = "") -> None:
        """Show what the page is about, a notice above it all and in each figure, and in one line
        what it rests on.
        """
        self._notice = self.say(notice) if notice else ""
        warning = f"> **{self._notice.upper()}**\n\n" if notice else ""
        display(Markdown(f"# {self.say(words)}\n\n{warning}{escape('; '.join(about))}."))

    def section(self, words: str) -> None:
        """Begin a section where not every report has it."""
        display(Markdown(f"## {self.say(words)}"))

    def findings(self, sentences: Sequence[str]) -> None:
        """Show what was found, as one paragraph."""
        display(Markdown(escape(" ".join(sentences))))

    def number(self, value: float) -> str:
        """A number as text."""
        return write_number(value, self.lang)

    def interval(self, row: pd.Series, column: str) -> str:
        """A value of a row and its bounds, as text."""
        return write_span(row, column, self.lang)

    def count_verdicts(self, paper: str, judged: pd.DataFrame) -> str:
        """How many claims of a paper hold, do not, and cannot be judged, as a sentence."""
        return self.say("Of {} claims of {}: {}.").format(
            len(judged), self.say(PAPERS[paper].authors), self._count(judged)
        )

    def figure(self, figure: Figure, name: str, caption: str, *, is_ours: bool = True) -> None:
        """Show a figure with its number and caption.

        Args:
            figure: under the notice of the page, if there is one.
            name: of its files, without suffix.
            caption: what is drawn.
            is_ours: false where nothing is drawn but what a paper printed, whatever our own images
                were.
        """
        if self._notice and is_ours:
            figure.suptitle(f"{figure.get_suptitle()}\n{self._notice}".strip())
        drawn = BytesIO()
        figure.savefig(drawn, format="png", dpi=150)
        if self._out:
            self._out.mkdir(parents=True, exist_ok=True)
            (self._out / f"{_name_file(name)}.png").write_bytes(drawn.getvalue())
            figure.savefig(self._out / f"{_name_file(name)}.pdf", dpi=150)
        # as it is stored: IPython 7.34, which Colab and Kaggle ship, has no Image with an
        # alternative text
        picture = {
            "image/png": b64encode(drawn.getvalue()).decode(),
            "text/plain": self.say(caption),
        }
        shown_as = {"width": int(96 * figure.get_figwidth()), "alt": self.say(caption)}
        display(picture, metadata={"image/png": shown_as}, raw=True)
        self._caption("Figure", caption)

    def table(self, table: pd.DataFrame, name: str, caption: str) -> None:
        """Show a table with its number and caption, bounds beside their values; `name` is that of
        its files.

        Args:
            table: values under the names of their columns; `x_low` and `x_high` are the bounds of
                `x`. The CSV holds them as they are, the page and LaTeX as they are read.
            name: without suffix.
            caption: what a row is, and what stands in brackets.
        """
        if table.empty:
            return
        display(HTML(self._keep(table, name).to_html(index=False, border=0)))
        self._caption("Table", caption)

    def energy(self, runs: pd.DataFrame, keys: Sequence[str], g_per_kwh: float) -> None:
        """Show what runs used, by `summarise_energy`."""
        self.table(
            summarise_energy(runs, keys, g_per_kwh=g_per_kwh),
            "energy",
            "Energy that the GPUs of a run counted, mean [95 % interval].",
        )

    def judge(self, paper: str, selection: Selection) -> pd.DataFrame:
        """Say how claims are judged, judge a paper's by `judge_claims`, show and return them."""
        rule = self.say(
            "A claim holds only if the whole 95 % interval satisfies it, and does not hold only if"
            " the whole interval violates it. What the paper says of every case is judged case by"
            " case, with 95 % for all intervals together. Rows from other hardware, data or work"
            " than the paper's are shown and not compared; versions may differ and stand beside the"
            " verdict."
        )
        heading = self.say("The paper's claims")
        judged = judge_claims(paper, selection)
        display(Markdown(f"## {heading}\n\n{rule}"))
        self.claims(judged)
        return judged

    def claims(self, judged: pd.DataFrame, name: str = "claims") -> None:
        """Show a paper's claims as sentences, judged ones first; what our rows do not reach is
        folded into one line.

        Then how many verdicts could be wrong by chance, and by what the claims can be judged.

        Args:
            judged: from `judge_claims`.
            name: of the table's files.
        """
        say = self.say
        is_judged = judged["verdict"].isin(VERDICTS[:3])
        elsewhere = judged["verdict"] == "not comparable"
        shown = judged[is_judged | (elsewhere & (elsewhere.sum() <= MAX_SENTENCES))]
        sentences = "\n".join(f"- {self._tell(row)}" for row in shown.itertuples())
        display(Markdown(sentences or say("No claim can be judged.")))
        table = self._keep(self._tabulate(judged), name)
        rest = ~judged["id"].isin(shown["id"]).to_numpy()
        if rest.any():
            summary = say("{} further claims: {}").format(rest.sum(), self._count(judged[rest]))
            folded = table[rest].to_html(index=False, border=0)
            display(HTML(f"<details><summary>{summary}</summary>{folded}</details>"))
        num_given, by_chance = count_by_chance(judged)
        if num_given:
            words = say(
                "Of {} verdicts, holds or does not hold, up to {} would come out wrong by chance."
            )
            display(Markdown(words.format(num_given, self.number(by_chance))))

    def appendix(self, selection: Selection, varied: Sequence[str] = ()) -> None:
        """Show what was excluded and why, the parameters of every run, and once the commits and
        hashes.
        """
        say = self.say
        runs = selection.finished
        self.section("Appendix: runs, parameters, versions")
        reasons = (
            selection.excluded["reason"].value_counts().rename_axis("reason").reset_index(name="n")
        )
        if len(reasons):
            self.table(reasons, "excluded", "Rows that are not timed, and why.")
        else:
            display(Markdown(say("Every row that was read is timed.")))
        in_rows = set(selection.runs) - set(APPENDIX)
        known = [column for column in dict.fromkeys([*WORK, *PLAN, *varied]) if column in in_rows]
        alike = [column for column in known if runs[column].nunique(dropna=False) == 1]
        values = {column: write_decimals(str(runs[column].iloc[0]), self.lang) for column in alike}
        stated = "; ".join(
            f"{column} = {value}"
            for column, value in values.items()
            if value not in ("nan", "", "None")
        )
        self.findings([say("All runs have in common: {}.").format(stated)])
        listed = [f"{column}{bound}" for column in LISTED for bound in ("", "_low", "_high")]
        listed = ["run_id", "seed", *(column for column in known if column not in alike), *listed]
        listed = ["study", *listed] if "study" in runs and runs["study"].nunique() > 1 else listed
        table = list_runs(runs)[[column for column in listed if column in runs]].dropna(
            axis=1, how="all"
        )
        self.table(
            table,
            "runs_timed",
            "Every finished run: what sets it apart, its times and scores [95 % interval].",
        )
        found = {
            column: sorted({str(v) for v in runs[column].dropna()} - {""})
            for column in runs
            if column in HASHED
        }
        texts = {column: escape(", ".join(values)) for column, values in found.items()}
        lines = [f"- {column}: {text}" for column, text in texts.items() if text]
        display(Markdown("\n".join(lines)))

    def _count(self, judged: pd.DataFrame) -> str:
        counts = judged["verdict"].value_counts()
        return ", ".join(
            f"{self.say(verdict)} {counts[verdict]}" for verdict in VERDICTS if verdict in counts
        )

    def _keep(self, table: pd.DataFrame, name: str) -> pd.DataFrame:
        """The table as it is read; it is written as that, in LaTeX, and as it is, in CSV."""
        shown = self._write(table)
        if self._out:
            self._out.mkdir(parents=True, exist_ok=True)
            table.to_csv(self._out / f"{name}.csv", index=False)
            widths = [
                "p{0.4\\linewidth}" if shown[column].str.len().max() > WIDE else "l"
                for column in shown
            ]
            latex = shown.to_latex(index=False, escape=True, column_format="".join(widths))
            (self._out / f"{name}.tex").write_text(latex, encoding="utf-8")
        return shown

    def _caption(self, kind: str, caption: str) -> None:
        self._counts[kind] += 1
        display(Markdown(f"**{self.say(kind)} {self._counts[kind]}.** {self.say(caption)}"))

    def _tell(self, row) -> str:
        say = self.say
        claim = f"{row.id} ({self._place(row)}). {row.words_pt if self.lang == 'pt' else row.words}"
        value = (
            f"{write_interval(row.ours, row.ours_low, row.ours_high, self.lang)} {row.unit}".strip()
        )
        if row.verdict == "not comparable":
            places = escape(row.reason.split(" vs ")[0])
            text = say("Ours: **not comparable**, these rows are from {}").format(places)
            return f"{claim} {text}" + (
                f" ({value}, n = {row.n})." if np.isfinite(row.ours) else "."
            )
        about = [f"n = {row.n}"]
        if row.num_parts > 1:
            value = say("{} where it is farthest from it").format(value)
            about.append(say("satisfied in {} of {}").format(row.num_satisfied, row.num_parts))
        about += (
            [say("{} cells of the design were not run").format(row.num_missing)]
            if row.num_missing
            else []
        )
        about += (
            [say("{} of its rows disturbed").format(row.num_disturbed)] if row.num_disturbed else []
        )
        about += [escape(row.versions)] if row.versions else []
        return f"{claim} " + say("Ours: {}; {}: **{}**.").format(
            value, "; ".join(about), say(row.verdict)
        )

    def _place(self, row) -> str:
        """Where the paper says it, and whether in these words."""
        place = row.place if row.wording == "reading" else self.say(row.place)
        return place if row.wording == "quoted" else self.say(WORDINGS[row.wording]).format(place)

    def _tabulate(self, judged: pd.DataFrame) -> pd.DataFrame:
        number = lambda value: write_number(float(value), self.lang, "{:,.10g}")  # noqa: E731
        spread = judged["tolerance"].map(
            lambda tolerance: f" ± {number(tolerance)} " if tolerance else " "
        )
        sign = judged["relation"].replace({"within": "", ">=": "≥ ", "<=": "≤ "})
        published = sign + judged["value"].map(number) + spread + judged["unit"]
        columns = [
            "ours",
            "ours_low",
            "ours_high",
            "n",
            "num_missing",
            "num_disturbed",
            "verdict",
            "versions",
        ]
        columns += ["reason"] if self.lang == "en" else []
        claim = judged["words_pt" if self.lang == "pt" else "words"]
        place = [self._place(row) for row in judged.itertuples()]
        return judged[["id"]].assign(
            claim=claim,
            place=place,
            published=published,
            **{name: judged[name] for name in columns},
        )

    def _write(self, table: pd.DataFrame) -> pd.DataFrame:
        """The table as it is read: bounds in brackets, numbers in the language's form, words in
        the language.
        """
        shown = {}
        for column in table:
            name, _, bound = column.rpartition("_")
            if bound in ("low", "high") and name in table:
                continue
            header = self.say(self._headers[column]) if column in self._headers else column
            if f"{column}_low" in table:
                triples = (
                    table[[column, f"{column}_low", f"{column}_high"]].astype(float).to_numpy()
                )
                shown[header] = [write_interval(*values, self.lang) for values in triples]
            else:
                shown[header] = [self._write_cell(column, value) for value in table[column]]
        return pd.DataFrame(shown)

    def _write_cell(self, column: str, value: object) -> str:
        if isinstance(value, (bool, np.bool_)):
            return self.say("yes") if value else ""
        if isinstance(value, (float, np.floating)):
            return self.number(value)
        if column in ("level", "levels"):
            value = write_decimals(str(value), self.lang)
        if column in ("line", "reference"):
            return name_line(str(value), self.say)
        if column in ("term", "factor"):
            return name_term(str(value), self.say)
        if value is None:
            return "–"
        return self.say(str(value)) if value in SAID else str(value)


def _name_file(name: str) -> str:
    """A file's name of a figure's, which may hold a network's."""
    return re.sub(r"[^\w.-]", "_", name)
