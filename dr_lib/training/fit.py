"""Train a model and time it: what is timed has really finished."""

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import keras
import numpy as np

from dr_lib.data.batches import Batches

OPTIMIZERS = {"rmsprop": keras.optimizers.RMSprop, "adam": keras.optimizers.Adam}


class Timing(NamedTuple):
    """Seconds of one training, on a monotonic clock."""

    train_s: float  # from the call of fit to its return with the device's work finished
    first_step_s: float  # inside it: from the call to the end of the first step, so with the compilation
    epoch_s: list[float]  # inside it: each epoch with its validation and checkpoint; the first from the call
    cpu_s: float  # CPU seconds of this process, over all cores

    @property
    def steady_epoch_s(self) -> float:
        """Median of the epochs from the second on; not a number after one epoch."""
        return float(np.median(self.epoch_s[1:])) if len(self.epoch_s) > 1 else float("nan")


class EpochTimer(keras.callbacks.Callback):
    """Take the time at the end of the first step and of each epoch; must stand last among the callbacks."""

    def __init__(self, report: Callable[[int, int], None] | None = None):
        """`report` is called with (epochs done, epochs in all)."""
        super().__init__()
        self.report = report
        self.first_step_s = float("nan")
        self.epoch_ends: list[float] = []

    def on_train_begin(self, logs=None):
        """Start the clock; `train` moves the start to the call of fit."""
        self.start = time.monotonic()

    def on_train_batch_end(self, batch, logs=None):
        """Note the end of the very first step: its loss has arrived on the host."""
        if np.isnan(self.first_step_s):
            # not `wait_for`: in an epoch Keras on JAX keeps the weights to itself
            keras.ops.convert_to_numpy(logs["loss"])
            self.first_step_s = time.monotonic() - self.start

    def on_epoch_end(self, epoch, logs=None):
        """Note the end of an epoch, its work finished."""
        wait_for(self.model)
        self.epoch_ends.append(time.monotonic())
        if self.report:
            self.report(epoch + 1, self.params["epochs"])


def wait_for(model: keras.Model) -> None:
    """Return when the device has finished the steps given to it: fetch a number that they all change."""
    keras.ops.convert_to_numpy(model.optimizer.iterations)
    keras.ops.convert_to_numpy(model.trainable_variables[-1])


def compile_model(
    model: keras.Model,
    *,
    optimizer: str = "rmsprop",
    learning_rate: float = 1e-3,
    jit: bool = False,
    steps_per_execution: int = 1,
) -> None:
    """Compile for binary cross-entropy and AUC.

    Args:
        model: with one sigmoid output.
        optimizer: rmsprop (Voets et al. 2019) or adam.
        learning_rate: at the start; `train` reduces it on plateaus.
        jit: compile with XLA.
        steps_per_execution: steps per call of the device.
    """
    if optimizer not in OPTIMIZERS:
        raise ValueError(f"optimizer {optimizer!r}: choose from {', '.join(OPTIMIZERS)}")
    model.compile(
        optimizer=OPTIMIZERS[optimizer](learning_rate),
        loss="binary_crossentropy",
        metrics=[keras.metrics.AUC(num_thresholds=1000, name="auc")],
        jit_compile=jit,
        steps_per_execution=steps_per_execution,
    )


def train(
    model: keras.Model,
    batches: Batches,
    validation: Batches | None,
    out_dir: Path,
    *,
    epochs: int,
    tensorboard: bool = False,
    report: Callable[[int, int], None] | None = None,
) -> Timing:
    """Train, time, and leave the best model.

    Writes `history.csv`, `best.keras` (the epoch with the best AUC on the validation split, or without one the
    last) and, on request, `tensorboard/` to `out_dir`. The model keeps the weights of `best.keras`.

    Args:
        model: compiled by `compile_model`.
        batches: training batches.
        validation: batches of the validation split; None where there is none, as in the paper's 70/30.
        out_dir: folder for what the training leaves.
        epochs: passes over the training batches.
        tensorboard: write logs for TensorBoard (needs TensorFlow).
        report: called with (epochs done, epochs in all).

    Returns:
        The seconds.
    """
    out_dir.mkdir(parents=True, exist_ok=True)
    best = out_dir / "best.keras"
    timer = EpochTimer(report)
    callbacks = [
        keras.callbacks.LambdaCallback(on_epoch_begin=lambda epoch, logs: batches.start_epoch(epoch)),
        # before the logger, to which it adds the learning rate
        keras.callbacks.ReduceLROnPlateau(monitor="val_loss" if validation else "loss", factor=0.5, patience=5),
        keras.callbacks.CSVLogger(str(out_dir / "history.csv")),
    ]
    if validation:
        callbacks.append(keras.callbacks.ModelCheckpoint(str(best), "val_auc", mode="max", save_best_only=True))
    if tensorboard:
        callbacks.append(keras.callbacks.TensorBoard(str(out_dir / "tensorboard")))
    cpu = _cpu_s()
    start = time.monotonic()
    model.fit(
        batches,
        validation_data=validation,
        epochs=epochs,
        shuffle=False,  # Batches shuffles; Keras would shuffle the batches once more
        callbacks=[*callbacks, timer],
        verbose=0,
    )
    wait_for(model)
    train_s = time.monotonic() - start
    cpu_s = _cpu_s() - cpu
    if validation:
        model.set_weights(keras.models.load_model(best, compile=False).get_weights())
    else:
        model.save(best)
    return Timing(
        train_s=train_s,
        first_step_s=timer.first_step_s + timer.start - start,
        epoch_s=np.diff([start, *timer.epoch_ends]).tolist(),
        cpu_s=cpu_s,
    )


def _cpu_s() -> float:
    times = os.times()
    return times.user + times.system
