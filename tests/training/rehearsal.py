"""Trainings in small, in a process of their own: python -m tests.training.rehearsal train|kill FOLDER JSON."""

import json
import os
import random
import signal
import sys
import time
from pathlib import Path

import numpy as np

from dr_lib import hardware


def draw(number: int, size: int = 32) -> tuple[np.ndarray, np.ndarray]:
    """Noisy pictures whose upper half is brighter where the label is 1."""
    rng = np.random.default_rng(0)
    labels = (np.arange(number) % 2).astype(np.float32)
    images = rng.integers(60, 180, (number, size, size, 3))
    images[:, : size // 2] += (labels * 12).astype(int)[:, None, None, None]
    return images.astype(np.uint8), labels


def build_normalised(synchronised: bool):
    """Two convolutions with batch normalisation, as keras.applications has them: no bias before it."""
    import keras
    from keras import layers

    from dr_lib.training import models

    inputs = keras.Input((32, 32, 3))
    x = inputs
    for filters in (8, 16):
        x = layers.Conv2D(filters, 3, strides=2, padding="same", use_bias=False)(x)
        x = layers.ReLU()(layers.BatchNormalization(synchronized=synchronised)(x))
    base = keras.Model(inputs, x, name="base")
    pixels = keras.Input((32, 32, 3), dtype="uint8")
    pooled = layers.GlobalAveragePooling2D()(base(models.Augment("none")(pixels)))
    return keras.Model(pixels, layers.Dense(1, activation="sigmoid", dtype="float32")(pooled))


def train(folder: Path, wishes: dict, *, network: str, number: int, batch_size: int, epochs: int, **how) -> None:
    """One training as notebook 10 makes it; leaves the history, best.keras, result.json and weights.npz."""
    facts = hardware.probe()
    plan = hardware.choose(facts, accelerator="cpu", batch_size=batch_size, **wishes)
    device = hardware.activate(plan)
    import keras

    from dr_lib.data.shards.batches import Batches
    from dr_lib.training import fit, models, resident

    images, labels = draw(number)
    held = slice(0, number // 2 + 1)
    keras.utils.set_random_seed(3)
    with device.scope():
        if network == "normalised":
            net = build_normalised(device.synchronised)
        else:
            net = models.build_model(network, 32, augmentation="colour", dropout=0.3, seed=3)
        model, inputs = net, {"train": images, "validation": images[held]}
        if plan.on_device:
            model, inputs = resident.keep_on_device(net, inputs)
        fit.compile_model(model, optimizer="adam", learning_rate=0.003, **device.compile_arguments)
        fed = Batches(inputs["train"], labels, batch_size, shuffle_seed=5)
        held_out = Batches(inputs["validation"], labels[held], batch_size)
        timing = fit.train(model, fed, held_out, folder, epochs=epochs, **how)
        models.save_model(net, folder / "best.keras")
        kept = keras.metrics.AUC(num_thresholds=1000)
        loaded = keras.models.load_model(folder / "best.keras")
        kept.update_state(labels[held], fit.predict(loaded, images[held], batch_size)[:, 0])
    result = {
        **device.describe(facts),
        "iterations": int(keras.ops.convert_to_numpy(model.optimizer.iterations)),
        "steps": len(fed),
        "num_left_out": fed.num_left_out,
        "kept_auc": float(kept.result()),
        "resumed": timing.resumed,
        "imported": sorted({"tensorflow", "cv2"} & set(sys.modules)),
    }
    (folder / "result.json").write_text(json.dumps(result))
    np.savez(folder / "weights.npz", *net.get_weights())


def fork(folder: Path, arguments: dict) -> int:
    """Start the training in a child of this process, which has imported the backend and used nothing of it."""
    child = os.fork()
    if child == 0:
        folder.mkdir(parents=True, exist_ok=True)
        status = 1
        try:
            train(folder, **arguments)
            status = 0
        finally:
            os._exit(status)
    return child


def kill_at_random(folder: Path, arguments: dict, *, kills: int, window_s: tuple[float, float], seed: int) -> None:
    """Kill trainings at random moments, and inside the writing of a checkpoint, until there were enough of both.

    Each life is as long as chance has it; a training that ends is kept, and the next one begins.
    """
    os.environ["KERAS_BACKEND"] = arguments["wishes"]["backend"]
    import keras  # noqa: F401, the children find it imported

    chance, done, inside, trainings = random.Random(seed), 0, 0, 0
    while done < kills or inside < 3:
        here = folder / f"training-{trainings}"
        unfinished = here / "checkpoint.npz.tmp"
        unfinished.unlink(missing_ok=True)
        child, aims_inside = fork(here, arguments), chance.random() < 0.4
        end = time.monotonic() + chance.uniform(*window_s)
        while os.waitpid(child, os.WNOHANG) == (0, 0):
            if unfinished.exists() if aims_inside else time.monotonic() > end:
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
                done, inside = done + 1, inside + unfinished.exists()
                break
            time.sleep(0.0002)
        else:
            trainings += 1
    os.waitpid(fork(folder / f"training-{trainings}", arguments), 0)
    (folder / "kills.json").write_text(json.dumps({"kills": done, "inside": inside}))


if __name__ == "__main__":
    what, where, given = sys.argv[1], Path(sys.argv[2]), json.loads(sys.argv[3])
    where.mkdir(parents=True, exist_ok=True)
    {"train": train, "kill": kill_at_random}[what](where, **given)
