"""Measured comparisons of training: python -m tools.bench_training [--out CSV] [--paper-run]
[--clock BACKEND].

Images per second of notebook 10's modes, all in one process, in turns: MobileNet at 96 px on a CPU,
InceptionV3 at 299 px where there is a GPU. Mode plain is Keras's fit on a tf.data pipeline that
decodes the JPEGs in each epoch. On a GPU, batches of the speed goals follow, and with --paper-run
the paper's 200 epochs. --clock measures alone, of 20 fits, how far the clock of a training is from
the sum of its epochs, and how much later fit returns.
"""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from dr_lib import hardware
from dr_lib.data.prepared.folder import Photographs, Prepared
from dr_lib.data.prepared.sample import open_sample
from dr_lib.statistics.intervals import mean_interval
from dr_lib.training.config import TrainingConfig
from dr_lib.training.train_once import set_up
from tests.training.simulation import SIZE, draw_splits
from tools.bench import ROOT, compare_speeds, describe, find_origin
from tools.measured import insert, write_table

CPU = {"model": "mobilenet", "image_size": 96, "repeats": 10, "number": 224, "batches": ()}
GPU = {
    "model": "inception_v3",
    "image_size": 299,
    "repeats": 10,
    "number": 1000,
    "batches": (64, 256, 1024),
}
BATCH = 8
BACKEND = os.environ.get("KERAS_BACKEND", "auto")  # that `make gpu` sets
EPOCHS = 4  # epochs of a turn
# columns of the table, fields of an interval
SPEED = {"images_per_s": "value", "low": "low", "high": "high"}
TIMES = {"times_paper": "value", "times_low": "low", "times_high": "high"}


class Variant:
    """A way to train, and the images per second of each of its epochs."""

    def __init__(
        self,
        name: str,
        plan: hardware.Plan,
        batch_size: int,
        number: int,
        fit: Callable[[int], object],
    ):
        """`fit` trains for that many epochs of `number` images, full batches alone."""
        self.name = name
        self.plan = plan
        self.batch_size = batch_size
        self.fit = fit
        self.number = number // batch_size * batch_size
        self.images_per_s = []
        self.first_epoch_s = self.time(1)  # compiles, and enters no mean
        print(
            f"{name}, batch {batch_size}: first epoch {self.first_epoch_s:.1f} s",
            file=sys.stderr,
            flush=True,
        )

    def time(self, epochs: int) -> float:
        """Seconds of so many epochs."""
        start = time.perf_counter()
        self.fit(epochs)
        return time.perf_counter() - start

    def measure(self) -> None:
        """Time a turn of several epochs, with the checkpoints that fall due in them."""
        self.images_per_s.append(EPOCHS * self.number / self.time(EPOCHS))
        print(
            f"{self.name}, batch {self.batch_size}: {self.images_per_s[-1]:.4g} img/s",
            file=sys.stderr,
            flush=True,
        )

    @property
    def compile_s(self) -> float:
        """What the first epoch took longer than the others."""
        return self.first_epoch_s - self.number / float(np.median(self.images_per_s))


def build(
    mode: str,
    batch_size: int,
    setting: dict,
    split,
    *,
    frozen_input: bool = False,
    steps: int | None = None,
) -> Variant:
    """The notebooks' loop in a mode; with `frozen_input` every step is given the same batch,
    made once; with `steps` as many a call as `Plan.steps_per_execution` means.
    """
    config = TrainingConfig(
        data_dir="",
        mode=mode,
        model=setting["model"],
        image_size=setting["image_size"],
        batch_size=batch_size,
        optimizer="rmsprop",
        augmentation="colour",
        num_devices=1,
        seed=0,
        backend=BACKEND,
    )
    plan = config.plan(hardware.probe(), len(split.images))
    if steps is not None:
        plan = replace(plan, steps_per_execution=steps)
    setup = set_up(config, hardware.distribute(hardware.activate(plan)), {"train": split})
    folder = Path(tempfile.mkdtemp())
    import keras

    from dr_lib.training.callbacks import Checkpoint
    from dr_lib.training.checkpoint import CHECKPOINT
    from dr_lib.training.fit import train

    if frozen_input:
        made = setup.train_batches[0]
        if plan.backend != "tensorflow":
            made = tuple(map(keras.ops.convert_to_tensor, made))
        same_batch = type(
            "SameBatch", (type(setup.train_batches),), {"__getitem__": lambda self, index: made}
        )
        setup.train_batches.__class__ = same_batch

    def fit(epochs: int) -> dict[str, Any]:
        (folder / CHECKPOINT).unlink(missing_ok=True)
        setup.fed.model.optimizer.iterations.assign(0)  # else it is one that has been trained
        checkpoint = Checkpoint(folder, monitor="auc")
        return train(setup.fed.model, setup.train_batches, None, checkpoint, epochs=epochs)

    name = f"mode {mode}" + (", input made once" if frozen_input else "")
    return Variant(name, plan, batch_size, len(split.images), fit)


