"""Measured comparisons of runtimes, each against the SavedModel's signature: python
tools/bench_runtimes.py.

MobileNet and VGG19 at 224 px with random weights, one photograph a call, one thread each, in turns,
by the CPU time of this process.
[--rounds 15] [--models mobilenet vgg19]
"""

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import keras

from dr_lib.hardware.facts import probe
from dr_lib.rooms.serving.export.convert import FORMATS, convert
from dr_lib.rooms.serving.export.runtimes import RUNTIMES, pin_tensorflow
from dr_lib.rooms.serving.export.timing import compare_latency, pair_latency
from dr_lib.training.models import build_model
from tests.rooms.serving.stand_in import draw_crops

REFERENCE = "savedmodel"
GOALS = {  # times as fast as the reference; that of VGG19 where the processor has VNNI or AMX
    ("mobilenet", "litert_int8"): 4.0,
    ("mobilenet", "litert_float32"): 1.4,
    ("vgg19", "litert_int8"): 10.0,
}


def build(model: str, folder: Path) -> dict[str, Path]:
    """Convert a network to every format; the path for each runtime."""
    network = build_model(model, 224, task="grades")
    crops = draw_crops(8, side=224)
    made = {"keras": folder / "model.keras"}
    network.save(made["keras"])
    for name in FORMATS:
        made[name] = folder / name
        convert(network, name, made[name], calibration=crops)
    return {name: made[needed] for name, needed in RUNTIMES.items()}


def main() -> None:
    """Print each runtime's median in ms, and how many times as fast as the reference it is:
    median and quartiles.
    """
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--models", nargs="+", default=["mobilenet", "vgg19"])
    arguments = parser.parse_args()
    pin_tensorflow(1)
    keras.utils.set_random_seed(0)
    print(f"{probe().cpu}: one thread, n = {arguments.rounds} rounds")
    for model in arguments.models:
        with tempfile.TemporaryDirectory() as folder:
            times = compare_latency(
                build(model, Path(folder)),
                draw_crops(1, side=224)[0],
                num_rounds=arguments.rounds,
                clock=time.process_time,
            )
        for pair in pair_latency(times, REFERENCE).itertuples():
            goal = GOALS.get((model, pair.Index))
            print(
                f"{model} {pair.Index}: {pair.ms:.2f} ms, {pair.speedup:.2f} x as fast as"
                f" {REFERENCE} [{pair.speedup_low:.2f}, {pair.speedup_high:.2f}]"
                + (f", goal {goal:g}" if goal else "")
            )
        for precision in ("float32", "int8"):
            alike = times[times["runtime"].str.endswith(precision)]
            rivals = alike[~alike["runtime"].str.startswith("litert")]
            best = rivals.groupby("runtime")["ms"].median().idxmin()
            pair = pair_latency(alike, best).loc[f"litert_{precision}"]
            print(
                f"{model} litert_{precision} takes {1 / pair.speedup:.2f} times as long as {best}"
                f" [{1 / pair.speedup_high:.2f}, {1 / pair.speedup_low:.2f}], goal 1.1"
            )


if __name__ == "__main__":
    main()
