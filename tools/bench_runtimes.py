"""Measured comparisons of runtimes, each against the SavedModel's signature: python -m
tools.bench_runtimes.

MobileNet and VGG19 at 224 px with random weights, one photograph a call, one thread each, in turns,
by the CPU time of this process.
[--rounds 15] [--models mobilenet vgg19]
"""

import argparse
import tempfile
import time
from pathlib import Path

import keras
import numpy as np
import onnxruntime
import openvino
from onnxruntime import quantization
from onnxruntime.quantization.shape_inference import quant_pre_process

from dr_lib.hardware.facts import probe
from dr_lib.rooms.serving.export.convert import FORMATS, convert
from dr_lib.rooms.serving.export.runtimes import RUNTIMES, Predict, open_runtime, pin_tensorflow
from dr_lib.rooms.serving.export.timing import compare_latency, pair_latency
from dr_lib.training.models import build_model
from tests.rooms.serving.stand_in import draw_crops

REFERENCE = "savedmodel"
GOALS = {  # times as fast as the reference; that of VGG19 where the processor has VNNI or AMX
    ("mobilenet", "litert_int8"): 4.0,
    ("mobilenet", "litert_float32"): 1.4,
    ("vgg19", "litert_int8"): 10.0,
}


def build(model: str, folder: Path) -> dict[str, Predict]:
    """Convert a network to every format and to ONNX; each runtime opened with one thread."""
    network = build_model(model, 224, task="grades")
    crops = draw_crops(8, side=224)
    made = {"keras": folder / "model.keras"}
    network.save(made["keras"])
    for name in FORMATS:
        made[name] = folder / name
        convert(network, name, made[name], calibration=crops)
    opened = {
        name: open_runtime(name, made[needed], num_threads=1)
        for name, needed in RUNTIMES.items()
    }
    for precision, calibration in (("float32", None), ("int8", crops)):
        path = folder / f"{precision}.onnx"
        write_onnx(network, path, calibration)
        opened[f"onnx_{precision}"] = open_onnx(path)
        opened[f"openvino_{precision}"] = open_openvino(path)
    return opened


def write_onnx(network: keras.Model, path: Path, calibration: np.ndarray | None) -> None:
    """Write float32, or quantize with one scale per filter in the graph (QDQ), which every runtime
    reads.

    Weights take 7 of their 8 bits: sums of products of 8 bits overflow on processors with AVX2 and
    without VNNI, where probabilities were off by 0.65. See "When to use reduce-range" in ONNX
    Runtime's documentation of quantization.
    """
    full = path.with_name("full.onnx")
    folded = path.with_name("folded.onnx")
    # Keras exports only what has been called
    network(np.zeros((1, *network.inputs[0].shape[1:]), np.uint8))
    network.export(path if calibration is None else full, format="onnx", verbose=False)
    if calibration is None:
        return

    class Crops(quantization.CalibrationDataReader):
        feeds = ({network.inputs[0].name: image[None]} for image in calibration)

        def get_next(self):
            return next(self.feeds, None)

    # batch normalisation goes into the convolutions
    quant_pre_process(full, folded, skip_symbolic_shape=True)
    quantization.quantize_static(
        folded,
        path,
        Crops(),
        quant_format=quantization.QuantFormat.QDQ,
        per_channel=True,
        reduce_range=True,
    )


def open_onnx(path: Path) -> Predict:
    """Open an ONNX file with ONNX Runtime."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(
        str(path), options, providers=["CPUExecutionProvider"]
    )
    name = session.get_inputs()[0].name
    return lambda images: session.run(None, {name: images})[0]


def open_openvino(path: Path) -> Predict:
    """Open an ONNX file with OpenVINO, in float32.

    Left to itself it computes in bfloat16 where the processor has AMX, with probabilities off by up
    to 0.10.
    """
    core = openvino.Core()
    properties = {
        "INFERENCE_NUM_THREADS": 1,
        "NUM_STREAMS": 1,
        "INFERENCE_PRECISION_HINT": "f32",
    }
    request = core.compile_model(
        core.read_model(path), "CPU", properties
    ).create_infer_request()
    return lambda images: request.infer([images])[0].copy()  # the next call writes over it


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
