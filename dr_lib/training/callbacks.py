"""Callbacks of a training: exact AUCs, the clock, and the checkpoint from which it goes on."""

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pandas as pd

from dr_lib import files
from dr_lib.data.prepared.batches import Batches
from dr_lib.errors import DrError
from dr_lib.training.calls import Calls
from dr_lib.training.checkpoint import (
    CHECKPOINT,
    assign_variables,
    copy_weights,
    read_checkpoint,
    read_variables,
    write_checkpoint,
)
from dr_lib.training.divergence import find_fault
from dr_lib.training.keras_backend import average_replicas, wait_for
from dr_lib.training.models import Ranks

SAVED = ("history", "best", "best_epoch", "is_stopped")  # of the checkpoint itself
KEPT = ("best", "wait", "cooldown_counter", "best_epoch", "stopped_epoch")  # of other callbacks


class OutOfTimeError(DrError):
    """The time limit was reached; training was saved and resumes when it is started again."""


class Scores(keras.callbacks.Callback):
    """Put the exact AUC of an epoch into its logs, `auc` and `val_auc`, for callbacks behind this.

    At the end of an epoch's steps all replicas get the mean of their moving statistics, so that
    what is validated is what is kept.
    """

    def __init__(self):
        """Start without a score."""
        super().__init__()
        self.scores: dict[str, float] = {}

    def on_epoch_begin(self, epoch, logs=None):
        """Forget the scores of the epoch before."""
        self.scores = {}

    def on_test_begin(self, logs=None):
        """Score the training, before Keras forgets it."""
        self._end_steps()

    def on_test_end(self, logs=None):
        """Score the validation, before Keras forgets it."""
        self.scores["val_auc"] = self._score()

    def on_epoch_end(self, epoch, logs=None):
        """Hand the scores to the callbacks behind this one."""
        self._end_steps()
        logs.update(self.scores)

    def _end_steps(self) -> None:
        if "auc" not in self.scores:
            self.scores["auc"] = self._score()
            average_replicas(self.model)

    def _score(self) -> float:
        groups = (getattr(metric, "metrics", ()) for metric in self.model.metrics)
        (ranks,) = (metric for group in groups for metric in group if isinstance(metric, Ranks))
        return ranks.score()


