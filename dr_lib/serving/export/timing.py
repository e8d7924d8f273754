"""Time predictions: runtime against runtime, one instruction set against another, layer by layer."""

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from dr_lib.serving.export.runtimes import Predict, compile_openvino, find_artifact, open_runtime

if TYPE_CHECKING:
    import keras

# levels of oneDNN, inside OpenVINO and TensorFlow: what a processor needs for each, as Linux names it
LEVELS = {
    "AVX2": {"avx2", "fma"},
    "AVX2_VNNI": {"avx_vnni"},
    "AVX512_CORE": {"avx512f", "avx512bw", "avx512dq", "avx512vl"},
    "AVX512_CORE_VNNI": {"avx512_vnni"},
    "AVX512_CORE_BF16": {"avx512_bf16"},
    "AVX512_CORE_AMX": {"amx_int8", "amx_bf16"},
}
ROOT = Path(__file__).resolve().parents[3]
CPUINFO = Path("/proc/cpuinfo")


class TimingError(ValueError):
    """Nothing can be measured so; the message says what to give."""


def time_runtime(predict: Predict, image: np.ndarray, *, num_calls: int = 100, warmup: int = 10) -> np.ndarray:
    """Time single predictions.

    Args:
        predict: from `open_runtime`.
        image: (side, side, 3) uint8.
        num_calls: that are timed.
        warmup: calls before them; the first one compiles, allocates and fills the caches.

    Returns:
        (num_calls,) milliseconds.
    """
    photographs, times = image[None], np.empty(num_calls)
    for call in range(-warmup, num_calls):
        start = time.perf_counter()
        predict(photographs)
        if call >= 0:
            times[call] = 1000 * (time.perf_counter() - start)
    return times


def compare_runtimes(
    paths: Mapping[str, Path],
    image: np.ndarray,
    *,
    num_rounds: int = 15,
    num_calls: int = 5,
    num_threads: int = 1,
    seed: int = 0,
) -> pd.DataFrame:
    """Time runtimes in turns, so that what disturbs the machine disturbs all of them.

    TensorFlow has to be unused in this process, or pinned to `num_threads` (`pin_tensorflow`).

    Args:
        paths: of the artifact or model folder of each runtime, by its name in RUNTIMES.
        image: (side, side, 3) uint8.
        num_rounds: turns; the order within each is drawn anew.
        num_calls: of a turn, after one that brings the weights back into the caches.
        num_threads: of one prediction, for every runtime.
        seed: of the orders.

    Returns:
        One row per runtime and round: runtime, round, ms (median of the turn's calls).

    Raises:
        RuntimeOpeningError: a runtime cannot be opened.
    """
    opened = {name: open_runtime(name, path, num_threads=num_threads) for name, path in paths.items()}
    for predict in opened.values():
        time_runtime(predict, image, num_calls=1, warmup=3)
    rng, rows = np.random.default_rng(seed), []
    for turn in range(num_rounds):
        for name in rng.permutation(list(opened)):
            ms = np.median(time_runtime(opened[name], image, num_calls=num_calls, warmup=1))
            rows.append({"runtime": str(name), "round": turn, "ms": float(ms)})
    return pd.DataFrame(rows)


def pair_runtimes(times: pd.DataFrame, runtime: str, peer: str) -> dict[str, Any]:
    """Hold a runtime against another, round by round.

    With keras_predict against savedmodel, difference_ms is what `model.predict` adds to the layers that both run, and
    1 - ratio of the reverse pair the share of its time that lies outside them.

    Args:
        times: from `compare_runtimes`.
        runtime: the one whose time is asked for.
        peer: what it is held against.

    Returns:
        runtime, peer, n (rounds), ms and peer_ms (medians), the median of runtime's time / peer's time as ratio with
        its quartiles ratio_low and ratio_high, and that of runtime - peer as difference_ms with difference_low_ms and
        difference_high_ms.

    Raises:
        TimingError: one of the two was not timed.
    """
    rounds = times.pivot(index="round", columns="runtime", values="ms")
    missing = {runtime, peer} - set(rounds)
    if missing:
        raise TimingError(f"{', '.join(sorted(missing))}: not among {', '.join(rounds)}")
    ours, theirs = rounds[runtime], rounds[peer]
    low, ratio, high = np.quantile(ours / theirs, [0.25, 0.5, 0.75])
    low_ms, difference_ms, high_ms = np.quantile(ours - theirs, [0.25, 0.5, 0.75])
    return {
        "runtime": runtime,
        "peer": peer,
        "n": len(rounds),
        "ms": float(ours.median()),
        "peer_ms": float(theirs.median()),
        "ratio": float(ratio),
        "ratio_low": float(low),
        "ratio_high": float(high),
        "difference_ms": float(difference_ms),
        "difference_low_ms": float(low_ms),
        "difference_high_ms": float(high_ms),
    }