def measure_clock(backend: str, folder: Path, fits: int = 20, epochs: int = 5) -> None:
    """Print, of so many fits, the most that train_s is beside the sum of its epochs, and that
    fit returns after it.
    """
    config = TrainingConfig(
        data_dir="", backend=backend, image_size=SIZE, num_devices=1, epochs=epochs
    )
    splits = draw_splits(160)
    plan = config.plan(hardware.probe(), 160)
    setup = set_up(config, hardware.distribute(hardware.activate(plan)), splits)
    left = []
    late = []
    from dr_lib.training.callbacks import Checkpoint
    from dr_lib.training.fit import train

    for fit in range(fits):
        setup.fed.model.optimizer.iterations.assign(0)
        start = time.monotonic()
        batches = setup.train_batches, setup.validation_batches
        checkpoint = Checkpoint(folder / f"fit-{fit}", monitor="val_auc")
        times = train(setup.fed.model, *batches, checkpoint, epochs=epochs)
        late.append(time.monotonic() - start - times["train_s"])
        left.append(abs(times["train_s"] - sum(times["epoch_s"])))
    print(
        f"{backend}, {fits} fits of {epochs} epochs, the last of {times['train_s']:.1f} s: train_s"
        " minus its epochs at"
    )
    print(
        f"most {max(left):.4f} s; returned up to {max(late):.2f} s after it, in the median"
        f" {np.median(late):.2f} s"
    )


def take_photographs(data_dir: Path, image_size: int, number: int):
    """So many photographs of the training split, which begins anew where it ends."""
    # a plan activates Keras, which decides the backend; loading needs Keras
    request = hardware.Request(num_devices=1, batch_size=BATCH, backend=BACKEND)
    hardware.activate(hardware.choose(hardware.probe(), request))
    split = Prepared(data_dir).load("train", image_size)
    rows = np.arange(number) % len(split.images)
    return Photographs(*(column[rows] for column in split))


def compare(setting: dict, folder: Path) -> list[Variant]:
    """Build every variant that this machine can run, and measure them in turns."""
    data = open_sample(folder)
    number = setting["number"]
    take = partial(take_photographs, data, setting["image_size"])
    variants = [build(mode, BATCH, setting, take(number)) for mode in ("paper", "fast")]
    variants.append(build("paper", BATCH, setting, take(number), frozen_input=True))
    if "tensorflow" in hardware.probe().backends:
        stored = Prepared(data).load("train", setting["image_size"], stream=True)
        variants.append(build("plain", BATCH, setting, stored))
    for batch_size in setting["batches"]:
        variants.append(build("fast", batch_size, setting, take(max(number, batch_size))))
    for _ in range(setting["repeats"]):
        for variant in variants:
            variant.measure()
    return variants


def tabulate(variants: list[Variant], setting: dict) -> pd.DataFrame:
    """A row per variant: images per second and how many times as fast as mode paper, with 95 %
    intervals.
    """
    plan = variants[0].plan
    known = hardware.Device(plan, "", ()).describe(hardware.probe())
    versions = ", ".join(
        f"{name} {known[name]}" for name in ("keras", "tensorflow", "jax") if known[name]
    )
    origin = find_origin(has_gpu=plan.accelerator == "gpu")
    about = {"n": setting["repeats"], "hardware": origin.pop("hardware"), "versions": versions}
    lines = []
    for variant in variants:
        speed = mean_interval(variant.images_per_s)
        ratio = compare_speeds(variant.images_per_s, variants[0].images_per_s)
        line = {
            "what": variant.name,
            "model": setting["model"],
            "image_size": setting["image_size"],
            "batch_size": variant.batch_size,
            "backend": variant.plan.backend,
            "precision": variant.plan.precision,
            **{name: f"{getattr(speed, field):.4g}" for name, field in SPEED.items()},
            **{name: f"{getattr(ratio, field):.3g}" for name, field in TIMES.items()},
            "compile_s": f"{variant.compile_s:.1f}",
        }
        lines.append(line | about | origin)
    return pd.DataFrame(lines)


def render(measured: Path) -> str:
    """The table of the READMEs, from the CSV."""
    table = pd.read_csv(measured, dtype=str)
    ratio = table["times_paper"] + " [" + table["times_low"] + ", " + table["times_high"] + "]"
    shown = {
        "": table["what"],
        "model": table["model"] + ", " + table["image_size"] + " px",
        "batch": table["batch_size"],
        "precision": table["precision"],
        "images/s [95 %]": table["images_per_s"]
        + " ["
        + table["low"]
        + ", "
        + table["high"]
        + "]",
        "times mode paper [95 %]": ratio.mask(table["what"] == "mode paper", "1"),
        "n": table["n"],
    }
    origin = "{hardware}; {versions}; commit {commit}; {date}".format(**table.iloc[0])
    return f"{write_table(pd.DataFrame(shown))}\n\n{origin}"


def main() -> None:
    """Measure, print, and write the table where asked to."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, help="CSV to write; the READMEs then show it")
    parser.add_argument(
        "--paper-run", action="store_true", help="on a GPU: 200 epochs at 1,000 photographs"
    )
    parser.add_argument(
        "--clock", choices=["tensorflow", "jax"], help="measure that alone, on this backend"
    )
    given = parser.parse_args()
    if given.clock:
        with tempfile.TemporaryDirectory() as folder:
            return measure_clock(given.clock, Path(folder))
    setting = GPU if hardware.probe().gpus else CPU
    with tempfile.TemporaryDirectory() as folder:
        variants = compare(setting, Path(folder))
    table = tabulate(variants, setting)
    print(
        table.drop(
            columns=["model", "image_size", "hardware", "versions", "commit", "date"]
        ).to_string()
    )
    paper, frozen = (np.array(variants[k].images_per_s) for k in (0, 2))
    share = describe(1 - paper / frozen, "{:.2%}")
    print(f"share of a step spent on input, mode paper: {share}")
    if given.paper_run and setting is GPU:
        for variant in variants[:2]:
            print(
                f"200 epochs at {setting['number']} photographs, {variant.name}:"
                f" {variant.time(200) / 60:.2f} min"
            )
    if given.out:
        table.to_csv(given.out, index=False)
        for readme in (ROOT / "README.md", ROOT / "README.pt-BR.md"):
            insert(readme, "measured", render(given.out))


if __name__ == "__main__":
    main()
