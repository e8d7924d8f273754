"""Hold our rows against the papers: read what they claim, judge each claim, write the report."""

from collections.abc import Collection
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from dr_lib.stats import BadSampleError, Interval, mean_interval, ratio_interval, sd_ratio_interval
from dr_lib.studies.figures import FLAWS, MIN_RUNS, PUBLISHED, WORK, check_alike, timed_runs
from dr_lib.studies.modes import compare_modes

SCALES = {"mean": (1, 0), "ratio": (1, 0), "sd_ratio": (1, 0), "increase": (100, -100), "saving": (-100, 100)}
RELATIONS = (">=", "<=", "within")
HARDWARE = ("accelerator", "num_accelerators", "instance", "platform")
LISTED = (
    "run_id",
    "mode",
    "split_seed",
    "train_s",
    "first_step_s",
    "steady_epoch_s",
    "contended",
    "metric_ridge_auc_test",
)
DRAWN = "DRAWN SAMPLE, NOT PHOTOGRAPHS"
_PORTUGUESE = {
    "Paper": "Artigo",
    "environment": "ambiente",
    "machine": "máquina",
    "mode": "modo",
    "claim": "afirmação",
    "published": "publicado",
    "ours": "nossas execuções [95 %]",
    "verdict": "veredito",
    "reason": "motivo",
    DRAWN: "AMOSTRA DESENHADA, NÃO RETINOGRAFIAS",
    "What was run": "O que foi executado",
    "Left out of the timing": "Fora da medida de tempo",
    "Environments": "Ambientes",
    "Modes": "Modos",
    "Runs": "Execuções",
    "Claims": "Afirmações",
    "Failed runs": "Execuções com falha",
    "holds": "vale",
    "does not hold": "não vale",
    "undecided": "indeciso",
    "not comparable": "não comparável",
    "not measured": "não medido",
    "reference": "referência",
    "counts": "conta",
    "does not count: AUC below A's interval": "não conta: AUC abaixo do intervalo de A",
    "does not count: AUC above A's interval": "não conta: AUC acima do intervalo de A",
    f"undecided: n < {MIN_RUNS}": f"indeciso: n < {MIN_RUNS}",
}


class PublishedError(ValueError):
    """The table of claims cannot be used; the message names the claim."""


class Verdict(NamedTuple):
    """What our rows say of a claim; `ours` is in the claim's unit, `n` the runs of its smaller side."""

    id: str
    ours: Interval
    verdict: str  # holds, does not hold, undecided, not comparable, not measured
    n: int
    reason: str  # what was held against what, in numbers and column names


def read_published(paper: str | None = None, *, path: str | Path = PUBLISHED) -> pd.DataFrame:
    """Read the claims of one paper, or of all; `path` takes another table.

    A selector (`numerator`, `denominator`; `conditions` is the work of both sides) joins column=value by
    semicolons, * standing for any text.

    Raises:
        PublishedError: a row could not be judged, or no row is of that paper.
    """
    claims = pd.read_csv(path, keep_default_na=False)
    numbers = claims[["value", "tolerance"]].apply(pd.to_numeric, errors="coerce")
    terms = claims["numerator"] + ";" + claims["denominator"] + ";" + claims["conditions"]
    for told, bad in {
        "stands there twice": claims["id"].duplicated(),
        f"statistic is none of {', '.join(SCALES)}": ~claims["statistic"].isin(SCALES),
        f"relation is none of {', '.join(RELATIONS)}": ~claims["relation"].isin(RELATIONS),
        "only a mean has no denominator": (claims["statistic"] == "mean") != (claims["denominator"] == ""),
        "value or tolerance is no number": ~(np.isfinite(numbers).all(axis=1) & (numbers["tolerance"] >= 0)),
        "a selector is not column=value;...": ~terms.str.fullmatch(r"(;*[a-z_0-9]+=[^=;]+)*;*"),
    }.items():
        if bad.any():
            raise PublishedError(f"claim {claims['id'][bad].iloc[0]}: {told}")
    if paper is not None and paper not in set(claims["paper"]):
        raise PublishedError(f"no claim of paper {paper!r}: choose one of {sorted(set(claims['paper']))}")
    return claims if paper is None else claims[claims["paper"] == paper].reset_index(drop=True)