class Clock(keras.callbacks.Callback):
    """Time a training on a monotonic clock: from `start`, right before `fit`, to its last callback.

    Must be the first callback. Times are those of this process; a resumed training has others
    before.
    """

    # Keras may call it beside the training, and does so on JAX: no step waits for its loss
    async_safe = True

    def __init__(self, batches: Batches):
        """Take the batches of training, which note when each was ready."""
        super().__init__()
        self.batches = batches

    def start(self) -> None:
        """Start right before the call of fit; what was measured before is forgotten."""
        self.steps = Calls()
        self.validation = Calls()
        self.epoch_s: list[float] = []  # with validation and callbacks
        self.training_s: list[float] = []  # of each epoch, what its steps took
        self._start = self._begun = time.monotonic()

    def on_epoch_begin(self, epoch, logs=None):
        """Note the end of the epoch before, with its callbacks; the first one begins with fit."""
        self._end_epoch()

    def on_train_batch_end(self, batch, logs=None):
        """Note the end of a call: Keras passes its loss only once it is on the host."""
        self.steps.ends[batch] = time.monotonic()

    def on_test_batch_end(self, batch, logs=None):
        """Note the end of a call in validation."""
        self.validation.ends[batch] = time.monotonic()

    def on_test_begin(self, logs=None):
        """Note the end of an epoch's steps, before its validation."""
        self._end_steps()
        self._validated = time.monotonic()

    def on_test_end(self, logs=None):
        """Note the end of the validation."""
        self.validation.finish(self._validated, time.monotonic())

    def on_epoch_end(self, epoch, logs=None):
        """Note the end of an epoch's steps, where it has no validation."""
        self._end_steps()

    def on_train_end(self, logs=None):
        """Note the end of the last epoch: `fit` may return later, when its threads have ended."""
        self._end_epoch()

    def stop(self) -> dict[str, Any]:
        """Return the columns of a row; null where no epoch was left to train."""
        if not self.epoch_s:
            return {"train_s": None, "epoch_s": [], "training_s": [], "steady_epoch_s": None}
        train_s = self._begun - self._start
        parts = {
            "compile_s": self.steps.compile_s + self.validation.compile_s,
            "input_s": self.steps.input_s,
            "steps_s": self.steps.total_s - self.steps.compile_s - self.steps.input_s,
            "validation_s": self.validation.total_s - self.validation.compile_s,
        }
        num_images = len(self.batches) * self.batches.batch_size
        return {
            "train_s": train_s,
            "first_step_s": self.steps.first_s,
            "epoch_s": self.epoch_s,
            "training_s": self.training_s,
            "steady_epoch_s": pd.Series(self.epoch_s[1:]).median(),
            "images_per_s": num_images / pd.Series(self.training_s[1:]).median(),
            **parts,
            "rest_s": train_s - sum(parts.values()),
        }

    def _end_steps(self) -> None:
        if len(self.training_s) > len(self.epoch_s):  # the validation has begun
            return
        wait_for(self.model)
        now = time.monotonic()
        self.training_s.append(now - self._begun)
        self.steps.finish(self._begun, now, self.batches.ready_s)

    def _end_epoch(self) -> None:
        now = time.monotonic()
        if len(self.training_s) > len(self.epoch_s):
            self.epoch_s.append(now - self._begun)
            self._begun = now


