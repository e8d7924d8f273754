"""List the runs of a study that are still to be made, and estimate their time and cost.

The runner of this machine, a Dask cluster and a session of a cloud service all ask here.
"""

from __future__ import annotations

import math
import re
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import NamedTuple

from dr_lib.command import write_command
from dr_lib.hardware.facts import find_boot
from dr_lib.runs.prices import find_price, price_seconds
from dr_lib.runs.row import Row, read_left
from dr_lib.runs.study import PlannedRun, Study, name_run

ANY = "any"  # in place of a machine's name in the plan of runs for several
# the last of a study's errors where it was stopped
ALIKE_STATUS = 3  # exit status of `run` then
ALIKE = "every other run would fail alike: correct this, and repeat the command"


class Offer(NamedTuple):
    """The next run, or the reason why it may not begin."""

    run: PlannedRun
    seconds: list[float]  # predicted, of it and of those after it; NaN where nothing has run
    refusal: str  # why it may not begin; empty if it may


@dataclass
class Backlog:
    """The runs of a study that are still to be made, and the rows of the others.

    Raises:
        PriceError: the study's instance has no price.
    """

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

    def __post_init__(self):
        """Find the price of an hour."""
        self._usd_per_hour = math.nan
        if self.study.instance:
            self._usd_per_hour = find_price(self.study.instance).usd_per_hour

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

    def fails_alike(self, run: PlannedRun) -> bool:
        """Whether every other run would fail as this one has: none has succeeded, and its error is
        a refusal that names no factor and no level, or one that another scenario met too.
        """
        error = self.row(run)["error"]
        rows = self.rows.values()
        others = [
            each
            for each in self.planned
            if each.run_id not in self.closed and each.scenario not in self.unavailable
        ]
        if not others or any(row["status"] == "ok" for row in rows):
            return False
        factors = self.study.factors
        words = [*factors, *(str(run.parameters[name]) for name in factors)]
        is_own = any(re.search(rf"\b{re.escape(word)}\b", error) for word in words)
        alike = [row["scenario"] for row in rows if row["error"] == error]
        is_met = len(alike) > 1 and (not factors or len({*alike}) > 1)
        # something was refused, which no repetition changes
        refusals = ("DrError", "SystemExit", "HardwareError", "ModelFolderError", "ShardError")
        return is_met or (error.startswith(refusals) and not is_own)

    def predict_s(self, runs: Sequence[PlannedRun]) -> list[float]:
        """Predict the seconds that each of these runs takes.

        It is the median of its scenario's completed runs, else of all completed runs of the study;
        NaN without one.
        """
        seconds: dict[str, list[float]] = {}
        for run in self.planned:
            row = self.row(run)
            if row["status"] == "ok":
                seconds.setdefault(run.scenario, []).append(_measure_s(row))
        of_all = median([run_s for times in seconds.values() for run_s in times] or [math.nan])
        return [median(seconds.get(run.scenario, [of_all])) for run in runs]

    def find_next(self) -> Offer | None:
        """Find the next run, and whether there is time for it; None after the last."""
        waiting = self.list_left()
        if not waiting:
            return None
        # a boot of the machine has limited repetitions, after a first one that is cold
        limit = self.study.session_repetitions or len(self.planned)
        made = Counter(
            row["scenario"]
            for row in self.rows.values()
            if row["status"] == "ok" and row.get("boot") == self.boot and not row.get("cold")
        )
        of_session = [run for run in waiting if made[run.scenario] < limit]
        left = of_session or waiting
        seconds = self.predict_s(left)
        refusal = ""
        if not of_session:
            count = self.study.session_repetitions
            advice = "restart the machine for more"
            refusal = f"this session has completed its {count} warm repetitions: {advice}"
        # a time that is not known yet, NaN, refuses nothing
        elif time.monotonic() > self.stop_at or time.monotonic() + seconds[0] > self.stop_at:
            refusal = "max_hours leaves no time for another run"
        return Offer(left[0], seconds, refusal)

    def describe(self, path: Path) -> str:
        """Describe how many runs are left, their minutes and their cost.

        Args:
            path: the study's file, named in the command that makes a first run.
        """
        skipped = self.find_skipped()
        completed = [run for run in self.runs if self.row(run)["status"] == "ok"]
        left = [run for run in self.list_left() if run.scenario not in skipped]
        lines = [f"{len(self.runs)} runs: {len(completed)} completed, {len(left)} to do"]
        if skipped:
            number = len(self.runs) - len(completed) - len(left)
            reasons = "; ".join(sorted(set(skipped.values())))
            lines.append(f"{number} not possible on this machine: {reasons}")
        if left and (number := self.study.session_repetitions):
            lines.append(
                f"warm runs of a scenario in a session: {number}, after its first training, which"
                " is cold"
            )

        seconds = self.predict_s(left)
        if left and math.isnan(seconds[0]):
            command = write_command("run", path, "--only", left[0].name)
            lines.append(
                "time and cost cannot be estimated before a run has finished; to make one: "
                f"{command}"
            )
        elif left:
            usd = price_seconds(self._usd_per_hour, sum(seconds))
            cost = "" if math.isnan(usd) else f", {usd:.2f} USD"
            unknown = {run.scenario for run in left} - {run.scenario for run in completed}
            source = f"; {len(unknown)} scenarios have not run and are taken to last as long as"
            source = f"{source} the others" if unknown else ""
            lines.append(f"about {sum(seconds) / 60:.0f} min{cost} for the rest{source}")
        return "\n".join(lines)


def _measure_s(row: Row) -> float:
    """Measure a run's seconds, including papermill and the kernel's start; of a resumed one, as if
    its last process had trained all epochs.
    """
    run_s = row.get("process_s") or row["wall_s"]
    if row.get("resumed") and row.get("epochs_done") and row.get("epoch_s"):
        run_s *= row["epochs_done"] / len(row["epoch_s"])
    return run_s