def judge(claim: Any, runs: pd.DataFrame, *, keep: Collection[str] = ()) -> Verdict:
    """Say whether a claim, a row of `read_published`, holds: only if the whole 95 % interval satisfies it.

    Rows from its hardware that did its work decide. Where there are none, the nearest are shown as not
    comparable: hardware, then conditions, narrow the rows term by term, and a term that none of them meets is
    given up.
    """
    timed = timed_runs(runs, keep=keep)
    timed = timed[timed[claim.column].notna()] if claim.column in timed else timed[:0]
    selectors = [claim.numerator] if claim.statistic == "mean" else [claim.numerator, claim.denominator]
    sides, unmet = zip(*[_find_rows(timed, s, claim.conditions) for s in selectors], strict=True)
    rows, asked = pd.concat(sides), ", ".join(sorted(set(sum(unmet, []))))
    several = claim.environments != "any" and any(side["environment"].nunique() > 1 for side in sides)
    ours, known = Interval(np.nan, np.nan, np.nan, 0), min(map(len, sides)) > 0
    low = -np.inf if claim.relation == "<=" else claim.value - claim.tolerance
    high = np.inf if claim.relation == ">=" else claim.value + claim.tolerance
    try:
        if known and not several and not rows.index.has_duplicates:
            ours = _measure(claim, [side[claim.column] for side in sides])
    except BadSampleError as error:
        return Verdict(claim.id, ours, "not measured", 0, str(error))
    reason = f"[{ours.low:.4g}, {ours.high:.4g}] vs [{low:.4g}, {high:.4g}]"
    if not known:
        verdict, reason = "not measured", f"n = 0: {claim.column} ({' vs '.join(selectors)})"
    elif asked or several:
        places = "; ".join(sorted(set(rows["environment"])))
        verdict, reason = "not comparable", f"{places} vs {asked or claim.environments}"
    elif ours.n < MIN_RUNS:
        verdict, reason = "undecided", f"n = {ours.n} < {MIN_RUNS}"
    elif low <= ours.low and ours.high <= high:
        verdict = "holds"
    else:
        verdict = "does not hold" if ours.high < low or ours.low > high else "undecided"
    return Verdict(claim.id, ours, verdict, ours.n, reason)


def write_report(
    runs: pd.DataFrame,
    path: str | Path,
    *,
    paper: str = "A",
    lang: str = "en",
    figure: str = "figure_1.png",
    allow: Collection[str] = (),
    keep: Collection[str] = (),
) -> list[Verdict]:
    """Write what was run, and each environment, mode, claim, metric and failed run, as Markdown.

    Args:
        runs: one row per run, failed ones too.
        path: the file; `figure` is the picture as seen from there; `paper`: A to D; `lang`: en or pt.
        allow: columns in which the work may differ; `keep`: flaws that do not bar a row from the timing.

    Raises:
        UnlikeRunsError: the rows did different work.
    """
    if lang not in ("en", "pt"):
        raise ValueError(f"no words for lang={lang!r}: choose en or pt")
    words = _PORTUGUESE if lang == "pt" else {}
    ok, claims = timed_runs(runs, keep=FLAWS), read_published(paper)
    check_alike(ok, allow=allow)
    verdicts = [judge(claim, runs, keep=keep) for claim in claims.itertuples()]
    work = [column for column in WORK if column in ok]
    left_out = {f: len(ok) - len(timed_runs(runs, keep={*FLAWS} - {f})) for f in FLAWS if f not in keep}
    parts = [f"# {words.get('Paper', 'Paper')} {paper}", f"![]({figure})"]
    if "data_kind" in ok and (ok["data_kind"] == "drawn").any():
        parts.insert(1, f"> **{words.get(DRAWN, DRAWN)}**")
    for heading, table in {
        "What was run": ok.groupby(work, dropna=False).size().reset_index(name="n") if work else ok,
        "Left out of the timing": pd.DataFrame([left_out]),
        "Environments": _compare(timed_runs(runs, keep=keep), allow),
        **({"Modes": _join_bounds(compare_modes(runs, keep=keep))} if ok["mode"].nunique() > 1 else {}),
        "Runs": ok[[c for c in ok if c in LISTED or c.startswith("metric_auc")]].dropna(axis=1, how="all").round(4),
        "Claims": _tabulate(claims.rename(columns={"quotation_pt" if words else "quotation": "claim"}), verdicts),
        "Failed runs": runs[runs["status"] != "ok"][["run_id", "error"]] if len(runs) else runs,
    }.items():
        parts += [f"## {words.get(heading, heading)}", _to_markdown(table, words)]
    Path(path).write_text("\n\n".join(parts) + "\n", encoding="utf-8")
    return verdicts


