"""What a GPU is asked, in order of value: python -m tools.bench_gpu [STEP ...] [--out CSV] [--dry].

Each step is a process that is ended after eight minutes. Each figure is appended to the CSV when it
is measured; started again, a step measures what the CSV lacks. `--dry` asks a CPU the same in
small, to see that it runs: its figures say nothing.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

os.environ.setdefault("KERAS_BACKEND", "jax")

import numpy as np
import pandas as pd

from dr_lib import hardware
from dr_lib.data.prepared.sample import open_sample
from dr_lib.errors import DrError
from dr_lib.files import read_yaml, write_json
from dr_lib.runs.row import read_row, row_path
from dr_lib.runs.study import PlannedRun, load_study, name_machine, plan_runs
from dr_lib.statistics.intervals import Interval, mean_interval
from tools.bench import ROOT, compare_speeds, find_origin
from tools.measured import name_warmth

STEP_S = 480  # a lent machine may be taken away soon
# a study's parameters where a CPU is asked in small
SMALL = {"model": "small_cnn", "image_size": 32, "epochs": 2, "accelerator": "cpu"}
# after 50 epochs of the program that the CUDA paper most likely ran, by its own README
PAPER_ACCURACY = 0.9722
TURNS = 7
# what XLA compiles is kept for the next step, whose figures leave out the first epoch
KEPT = ("JAX_COMPILATION_CACHE_DIR", "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS")


class Setting(NamedTuple):
    """Where the figures go, and whether a CPU is asked in small."""

    out: Path
    mnist: str
    is_dry: bool

    @property
    def accelerator(self) -> str:
        """What is asked."""
        return "cpu" if self.is_dry else "gpu"


Figures = dict[str, Interval]  # by quantity and unit
Measures = Iterator[tuple[str, Callable[[], Figures]]]  # what is measured, and how


def single(value: float) -> Interval:
    """A value that was measured once."""
    return Interval(value, np.nan, np.nan, 1)


def list_runs(name: str, setting: Setting) -> Measures:
    """The runs of a study with notebook 10, one at a time."""
    path = ROOT / "papermill_runs" / f"{name}.yaml"
    if setting.is_dry:
        study = read_yaml(path)
        study["parameters"].update(SMALL)
        study["repetitions"] = 1
        path = setting.out.with_name(path.name)
        write_json(path, study)  # which is YAML, too
    for run in plan_runs(load_study(path, ROOT), name_machine(hardware.probe())):
        mode = run.parameters["mode"]
        what = f"mode {mode}, batch {run.parameters['batch_size']}, repetition {run.repetition}"
        yield what, partial(train, path, run)


def train(path: Path, run: PlannedRun) -> Figures:
    """Make a run of a study, compiled by itself as anybody's; its speed, time, AUC and energy."""
    command = [sys.executable, "-m", "dr_lib", "run", str(path), "--only", run.name]
    env = {name: value for name, value in os.environ.items() if name not in KEPT}
    ran = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True)
    row_file = row_path(path.with_suffix(""), run.run_id)
    if not row_file.exists():
        raise DrError(ran.stderr)
    row = read_row(row_file)
    if row["status"] != "ok":
        raise DrError(f"{run.name}: {row['error']}")
    print(f"{run.name}: {row['matmul_precision']} (Dense), {row['conv_precision']} (Conv2D)")
    figures = {
        "images per second": single(row["images_per_s"]),
        f"training, {name_warmth(row)} [s]": single(row["train_s"]),
        "AUC": single(row["metric_auc_test"]),
    }
    if row.get("gpu_energy_j"):
        num_images = row["num_images_train"] * len(row["epoch_s"])
        figures[f"energy an image, {name_warmth(row)} [J]"] = single(
            row["gpu_energy_j"] / num_images
        )
    return figures


def list_programs(setting: Setting) -> Measures:
    """The first paper's network and batch, an epoch in one program, beside mode paper and beside
    one step a program.
    """
    model, size, number = (
        ("small_cnn", 32, 64) if setting.is_dry else ("inception_v3", 299, 512)
    )
    asked = {"model": model, "image_size": size}
    yield f"{model}, {size} px, batch 8", partial(compare_programs, asked, number)