def sweep_instruction_sets(
    paths: Mapping[str, Path],
    image: np.ndarray,
    *,
    levels: Iterable[str] = tuple(LEVELS),
    num_rounds: int = 3,
    num_calls: int = 20,
) -> pd.DataFrame:
    """Time OpenVINO, or TensorFlow, as if the processor knew no instructions above a level, one thread.

    One machine stands in for the generations of processors that the levels are named after; clock and caches stay its
    own. oneDNN reads its limit once, so that every measurement is a process of its own.

    Args:
        paths: of the artifact or model folder of each runtime with oneDNN, openvino_ and savedmodel, by its name in
            RUNTIMES.
        image: (side, side, 3) uint8.
        levels: of LEVELS; those that this processor lacks are left out.
        num_rounds: processes of each level and runtime, in turns.
        num_calls: predictions of each process.

    Returns:
        One row per process: level, runtime, round, ms (median of its calls).

    Raises:
        TimingError: an unknown level, a runtime without oneDNN, this processor has none of the levels (or runs no
            Linux, which says what it has), or a process failed.
    """
    levels, wrong = list(levels), [name for name in paths if not name.startswith(("openvino_", "savedmodel"))]
    if wrong or set(levels) - set(LEVELS):
        known = ", ".join(LEVELS)
        raise TimingError(f"{', '.join(wrong) or levels}: give openvino_ runtimes or savedmodel, and levels of {known}")
    flags = read_cpu_flags()
    present = [level for level in levels if LEVELS[level] <= flags]
    if not present:
        raise TimingError(f"this processor has none of {', '.join(levels)}, or Linux does not say so")
    rows = [
        {"level": level, "runtime": name, "round": turn}
        for turn in range(num_rounds)
        for level in present
        for name in paths
    ]
    for row in rows:
        row["ms"] = _time_in_process(row["runtime"], paths[row["runtime"]], image, row["level"], num_calls)
    return pd.DataFrame(rows)


def read_cpu_flags() -> set[str]:
    """The instructions that this processor has, as Linux names them; none where there is no Linux to say so."""
    if not CPUINFO.is_file():
        return set()
    found = re.search(r"^(?:flags|Features)\s*:(.*)$", CPUINFO.read_text(encoding="utf-8"), re.MULTILINE)
    return set(found[1].split()) if found else set()


def profile_layers(
    path: Path,
    image: np.ndarray,
    *,
    network: "keras.Model | None" = None,
    precision: str = "float32",
    num_calls: int = 50,
) -> pd.DataFrame:
    """Say how long each layer takes of a prediction by OpenVINO, from its own counters, one thread.

    OpenVINO computes a convolution, its normalisation and its activation in one go: they stand as one row, under the
    convolution's name.

    Args:
        path: an ONNX file, or a model folder that holds one.
        image: (side, side, 3) uint8.
        network: the Keras network that it was made from, whose layers' names and classes are used; without it the
            operations' names in the file.
        precision: float32, bf16 or int8, which has to fit the file.
        num_calls: whose mean is taken.

    Returns:
        One row per layer in the order of the computation: layer, type, ms, share of the whole call. The last row,
        "outside the layers", is the rest of the call.

    Raises:
        RuntimeOpeningError: OpenVINO is not there or cannot read the file.
    """
    compiled = compile_openvino(find_artifact(f"openvino_{precision}", Path(path)), precision, 1, PERF_COUNT=True)
    request, photographs = compiled.create_infer_request(), image[None]
    start = time.perf_counter()
    for _ in range(num_calls):
        request.infer([photographs])
    call_ms = 1000 * (time.perf_counter() - start) / num_calls
    known, rows = _name_layers(network) if network else {}, []
    for operation in compiled.get_runtime_model().get_ordered_ops():
        facts = {name: str(getattr(found, "value", found)) for name, found in operation.get_rt_info().items()}
        if facts.get("execTimeMcs", "").isdigit():
            names = facts["originalLayersNames"].split(",") + [operation.get_friendly_name()]
            layer, kind = next(filter(None, (_find_layer(name, known) for name in names)), ("", ""))
            rows.append((layer or names[0] or names[-1], kind or facts["layerType"], int(facts["execTimeMcs"]) / 1000))
    layers = (
        pd.DataFrame(rows, columns=["layer", "type", "ms"]).groupby(["layer", "type"], sort=False, as_index=False).sum()
    )
    layers.loc[len(layers)] = ["outside the layers", "", call_ms - layers["ms"].sum()]
    return layers.assign(share=layers["ms"] / call_ms)


def _time_in_process(runtime: str, path: Path, image: np.ndarray, level: str, num_calls: int) -> float:
    code = (
        "import json, sys, numpy as np\n"
        "from dr_lib.serving.export import runtimes, timing\n"
        "runtime, path, image, calls = sys.argv[1:]\n"
        "predict = runtimes.open_runtime(runtime, path)\n"
        "times = timing.time_runtime(predict, np.load(image), num_calls=int(calls))\n"
        "sys.stdout.write(json.dumps(float(np.median(times))))\n"
    )
    with tempfile.TemporaryDirectory() as folder:
        saved = Path(folder) / "image.npy"
        np.save(saved, image)
        command = [sys.executable, "-c", code, runtime, str(Path(path).resolve()), str(saved), str(num_calls)]
        environment = {**os.environ, "ONEDNN_MAX_CPU_ISA": level}
        ran = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    if ran.returncode:
        raise TimingError(f"{runtime} at {level}: {(ran.stderr.strip().splitlines() or ['the process died'])[-1]}")
    return json.loads(ran.stdout.splitlines()[-1])


def _name_layers(network: "keras.Model") -> dict[str, tuple[str, str]]:
    """For each layer's name the name and class under which it is shown: a normalisation under what it follows."""
    shown: dict[str, tuple[str, str]] = {}
    before = ("", "")
    for layer in network.layers:
        if hasattr(layer, "layers"):
            shown |= _name_layers(layer)
            continue
        kind = type(layer).__name__
        before = before if kind == "BatchNormalization" else (layer.name, kind)
        shown[layer.name] = before
    return shown


def _find_layer(operation: str, known: Mapping[str, tuple[str, str]]) -> tuple[str, str] | None:
    """Find the layer of net_1/base_1/conv1_1/convolution: the converter puts a number behind each name."""
    parts = operation.split("/")
    names = [re.sub(r"_\d+$", "", part) for part in parts] + parts
    return next((known[name] for name in names if name in known), None)
