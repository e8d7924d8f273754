"""Record a training run (times, history, best weights) and save its checkpoints."""

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pandas as pd

from dr_lib import files
from dr_lib.errors import DrError
from dr_lib.training.calls import Calls
from dr_lib.training.checkpoint import (
    CHECKPOINT,
    assign_variables,
    read_checkpoint,
    read_variables,
    read_weights,
    write_checkpoint,
)
from dr_lib.training.divergence import find_fault, find_limit
from dr_lib.training.keras_backend import average_replicas, wait_for
from dr_lib.training.models import Ranks


def has_stalled(aucs: Sequence[float], patience: int, min_delta: float) -> bool:
    """Whether the last `patience` epochs had no AUC more than `min_delta` above the best before
    them, as Keras's EarlyStopping counts; never with a patience of 0.
    """
    best = -np.inf
    waited = 0
    for auc in aucs:
        waited += 1
        if auc - min_delta > best:
            best = auc
            waited = 0
    return waited >= patience > 0


class Recorder(keras.callbacks.Callback):
    """Take times, keep history and best weights, save checkpoints; must be the last callback.

    Times are those of this process; history, weights and sessions those of the whole training.
    """

    # Keras may call it beside the training, and does so on JAX: no step waits for its loss
    async_safe = True

    def __init__(
        self,
        out_dir: Path,
        *,
        identity: Mapping[str, Any] | None = None,
        session: Mapping[str, str] | None = None,
        report: Callable[[int, int], None] | None = None,
        seconds_left: Callable[[], float] | None = None,
    ):
        """Start with an empty record.

        Args:
            out_dir: folder for what the training leaves.
            identity: what is to be trained; a checkpoint of anything else is refused.
            session: what may be another after a restart, such as the device; all that took part are
                named.
            report: called with (epochs done, epochs in all).
            seconds_left: called after each epoch; where the next one would not fit, the training is
                saved and stops.
        """
        super().__init__()
        self.out_dir = out_dir
        self.path = out_dir / CHECKPOINT
        self.identity = dict(identity or {})
        self.report = report
        self.seconds_left = seconds_left
        self.plateau = None
        self.monitor = ""  # the metric of the best epoch, empty to keep the last
        self.patience = 0  # this and min_delta: see `has_stalled`
        self.min_delta = 0.0
        self.history: list[dict[str, float]] = []
        self.sessions = [dict(session or {})]
        self.scores: dict[str, float] = {}  # AUC of this epoch, in training and validation
        self.fault = ""  # why the training cannot succeed
        self.best = float("nan")
        self.best_epoch = 0  # from 1
        self.best_variables = []
        self.plateau_state: dict[str, float] = {}
        self.epoch_s: list[float] = []
        self.training_s: list[float] = []  # of each epoch, what its steps took
        self.calls = Calls()  # in training
        self.ready_s: Sequence[float] = ()  # of the training's `Batches`
        self.validation = Calls()
        self.checkpoint_s = 0.0  # of all checkpoints
        self.save_s = 0.0  # of the last one
        self.cpu_s = 0.0

    def resume(self, model: keras.Model) -> None:
        """Resume from the checkpoint, if there is one.

        Raises:
            DrError: it is damaged, or of other parameters, photographs, labels or another split.
        """
        if not self.path.exists():
            return
        progress, arrays = read_checkpoint(self.path)
        changed = [
            name
            for name, value in self.identity.items()
            if progress["identity"].get(name) != value
        ]
        if changed:
            raise DrError(
                f"{CHECKPOINT} was written with other {', '.join(changed)}: delete it to "
                "start again"
            )
        self.best_variables = arrays.pop("best")
        assign_variables(model, arrays)
        self.history = progress["history"]
        self.best = progress["best"]
        self.best_epoch = progress.get("best_epoch", 0)
        self.plateau_state = progress["plateau_state"]
        self.sessions = [*progress["sessions"], *self.sessions]

    def join_sessions(self) -> dict[str, str]:
        """Join the values of all sessions, such as "Tesla T4 + cpu" for the devices."""
        return {
            name: " + ".join(dict.fromkeys(session[name] for session in self.sessions))
            for name in self.sessions[-1]
        }

    def is_done(self, epochs: int) -> bool:
        """Whether the training has had all its epochs, or has stalled."""
        aucs = [line["val_auc"] for line in self.history if "val_auc" in line]
        return len(self.history) >= epochs or has_stalled(aucs, self.patience, self.min_delta)

    def begin(self) -> None:
        """Start the clock right before the call of fit."""
        self.cpu_start = time.process_time()
        # of the training, and the ends of the last epoch and the last checkpoint
        self.start = self.ended = self.saved = time.monotonic()

    def on_train_begin(self, logs=None):
        """Restore the saved state of the plateau callback, which has just reset itself."""
        for name, value in self.plateau_state.items():
            setattr(self.plateau, name, value)

    def on_train_batch_end(self, batch, logs=None):
        """Note the end of a call: Keras passes its loss only once it is on the host."""
        self.calls.ends[batch] = time.monotonic()

    def on_test_batch_end(self, batch, logs=None):
        """Note the end of a call in validation."""
        self.validation.ends[batch] = time.monotonic()

    def on_test_begin(self, logs=None):
        """Note the end of an epoch's steps, before its validation."""
        self._end_training()
        self.validation_start = time.monotonic()

    def on_test_end(self, logs=None):
        """Score the validation, before Keras forgets it."""
        self.scores["val_auc"] = self._score()
        self.validation.finish(self.validation_start, time.monotonic())

    def on_epoch_end(self, epoch, logs=None):
        """Record a finished epoch; save if it is time to; stop if the time limit is reached or the
        training has diverged.
        """
        self._end_training()
        self.calls.finish(self.ended, self.ended + self.training_s[-1], self.ready_s)
        logs = {**(logs or {}), **self.scores}
        self.history.append({name: float(value) for name, value in logs.items()})
        table = pd.DataFrame(self.history).rename_axis("epoch")
        files.write_text(self.out_dir / "history.csv", table.to_csv())
        # a loss in validation that is not finite comes of weights that are not
        losses = [line["loss"] + 0 * line.get("val_loss", 0.0) for line in self.history]
        self.fault = find_fault(losses)
        if self.fault:
            self.model.stop_training = True
            return
        is_last = self.is_done(self.params["epochs"])
        reached = self.history[-1].get(self.monitor, float("nan"))
        # the last one, but not of a fault
        is_better = is_last or losses[-1] <= find_limit(losses)
        if self.monitor:
            is_better = np.isnan(self.best) or reached > self.best
        if is_better:
            self.best = reached
            self.best_epoch = epoch + 1
            self.best_variables = read_weights(self.model)
        longest = max([time.monotonic() - self.ended, *self.epoch_s[1:]])
        no_time = False
        if self.seconds_left is not None and not is_last:
            no_time = self.seconds_left() < longest + 2 * self.save_s
        now = time.monotonic()
        self.epoch_s.append(now - self.ended)
        # checkpoints between the first epoch's and the last take 5 % of the time at most
        is_due = (now - self.saved) * 0.05 >= self.save_s
        if is_last or no_time or is_due:
            self._save(now)
        self.ended = time.monotonic()
        self.cpu_s = time.process_time() - self.cpu_start
        self.epoch_s[-1] += self.ended - now
        if self.report:
            self.report(epoch + 1, self.params["epochs"])
        self.model.stop_training = self.model.stop_training or is_last or no_time

    def divide(self) -> dict[str, float]:
        """Divide the seconds from the call of fit to the end of the last epoch."""
        calls = self.calls
        parts = {
            "compile_s": calls.compile_s + self.validation.compile_s,
            "input_s": calls.input_s,
            "steps_s": calls.total_s - calls.compile_s - calls.input_s,
            "validation_s": self.validation.total_s - self.validation.compile_s,
            "checkpoint_s": self.checkpoint_s,
        }
        return {**parts, "callbacks_s": self.ended - self.start - sum(parts.values())}

    def _end_training(self) -> None:
        wait_for(self.model)
        if len(self.training_s) == len(self.epoch_s):  # the first call in this epoch
            self.training_s.append(time.monotonic() - self.ended)
            self.scores = {"auc": self._score()}
            average_replicas(self.model)  # what is validated is what is kept

    def _score(self) -> float:
        groups = (getattr(metric, "metrics", ()) for metric in self.model.metrics)
        (ranks,) = (metric for group in groups for metric in group if isinstance(metric, Ranks))
        return ranks.score()

    def _save(self, now: float) -> None:
        progress = {
            # of ReduceLROnPlateau, which Keras does not save
            "plateau_state": {
                name: float(getattr(self.plateau, name))
                for name in ("best", "wait", "cooldown_counter")
            },
            "identity": self.identity,
            "sessions": self.sessions,
            "history": self.history,
            "best": self.best,
            "best_epoch": self.best_epoch,
        }
        arrays = {**read_variables(self.model), "best": self.best_variables}
        write_checkpoint(self.path, progress, arrays)
        self.saved = time.monotonic()
        self.save_s = self.saved - now
        self.checkpoint_s += self.save_s