def _find_rows(timed: pd.DataFrame, selector: str, conditions: str) -> tuple[pd.DataFrame, list[str]]:
    terms = selector.split(";") if selector else []
    loose = [t for t in terms if t.split("=")[0] in HARDWARE] + (conditions.split(";") if conditions else [])
    rows, unmet = timed[_meets(timed, [term for term in terms if term not in loose])], []
    for term in loose:
        nearer = rows[_meets(rows, [term])]
        if nearer.empty:
            unmet.append(term)
        else:
            rows = nearer
    return rows, unmet


def _meets(rows: pd.DataFrame, terms: list[str]) -> np.ndarray:
    met = np.full(len(rows), True)
    for column, wanted in (term.split("=") for term in terms):
        values = rows[column] if column in rows else [""] * len(rows)
        texts = [f"{value:g}" if isinstance(value, float) else str(value) for value in values]
        met &= np.array([fnmatchcase(text, wanted) for text in texts], dtype=bool)
    return met


def _measure(claim: Any, columns: list[pd.Series]) -> Interval:
    interval = {"mean": mean_interval, "sd_ratio": sd_ratio_interval}.get(claim.statistic, ratio_interval)
    *measured, n = interval(*columns)
    scale, shift = SCALES[claim.statistic]
    value, *bounds = (scale * x / (60 if claim.unit == "min" else 1) + shift for x in measured)
    return Interval(value, *(bounds if scale > 0 else bounds[::-1]), n)


def _compare(timed: pd.DataFrame, allow: Collection[str]) -> pd.DataFrame:
    keys = ["environment", *(column for column in allow if column in timed and column != "mode")]
    times = [column for column in ("train_s", "steady_epoch_s") if column in timed]
    groups, lines = dict(list(timed.groupby(keys, dropna=False))), []
    slowest = max(groups.values(), key=lambda rows: rows[times[0]].mean()) if times and groups else timed
    for key, rows in groups.items():
        line = dict(zip(keys, key, strict=True)) | {"n": len(rows)}
        for time in times:
            line[f"{time}, mean [95 %]"] = _show(mean_interval(rows[time].dropna()))
            line[f"sd({time})"] = f"{rows[time].std():.3g}"
            ratio = ratio_interval(rows[time].dropna(), slowest[time].dropna())
            line[f"{time}, ratio [95 %]"] = "1" if rows is slowest else _show(ratio)
        for metric in (c for c in rows if c.startswith("metric_") and rows[c].notna().any()):
            line[f"{metric}, mean ± sd"] = f"{rows[metric].mean():.4g} ± {rows[metric].std():.2g}"
        lines.append(line)
    return pd.DataFrame(lines)


def _join_bounds(modes: pd.DataFrame) -> pd.DataFrame:
    """Write each value and its two bounds into one column."""
    for low in [column for column in modes if column.endswith("_low")]:
        name = low.removesuffix("_low")
        bounded = modes[[name, low, f"{name}_high"]].itertuples(index=False)
        modes[name] = [_show(Interval(*bounds, 0)) for bounds in bounded]
        modes = modes.drop(columns=[low, f"{name}_high"]).rename(columns={name: f"{name} [95 %]"})
    return modes


def _tabulate(claims: pd.DataFrame, verdicts: list[Verdict]) -> pd.DataFrame:
    spread = claims["tolerance"].map(lambda tolerance: f" ± {tolerance:g} " if tolerance else " ")
    published = claims["relation"] + claims["value"].map(" {:g}".format) + spread + claims["unit"]
    judged = pd.DataFrame(verdicts).assign(ours=[_show(verdict.ours) for verdict in verdicts])
    return pd.concat([claims[["id", "claim"]].assign(published=published), judged.drop(columns="id")], axis=1)


def _show(interval: Interval) -> str:
    bounds = f" [{interval.low:.4g}, {interval.high:.4g}]" if np.isfinite(interval.low) else ""
    return f"{interval.value:.4g}{bounds}" if np.isfinite(interval.value) else "–"


def _to_markdown(table: pd.DataFrame, words: dict[str, str]) -> str:
    lines = [list(table.columns), ["---"] * table.shape[1], *table.map(str).to_numpy().tolist()]
    lines = [[words.get(cell, cell).replace("|", "\\|").replace("\n", " ") for cell in line] for line in lines]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) if len(table) else "–"