def compare_programs(asked: dict, number: int) -> Figures:
    """Images per second of the steps alone, as a run's row has them, over turns of four epochs
    whose first is left out; seconds that the first call compiles.
    """
    from tools.bench_training import build, take_photographs

    data_dir = open_sample(ROOT / "papermill_runs" / "sample")
    photographs = take_photographs(data_dir, asked["image_size"], number)
    ways = {"mode paper": ("paper", 1), "a step": ("fast", 16), "an epoch": ("fast", 0)}
    variants = {
        name: build(mode, 8, asked, photographs, steps=steps)
        for name, (mode, steps) in ways.items()
    }
    speeds: dict[str, list[float]] = {name: [] for name in variants}
    for _ in range(4):
        for name, variant in variants.items():
            timing = variant.fit(4)
            speeds[name] += [variant.number / seconds for seconds in timing.training_s[1:]]
            variant.images_per_s = speeds[name]
    figures = {}
    for name, values in speeds.items():
        figures[f"{name}: images per second"] = mean_interval(values)
        figures[f"{name}: compiling [s]"] = single(variants[name].compile_s)
        if name != "mode paper":
            ratio = compare_speeds(values, speeds["mode paper"])
            figures[f"{name}: times mode paper"] = ratio
    return figures


def list_cuda(setting: Setting) -> Measures:
    """The CUDA network: 40 epochs at batch 1, and minibatch to the paper's accuracy."""
    from dr_lib.data.small_images import load_mnist
    from dr_lib.mnist import cuda as mnist
    from dr_lib.mnist.build import build

    library = build(setting.accelerator)
    share = 60 if setting.is_dry else 1
    epochs = 1 if setting.is_dry else 40
    data = [array[::share] for array in load_mnist(setting.mnist)]

    def launch(images: list[np.ndarray], **asked: Any) -> pd.DataFrame:
        """Train after a short launch, which loads the kernel and is cold."""
        mnist.train(library, *(array[:64] for array in images), **asked | {"epochs": 1})
        return mnist.train(library, *images, **asked)

    def train_fused() -> Figures:
        last = launch(data, epochs=epochs).iloc[-1]
        return {
            "training [s]": single(last["train_s"]),
            "accuracy": single(last["test_accuracy"]),
        }

    def train_minibatch() -> Figures:
        table = launch(data, implementation="minibatch", batch_size=64, epochs=10)
        reached = table.loc[table["test_accuracy"] >= PAPER_ACCURACY, "train_s"]
        return {f"to {PAPER_ACCURACY:.2%} [s]": single(reached.min())}

    def train_paper() -> Figures:
        few = [array[:6_000] for array in data]
        table = launch(few, implementation="paper", epochs=1)
        return {"an image [us]": single(1e6 * table["train_s"].iloc[0] / len(few[0]))}

    yield "fused, batch 1", train_fused
    yield "minibatch, batch 64", train_minibatch
    if library.kind == "gpu":
        yield "paper, batch 1", train_paper


def list_networks(setting: Setting) -> Measures:
    """The networks of the serving paper at 224 px, in modes paper and fast."""
    for model in ("small_cnn",) if setting.is_dry else ("mobilenet", "vgg19"):
        for mode in ("paper", "fast"):
            number = 16 if setting.is_dry else 512
            what = f"{model}, 224 px, batch 8, mode {mode}"
            yield what, partial(measure_network, model, mode, number)


def measure_network(model: str, mode: str, number: int) -> Figures:
    """Images per second of training, over turns of four epochs."""
    from tools.bench_training import build, take_photographs

    data_dir = open_sample(ROOT / "papermill_runs" / "sample")
    setting = {"model": model, "image_size": 224}
    variant = build(mode, 8, setting, take_photographs(data_dir, 224, number))
    for _ in range(TURNS):
        variant.measure()
    return {"images per second": mean_interval(variant.images_per_s)}


def list_resumes(setting: Setting) -> Measures:
    """A training that is killed and goes on."""
    for mode in ("fast", "paper"):
        yield f"small_cnn, mode {mode}", partial(compare_resumed, mode, setting)


