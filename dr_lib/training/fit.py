"""Train a model and time it: the device has finished before the clock stops; killed runs resume."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

import keras
import numpy as np

from dr_lib.data.prepared.batches import Batches, Mirrored
from dr_lib.data.prepared.stream import StoredCrops
from dr_lib.errors import DrError
from dr_lib.training.checkpoint import assign_variables
from dr_lib.training.models import Ranks
from dr_lib.training.recorder import Recorder


class OutOfTimeError(DrError):
    """The time limit was reached; training was saved and resumes when it is started again."""


class Timing(NamedTuple):
    """Seconds of one training run on a monotonic clock; for a resumed run, of this process only."""

    # from the call of fit to the end of the last epoch, of the device's work and the callbacks in
    # it
    train_s: float
    # inside it: from the call to the end of the first call of the device, so with the compilation
    first_step_s: float
    # inside it: each epoch with its validation and checkpoint; the first from the call
    epoch_s: list[float]
    training_s: list[float]  # inside each of these: its training steps alone
    cpu_s: float  # CPU seconds of this process, over all cores
    parts: dict[str, float]  # of train_s: the columns compile_s to callbacks_s of a row
    epochs_done: int  # of the whole training, which may have stopped early
    resumed: int  # how often the training went on from a checkpoint

    def describe(self) -> dict[str, Any]:
        """Describe the times in columns of a run's row."""
        columns = self._asdict()
        return {**columns.pop("parts"), **columns, "steady_epoch_s": self.steady_epoch_s}

    @property
    def steady_epoch_s(self) -> float:
        """Median of the epochs from the second on; NaN after one epoch."""
        return _find_median(self.epoch_s[1:])

    @property
    def steady_training_s(self) -> float:
        """Median of the training steps of the epochs from the second on."""
        return _find_median(self.training_s[1:])


def _find_median(seconds: Sequence[float]) -> float:
    return float(np.median(seconds)) if seconds else float("nan")


def compile_model(
    model: keras.Model,
    *,
    optimizer: str = "rmsprop",
    learning_rate: float = 1e-3,
    rho: float = 0.9,
    epsilon: float = 1e-7,
    loss: str | Callable = "binary_crossentropy",
    capacity: int = 1000,
    jit: bool = False,
    steps_per_execution: int = 1,
) -> None:
    """Compile in the scope of the device; `train` finds the best epoch by the metric named auc.

    What has a name of `TrainingConfig` or `Plan` means the same; `capacity` is of `models.Ranks`.
    By default the model has one sigmoid output.
    """
    build = {"rmsprop": keras.optimizers.RMSprop, "adam": keras.optimizers.Adam}[optimizer]
    if optimizer == "rmsprop":
        build = partial(build, rho=rho)
    model.compile(
        optimizer=build(learning_rate, epsilon=epsilon),
        loss=loss,
        weighted_metrics=[Ranks(capacity)],
        jit_compile=jit,
        steps_per_execution=steps_per_execution,
    )
    model.optimizer.build(model.trainable_variables)


def train(
    model: keras.Model,
    train_batches: Batches,
    validation_batches: Batches | None,
    recorder: Recorder,
    *,
    epochs: int,
    keep_best: bool = False,
    halve_on_plateau: bool = True,
    patience: int = 0,
    min_delta: float = 0.0,
) -> Timing:
    """Train, time, and give the model its best weights; call it in the scope of the device.

    The best epoch is that with the best AUC on the validation split, or without one the last (but
    see `keep_best`). Where the recorder finds a `fault` the training ends early, with the best
    epoch before it. Writes `history.csv` and `checkpoint.npz` to the recorder's folder. Where a
    checkpoint lies there, the training goes on from it and ends as if it had never been killed, to
    the bit where the device adds in a fixed order.

    Args:
        model: compiled by `compile_model`.
        train_batches: shuffled, full batches.
        validation_batches: of the validation split; None without one, as in the paper's 70/30.
        recorder: a new one, with the folder for what the training leaves.
        epochs: in all, those before a restart too.
        keep_best: without validation batches, keep the epoch of the best AUC in training.
        halve_on_plateau: halve the learning rate after five epochs without a lower loss.
        patience, min_delta: see `has_stalled`; patience needs validation batches.

    Raises:
        OutOfTimeError: the time was up before the last epoch.
        ShardError: a shard cannot be read any more.
        DrError: the checkpoint is damaged, or of another training.
    """
    recorder.out_dir.mkdir(parents=True, exist_ok=True)
    monitor = "val_loss" if validation_batches else "loss"
    recorder.plateau = keras.callbacks.ReduceLROnPlateau(
        monitor=monitor, factor=0.5, patience=5 if halve_on_plateau else epochs
    )
    recorder.monitor = "val_auc" if validation_batches else "auc" if keep_best else ""
    recorder.patience = patience
    recorder.min_delta = min_delta
    recorder.ready_s = train_batches.ready_s
    recorder.resume(model)

    begins = keras.callbacks.LambdaCallback(
        on_epoch_begin=lambda epoch, logs: train_batches.start_epoch(epoch)
    )
    recorder.begin()
    if not recorder.is_done(epochs):
        with _raise_own_error(train_batches, validation_batches):
            model.fit(
                train_batches.feed(),
                validation_data=validation_batches and validation_batches.feed(),
                initial_epoch=len(recorder.history),
                epochs=epochs,
                shuffle=False,  # Batches shuffles; Keras would shuffle the batches once more
                callbacks=[begins, recorder.plateau, recorder],
                verbose=0,
            )
    if not recorder.is_done(epochs) and not recorder.fault:
        done = f"saved after epoch {len(recorder.history)} of {epochs}"
        raise OutOfTimeError(
            f"the time limit is reached, {done}: run it again with the same parameters to "
            "resume"
        )
    if recorder.best_variables:
        assign_variables(model, {"model": recorder.best_variables})
    return _read_times(recorder)


def _read_times(recorder: Recorder) -> Timing:
    return Timing(
        train_s=recorder.ended - recorder.start,
        first_step_s=recorder.calls.first_s,
        epoch_s=recorder.epoch_s,
        training_s=recorder.training_s,
        cpu_s=recorder.cpu_s,
        parts=recorder.divide(),
        epochs_done=len(recorder.history),
        resumed=len(recorder.sessions) - 1,
    )


def predict(
    model: keras.Model,
    inputs: np.ndarray | StoredCrops | Mirrored,
    batch_size: int,
    *,
    average_mirrored: bool = False,
) -> np.ndarray:
    """Predict any number of inputs, (n, ...), in full batches that the replicas can share.

    With `average_mirrored` each prediction is the mean with that of the mirror image.
    """
    if average_mirrored:
        mirrored = predict(model, Mirrored(inputs), batch_size)
        return (predict(model, inputs, batch_size) + mirrored) / 2
    batches = Batches(inputs, np.zeros(len(inputs), np.float32), batch_size)
    model.steps_per_execution = (
        1  # a loop of steps is compiled for seconds, and serves this once
    )
    with _raise_own_error(batches):
        return model.predict(batches, verbose=0)[: len(inputs)]


@contextmanager
def _raise_own_error(*feeds: Batches | None) -> Iterator[None]:
    """Raise the error of a feed instead of TensorFlow's long report about it."""
    try:
        yield
    except Exception as error:
        own_errors = [feed.find_error() for feed in feeds if feed]
        raise next(filter(None, own_errors), error) from None