class Checkpoint(keras.callbacks.Callback):
    """Keep history and best weights, and save in one step all from which a training goes on.

    It must be the last callback.

    Keras's BackupAndRestore loses the random state of augmentation and what callbacks have counted.
    """

    def __init__(
        self,
        folder: Path,
        *counting: keras.callbacks.Callback,
        monitor: str,
        identity: Mapping[str, Any] | None = None,
        session: Mapping[str, str] | None = None,
        report: Callable[[int, int], None] | None = None,
        seconds_left: Callable[[], float] | None = None,
    ):
        """Start with an empty record.

        Args:
            folder: for the history and the checkpoint.
            counting: callbacks whose counts are saved, such as ReduceLROnPlateau's.
            monitor: the score of the best epoch, val_auc or auc.
            identity: what is to be trained; a checkpoint of anything else is refused.
            session: what may be another after a restart, such as the device; all that took part are
                named.
            report: called with (epochs done, epochs in all).
            seconds_left: called after each epoch; where the next one would not fit, the training is
                saved and stops.
        """
        super().__init__()
        self.folder = folder
        self.path = folder / CHECKPOINT
        self.counting = counting
        self.monitor = monitor
        self.identity = dict(identity or {})
        self.sessions = [dict(session or {})]
        self.report = report
        self.seconds_left = seconds_left
        self.history: list[dict[str, float]] = []
        self.fault = ""  # why the training cannot succeed
        self.best = float("nan")
        self.best_epoch = 0  # from 1
        self.best_variables: list[Any] = []  # on the device
        self.is_stopped = False  # early, because nothing gets better
        self._counts: list[dict[str, float]] = []
        self._is_out_of_time = False
        self._save_s = 0.0  # of the last checkpoint

    def resume(self, model: keras.Model, epochs: int) -> int:
        """Resume from the checkpoint, if there is one; return the number of epochs done, which is
        all of them where it had stopped.

        Raises:
            DrError: it is damaged, or of other parameters, photographs, labels or another split; or
                the network has been trained without one.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        if not self.path.exists():
            if int(keras.ops.convert_to_numpy(model.optimizer.iterations)):
                raise DrError(
                    "this network has been trained already: start the run again, from the cell "
                    "that makes it on"
                )
            return 0
        progress, arrays = read_checkpoint(self.path)
        changed = [
            name
            for name, value in self.identity.items()
            if progress["identity"].get(name) != value
        ]
        if changed:
            raise DrError(
                f"{self.path} was written with other {', '.join(changed)}: delete it to start again"
            )
        self.best_variables = arrays.pop("best")
        assign_variables(model, arrays)
        for name in SAVED:
            setattr(self, name, progress[name])
        self._counts = progress["counts"]
        self.sessions = [*progress["sessions"], *self.sessions]
        return epochs if self.is_stopped else len(self.history)

    def on_train_begin(self, logs=None):
        """Restore what other callbacks had counted: they have just begun anew."""
        for callback, counts in zip(self.counting, self._counts, strict=False):
            for name, value in counts.items():
                setattr(callback, name, value)
        self._begun = self._saved = time.monotonic()

    def on_epoch_end(self, epoch, logs=None):
        """Record a finished epoch; save if it is time to; stop if the time limit is reached or the
        training has diverged.
        """
        self.history.append({name: float(value) for name, value in logs.items()})
        table = pd.DataFrame(self.history).rename_axis("epoch")
        files.write_text(self.folder / "history.csv", table.to_csv())
        # a loss in validation that is not finite comes of weights that are not
        losses = [line["loss"] + 0 * line.get("val_loss", 0.0) for line in self.history]
        self.fault = find_fault(losses)
        if self.fault:
            self.model.stop_training = True
            return
        self.is_stopped = self.model.stop_training
        is_last = self.is_stopped or epoch + 1 >= self.params["epochs"]
        reached = self.history[-1][self.monitor]
        if np.isnan(self.best) or reached > self.best:
            self.best = reached
            self.best_epoch = epoch + 1
            self.best_variables = copy_weights(self.model)
        self._save_if_due(is_last)
        if self.report:
            self.report(epoch + 1, self.params["epochs"])

    def _save_if_due(self, is_last: bool) -> None:
        now = time.monotonic()
        took = now - self._begun
        if self.seconds_left is not None and not is_last:
            self._is_out_of_time = self.seconds_left() < 1.5 * took + 2 * self._save_s
        # checkpoints between the first epoch's and the last take 5 % of the time at most
        is_due = (now - self._saved) * 0.05 >= self._save_s
        if is_last or self._is_out_of_time or is_due:
            self._save()
            self._saved = time.monotonic()
            self._save_s = self._saved - now
        self.model.stop_training = is_last or self._is_out_of_time
        self._begun = time.monotonic()

    def _save(self) -> None:
        progress = {
            "identity": self.identity,
            "sessions": self.sessions,
            **{name: getattr(self, name) for name in SAVED},
            "counts": [
                {name: value for name, value in vars(callback).items() if name in KEPT}
                for callback in self.counting
            ],
        }
        best = list(map(keras.ops.convert_to_numpy, self.best_variables))
        arrays = {**read_variables(self.model), "best": best}
        write_checkpoint(self.path, progress, arrays)

    def finish(self, epochs: int) -> dict[str, int]:
        """Give the model its best weights; return what the row says of the training's way.

        Raises:
            OutOfTimeError: the time was up before the last epoch.
        """
        if self._is_out_of_time:
            done = f"saved after epoch {len(self.history)} of {epochs}"
            raise OutOfTimeError(
                f"the time limit is reached, {done}: run it again with the same parameters to "
                "resume"
            )
        if self.best_variables:
            assign_variables(self.model, {"model": self.best_variables})
        return {"epochs_done": len(self.history), "resumed": len(self.sessions) - 1}

    def join_sessions(self) -> dict[str, str]:
        """Join the values of all sessions, such as "Tesla T4 + cpu" for the devices."""
        return {
            name: " + ".join(dict.fromkeys(session[name] for session in self.sessions))
            for name in self.sessions[-1]
        }
