"""First contact with a machine: its plan, and what a step of training takes there in each mode.

Each mode is measured in a process of its own: `python -m dr_lib.training.contact FOLDER JSON
[PROFILE]`.
"""

import json
import math
import re
import subprocess
import sys
from collections.abc import Mapping
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any

from dr_lib.data.prepared.folder import Prepared
from dr_lib.hardware import activate, distribute, probe
from dr_lib.processes import bind_to_parent, read_last_words
from dr_lib.training.config import TrainingConfig

MODES = ("plain", "paper", "fast")
EPOCHS = 6  # of a few steps each; the first one compiles
TRACED = 20  # steps of a profile


def meet(
    data_dir: Path, folder: Path, asked: Mapping[str, Any], profile: Path | None = None
) -> dict[str, Any]:
    """Measure a few epochs of each mode on this machine.

    Args:
        data_dir: a prepared folder.
        folder: empty, for the trainings.
        asked: fields of `TrainingConfig`, such as model, image_size and batch_size.
        profile: folder for a trace of each mode, behind what is timed.

    Returns:
        machine (the facts), modes (of each: its plan, collectives of a step, seconds of a step,
        photographs a second and seconds of compilation, or error) and falls_short, in sentences.
    """
    modes = {}
    for mode in MODES:
        config = {**asked, "data_dir": str(data_dir), "mode": mode, "epochs": EPOCHS}
        command = [sys.executable, "-m", __name__, str(folder / mode), json.dumps(config)]
        command += [str(profile / mode)] if profile else []
        done = subprocess.run(
            bind_to_parent(command), capture_output=True, text=True, stdin=subprocess.DEVNULL
        )
        modes[mode] = {"error": read_last_words(done.stderr)}
        if not done.returncode:
            modes[mode] = json.loads(done.stdout.splitlines()[-1])
    return {
        "machine": probe()._asdict(),
        "modes": modes,
        "falls_short": find_shortfalls(modes),
    }


def find_shortfalls(modes: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Say what falls short of a plan: a mode that fails, or one that is not as fast as it should
    be.
    """
    faults = [f"mode {mode}: {it['error']}" for mode, it in modes.items() if it.get("error")]
    rates = {mode: it["images_per_s"] for mode, it in modes.items() if not it.get("error")}
    for mode in ("plain", "paper"):
        if mode in rates and rates.get("fast", rates[mode]) < rates[mode]:
            ratio = rates["fast"] / rates[mode]
            faults.append(f"mode fast trains {ratio:.2f} times as many photographs as {mode}")
    return faults


def measure(folder: Path, config: TrainingConfig, profile: str = "") -> dict[str, Any]:
    """Train in this process and return the plan and what was measured; then trace the steps that
    follow, if there is a folder for a profile.
    """
    prepared = Prepared(config.data_dir, config.split)
    plan = config.plan(probe(), len(prepared.photographs))
    device = distribute(activate(plan))

    from dr_lib.training.callbacks import Checkpoint
    from dr_lib.training.fit import train
    from dr_lib.training.train_once import load_sides, set_up

    setup = set_up(config, device, load_sides(config, plan, prepared))
    batches = setup.train_batches
    with device.scope():
        times = train(
            setup.fed.model, batches, None, Checkpoint(folder, monitor="auc"), epochs=EPOCHS
        )
        collectives = []
        if plan.num_replicas > 1:
            collectives = list_collectives(setup.fed.model, batches[0])
        if profile:
            with trace(plan.backend, profile):
                epochs = math.ceil(TRACED / len(batches))
                setup.fed.model.fit(batches.feed(), epochs=epochs, shuffle=False, verbose=0)
    return {
        "device": device.name,
        "plan": plan.describe(),
        "reasons": plan.reasons,
        "collectives": len(collectives),
        "step_s": plan.step_size / times["images_per_s"],
        "images_per_s": times["images_per_s"],
        "compile_s": times["compile_s"],
    }


def trace(backend: str, folder: str) -> AbstractContextManager:
    """Trace what runs in the context into a folder, by the profiler of the backend."""
    if backend == "jax":
        import jax

        return jax.profiler.trace(folder)
    import tensorflow as tf

    return tf.profiler.experimental.Profile(folder)


def list_collectives(model: Any, batch: Any) -> list[str]:
    """List the collective operations of one step of training over several devices: in the graph
    of TensorFlow, and in what JAX compiles.
    """
    import keras

    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        strategy = tf.distribute.get_strategy()
        data = tf.data.Dataset.from_tensors(batch).repeat()
        data = iter(strategy.experimental_distribute_dataset(data))
        step = tf.function(lambda: strategy.run(model.train_step, args=(next(data),)))
        graph = step.get_concrete_function().graph.as_graph_def()
        nodes = [*graph.node, *(n for part in graph.library.function for n in part.node_def)]
        return [node.name for node in nodes if node.op.startswith(("Collective", "Nccl"))]
    import jax

    layout = keras.distribution.distribution().get_data_layout
    shared = [jax.device_put(part, layout(part.shape).backend_layout) for part in batch]
    kinds = ("trainable_variables", "non_trainable_variables", "optimizer_variables")
    state = model._get_jax_state(**dict.fromkeys([*kinds, "metrics_variables"], True))
    step = partial(keras.Model.train_step, model)  # of an epoch in one program too
    text = jax.jit(step).lower(state, tuple(shared)).compile().as_text()
    return re.findall(r"(\S+) = \S+ all-reduce(?:-start)?\(", text)


if __name__ == "__main__":
    _, folder, asked, *profile = sys.argv
    print(json.dumps(measure(Path(folder), TrainingConfig(**json.loads(asked)), *profile)))
