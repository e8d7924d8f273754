"""Compile a network, train it, and predict; a killed training goes on."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

import keras
import numpy as np

from dr_lib.data.prepared.batches import Batches
from dr_lib.data.prepared.stream import StoredCrops
from dr_lib.training.callbacks import Checkpoint, Clock, Scores
from dr_lib.training.models import Ranks

LOSSES = {"referable": "binary_crossentropy", "grades": "sparse_categorical_crossentropy"}


class Optimizer(NamedTuple):
    """An optimizer of Keras and its schedule."""

    build: Callable[[float], keras.optimizers.Optimizer]  # takes the learning rate
    is_halved: bool = True  # the learning rate, after five epochs without a lower loss
    min_delta: float = 0.0  # smallest rise of the validation AUC that counts, with a patience


OPTIMIZERS = {
    "adam": Optimizer(keras.optimizers.Adam),
    "rmsprop": Optimizer(keras.optimizers.RMSprop),
    # of the code of Voets et al. 2019, which keeps 4e-5 of the mean squared gradient; epsilon is
    # that of TensorFlow 1
    "rmsprop_voets": Optimizer(
        partial(keras.optimizers.RMSprop, rho=4e-5, epsilon=1e-10),
        is_halved=False,
        min_delta=0.01,
    ),
}


def compile_model(
    model: keras.Model,
    *,
    optimizer: str = "rmsprop",
    learning_rate: float = 1e-3,
    task: str = "referable",
    capacity: int = 1000,
    jit: bool = False,
    steps_per_execution: int = 1,
) -> None:
    """Compile in the scope of the device, with the exact AUC as metric.

    What has a name of `TrainingConfig` or `Plan` means the same; `capacity` is of `models.Ranks`.
    """
    model.compile(
        optimizer=OPTIMIZERS[optimizer].build(learning_rate),
        loss=LOSSES[task],
        weighted_metrics=[Ranks(capacity)],
        jit_compile=jit,
        steps_per_execution=steps_per_execution,
    )
    model.optimizer.build(model.trainable_variables)


def make_schedule(
    optimizer: str, patience: int, has_validation: bool
) -> list[keras.callbacks.Callback]:
    """Make the callbacks of Keras that change the learning rate and end a training early.

    Args:
        optimizer: of OPTIMIZERS.
        patience: epochs without a better validation AUC until training stops; 0 for none.
        has_validation: whether there is a validation split; else the training loss counts.
    """
    schedule = OPTIMIZERS[optimizer]
    callbacks = []
    if schedule.is_halved:
        monitor = "val_loss" if has_validation else "loss"
        callbacks.append(
            keras.callbacks.ReduceLROnPlateau(monitor=monitor, factor=0.5, patience=5)
        )
    if patience:
        callbacks.append(
            keras.callbacks.EarlyStopping(
                monitor="val_auc", mode="max", patience=patience, min_delta=schedule.min_delta
            )
        )
    return callbacks


def train(
    model: keras.Model,
    train_batches: Batches,
    validation_batches: Batches | None,
    checkpoint: Checkpoint,
    *,
    epochs: int,
) -> dict[str, Any]:
    """Train, time, and give the model its best weights; call it in the scope of the device.

    Where a checkpoint lies in its folder, the training goes on from it and ends as if it had never
    been killed, to the bit where the device adds in a fixed order.

    Args:
        model: compiled by `compile_model`.
        train_batches: shuffled, full batches.
        validation_batches: of the validation split; None without one, as in the paper's 70/30.
        checkpoint: a new one; the callbacks that it counts for are used.
        epochs: in all, those before a restart too.

    Returns:
        The columns of a row, see `Clock.stop` and `Checkpoint.finish`.

    Raises:
        OutOfTimeError: the time was up before the last epoch.
        ShardError: a shard cannot be read any more.
        DrError: the checkpoint is damaged, or of another training.
    """
    clock = Clock(train_batches)
    shuffle = keras.callbacks.LambdaCallback(
        on_epoch_begin=lambda epoch, logs: train_batches.start_epoch(epoch)
    )
    num_done = checkpoint.resume(model, epochs)
    with raise_own_error(train_batches, validation_batches):
        clock.start()
        model.fit(
            train_batches.feed(),
            validation_data=validation_batches and validation_batches.feed(),
            initial_epoch=num_done,
            epochs=epochs,
            shuffle=False,  # Batches shuffles; Keras would shuffle the batches once more
            callbacks=[clock, shuffle, Scores(), *checkpoint.counting, checkpoint],
            verbose=0,
        )
        times = clock.stop()
    return {**times, **checkpoint.finish(epochs)}


def predict(
    model: keras.Model,
    inputs: np.ndarray | StoredCrops,
    batch_size: int,
    *,
    is_mirrored: bool = False,
    average_mirrored: bool = False,
) -> np.ndarray:
    """Predict any number of inputs, (n, ...), in full batches that the replicas can share.

    With `average_mirrored` each prediction is the mean with that of the mirror image.
    """
    if average_mirrored:
        mirrored = predict(model, inputs, batch_size, is_mirrored=True)
        return (predict(model, inputs, batch_size) + mirrored) / 2
    zeros = np.zeros(len(inputs), np.float32)
    batches = Batches(inputs, zeros, batch_size, is_mirrored=is_mirrored)
    model.steps_per_execution = (
        1  # a loop of steps is compiled for seconds, and serves this once
    )
    with raise_own_error(batches):
        return model.predict(batches, verbose=0)[: len(inputs)]


@contextmanager
def raise_own_error(*feeds: Batches | None) -> Iterator[None]:
    """Raise the error of a feed instead of TensorFlow's long report about it."""
    try:
        yield
    except Exception as error:
        own_errors = [feed.find_error() for feed in feeds if feed]
        raise next(filter(None, own_errors), error) from None