def compare_resumed(mode: str, setting: Setting) -> Figures:
    """How far history and weights are from those of a training that nobody killed."""
    from tests.training import simulation

    folder = setting.out.with_name(f"resumed-{mode}")
    config = {"backend": "jax", "mode": mode, "accelerator": setting.accelerator}
    config |= {"augmentation": "colour", "epochs": 12, "model": simulation.DROPPING}
    asked = {"config": config, "number": 57}
    simulation.run("kill", folder, arguments=asked, kills=2, window_s=0.5, seed=1)
    kills = json.loads((folder / "kills.json").read_text())["kills"]
    whole = folder / "straight"
    distances: dict[str, list[float]] = {"losses": [], "weights": []}
    for resumed in sorted(folder.glob("training-*")):
        histories = [pd.read_csv(path / "history.csv")["loss"] for path in (resumed, whole)]
        distances["losses"].append(float(abs(histories[0] - histories[1]).max()))
        arrays = [simulation.read_arrays(path / "checkpoint.npz") for path in (resumed, whole)]
        distances["weights"].append(
            max(float(abs(arrays[0][name] - arrays[1][name]).max()) for name in arrays[0])
        )
    return {
        f"most that {name} differ, {kills} kills": single(max(found))
        for name, found in distances.items()
    }


STEPS: dict[str, Callable[[Setting], Measures]] = {
    "modes": partial(list_runs, "gpu_modes"),
    "programs": list_programs,
    "batches": partial(list_runs, "gpu_batches"),
    "networks": list_networks,
    "resume": list_resumes,
    "cuda": list_cuda,
}


def measure_step(name: str, setting: Setting) -> bool:
    """Measure what the CSV lacks of a step; say which run failed, and go on with the others."""
    out = setting.out
    done = set()
    is_whole = True
    if out.exists():
        table = pd.read_csv(out, dtype=str)
        done = set(zip(table["step"], table["what"], strict=True))
    for what, measure in STEPS[name](setting):
        if (name, what) in done:
            continue
        try:
            figures = measure()
        except DrError as error:
            print(error, file=sys.stderr)
            is_whole = False
            continue
        table = pd.DataFrame(
            {
                "step": name,
                "what": what,
                "quantity": quantity,
                "value": interval.value,
                "low": interval.low,
                "high": interval.high,
                "n": interval.n,
                **find_origin(has_gpu=not setting.is_dry),
            }
            for quantity, interval in figures.items()
        )
        text = table.to_csv(index=False, header=not out.exists(), float_format="%.5g")
        with out.open("a", encoding="utf-8") as file:  # all figures of a measure at once
            file.write(text)
        print(table[["what", "quantity", "value", "low", "high", "n"]].to_string(header=False))
    return is_whole


def run_step(name: str, setting: Setting) -> bool:
    """Measure a step in a process of its own, ended with its children after eight minutes."""
    command = [sys.executable, "-m", "tools.bench_gpu", name, "--inside"]
    command += ["--out", str(setting.out)]
    command += ["--mnist", setting.mnist, *["--dry"] * setting.is_dry]
    kept = dict(zip(KEPT, [str(setting.out.with_name("xla")), "0"], strict=True))
    process = subprocess.Popen(command, cwd=ROOT, env=os.environ | kept, start_new_session=True)
    try:
        if process.wait(STEP_S):
            print(f"{name}: failed; start again to go on", flush=True)
    except subprocess.TimeoutExpired:
        print(f"{name}: ended after {STEP_S / 60:.0f} min; start again to go on", flush=True)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    return process.returncode == 0


def main() -> None:
    """Measure the steps that are named, or all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("steps", nargs="*", metavar="STEP", help=", ".join(STEPS))
    parser.add_argument("--out", type=Path, default=ROOT / "papermill_runs" / "gpu" / "gpu.csv")
    parser.add_argument("--mnist", default="keras", help="path of an mnist.npz, or synthetic")
    parser.add_argument("--dry", action="store_true", help="ask the CPU, in small")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if unknown := set(given.steps) - set(STEPS):
        parser.error(f"no step {', '.join(sorted(unknown))}: there are {', '.join(STEPS)}")
    given.out.parent.mkdir(parents=True, exist_ok=True)
    setting = Setting(given.out.resolve(), given.mnist, given.dry)
    if given.inside:
        sys.exit(0 if measure_step(given.steps[0], setting) else 1)
    if not (given.dry or hardware.probe().gpus):
        sys.exit("no GPU is here: --dry asks the CPU, in small")
    finished = [run_step(name, setting) for name in given.steps or STEPS]
    sys.exit(0 if all(finished) else 1)


if __name__ == "__main__":
    main()
