"""List the runs of a study that are still to be made, and estimate their time and cost.

The runner of this machine, a Dask cluster and a session of a cloud service all use it.
"""

from __future__ import annotations

import itertools
import math
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from dr_lib.hardware.facts import find_boot
from dr_lib.runs.prices import find_price, price_seconds
from dr_lib.runs.row import Row, read_left
from dr_lib.runs.study import PlannedRun, Study, name_run

ANY = "any"  # in place of a machine's name in the plan of runs for several
# paper A's difference, and the half of its interval that `plan` asks for
LESS = 0.36
MARGIN = 0.05
# the last of a study's errors where it was stopped
STOPPED = "the first two runs failed: correct this, and repeat the command"
STOPPED_STATUS = 3  # exit status of `run` then


@dataclass
class Backlog:
    """The runs of a study that are still to be made, and the rows of the others."""

    study: Study
    folder: Path  # of the study
    runs: list[PlannedRun]  # that are asked for
    planned: list[PlannedRun]  # all runs of the study
    rows: dict[str, Row] = field(default_factory=dict)  # by planned run
    stop_at: float = math.inf  # of the session, on the monotonic clock
    # runs that this session does not begin any more
    closed: set[str] = field(default_factory=set)
    boot: str = field(default_factory=find_boot)  # of this machine
    # scenarios that it cannot make, and why
    unavailable: dict[str, str] = field(default_factory=dict)

    def read(self) -> None:
        """Read the rows that the planned runs have written on this machine."""
        rows = read_left(self.folder)
        ids = [run.run_id for run in self.planned]
        self.rows = {run_id: rows[run_id] for run_id in ids if run_id in rows}

    def take_in(self, rows: Iterable[Row]) -> None:
        """Add rows of several machines to a plan for ANY; a completed one takes precedence."""
        for row in rows:
            run_id = f"{name_run(row['scenario'], row['repetition'])}-{ANY}"
            if row["status"] == "ok" or self.rows.get(run_id, row)["status"] != "ok":
                self.rows[run_id] = row

    def row(self, run: PlannedRun) -> Row:
        """Return the row that a run has written, or one without a status."""
        return self.rows.get(run.run_id, {"status": ""})

    @property
    def is_stopped(self) -> bool:
        """Whether two runs have failed and none has succeeded."""
        statuses = Counter(row["status"] for row in self.rows.values())
        return statuses["failed"] >= 2 and not statuses["ok"]

    def list_left(self) -> list[PlannedRun]:
        """List the incomplete runs in their order."""
        return [
            run
            for run in self.runs
            if self.row(run)["status"] != "ok"
            and run.scenario not in self.unavailable
            and run.run_id not in self.closed
        ]

    def find_skipped(self) -> dict[str, str]:
        """Find the scenarios that are not possible on this machine, and why; one skipped row
        counts for all runs of its scenario.
        """
        reasons = {
            run.scenario: self.row(run).get("error", "")
            for run in self.planned
            if self.row(run)["status"] == "skipped"
        }
        return {**reasons, **self.unavailable}

    def predict_s(self, runs: Sequence[PlannedRun]) -> list[float]:
        """Predict the seconds that each of these runs takes: the median of its scenario's completed
        runs, else of all completed runs; NaN without one.
        """
        seconds: dict[str, list[float]] = {}
        for run in self.planned:
            row = self.row(run)
            if row["status"] == "ok":
                seconds.setdefault(run.scenario, []).append(
                    row.get("process_s") or row["wall_s"]
                )
        of_all = median([run_s for times in seconds.values() for run_s in times] or [math.nan])
        return [median(seconds.get(run.scenario, [of_all])) for run in runs]

    def find_next(self) -> tuple[PlannedRun | None, str]:
        """Find the next run; none after the last, or with the reason why it may not begin."""
        left = self.list_left()
        if not left:
            return None, ""
        limit = self.study.session_repetitions or len(self.planned)
        # of this boot, after a first one that is cold
        made = Counter(
            row["scenario"]
            for row in self.rows.values()
            if row["status"] == "ok" and row.get("boot") == self.boot and not row.get("cold")
        )
        of_session = [run for run in left if made[run.scenario] < limit]
        if not of_session:
            fault = f"this session has completed its {limit} warm repetitions"
            return None, f"{fault}: restart the machine for more"
        # a time that is not known yet, NaN, refuses nothing
        now = time.monotonic()
        if now > self.stop_at or now + self.predict_s(of_session)[0] > self.stop_at:
            return None, "max_hours leaves no time for another run"
        return of_session[0], ""

    def describe(self, command: str) -> str:
        """Describe how many runs are left, their minutes and their cost, and how many sessions a
        difference needs.

        Args:
            command: that makes one run, followed by the run's name.

        Raises:
            PriceError: the study's instance has no price.
        """
        study = self.study
        skipped = self.find_skipped()
        completed = [run for run in self.runs if self.row(run)["status"] == "ok"]
        left = [run for run in self.list_left() if run.scenario not in skipped]
        lines = [f"{len(self.runs)} runs: {len(completed)} completed, {len(left)} to do"]
        if skipped:
            number = len(self.runs) - len(completed) - len(left)
            reasons = "; ".join(sorted(set(skipped.values())))
            lines.append(f"{number} not possible on this machine: {reasons}")
        seconds = sum(self.predict_s(left))
        if math.isnan(seconds):
            most = f"; a session takes {study.max_hours:g} h at most" if study.max_hours else ""
            lines.append(f"minutes: unknown before a run has finished{most}")
            lines.append(f"to make one: {command} {left[0].name}")
        elif left:
            cost = ""
            if study.instance:
                usd_per_hour = find_price(study.instance).usd_per_hour
                cost = f", {price_seconds(usd_per_hour, seconds):.2f} USD"
            lines.append(f"about {seconds / 60:.0f} min{cost} for the rest")
        lines.append(self._describe_sessions())
        return "\n".join(lines)

    def _describe_sessions(self) -> str:
        """Describe the sessions that a difference needs, by spreads of 5, 10 and 20 % and by that
        of the study's own rows.
        """
        needed = ", ".join(f"{count_sessions(s)} at {s:.0%}" for s in (0.05, 0.1, 0.2))
        own = measure_spread(self.rows.values())
        rows = f"; yours spread by {own:.1%}: {count_sessions(own)}" if own > 0 else ""
        return (
            f"{LESS:.0%} less time on one of two machines, within {MARGIN * 100:.0f} percentage"
            f" points: sessions of each, by their spread, {needed}{rows}"
        )


def count_sessions(spread: float) -> int:
    """Count the sessions of each of two machines after which the 95 % interval of their difference
    is as narrow as MARGIN: a difference of that size is then significant in half of all studies.

    Args:
        spread: standard deviation of the logarithms of a session's time.
    """
    from statsmodels.stats.power import TTestIndPower  # a second

    effect_size = math.log((1 - LESS + MARGIN) / (1 - LESS)) / spread
    power = TTestIndPower().power
    return next(n for n in itertools.count(3) if power(effect_size, n, alpha=0.05) >= 0.5)


def measure_spread(rows: Iterable[Row]) -> float:
    """Measure the spread of sessions in the training times of rows; NaN without two sessions."""
    import pandas as pd

    cell = ["scenario", "accelerator"]
    table = pd.DataFrame(rows, columns=[*cell, "boot", "status", "cold", "train_s"])
    table["train_s"] = table["train_s"].astype(float)  # some studies train nothing
    is_warm = (table["status"] == "ok") & (table["train_s"] > 0) & ~table["cold"].eq(True)
    table = table[is_warm]
    medians = table.groupby([*cell, "boot"], dropna=False)["train_s"].median().map(math.log)
    return math.sqrt(medians.groupby(cell, dropna=False).var().mean())
