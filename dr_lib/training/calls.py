"""Divide the seconds of a training, and count the arithmetic of its steps."""

import inspect
from collections.abc import Sequence
from contextlib import suppress
from typing import Any


class Calls:
    """The calls of the device in training, or in validation, of this process.

    The first one compiles: what it takes more than as many steps of the others is `compile_s`.
    """

    def __init__(self):
        """Start without a call."""
        self.ends: dict[int, float] = {}  # of this epoch, by the last batch of a call
        self.steps = 0
        self.first_steps = 0  # of the first call
        self.total_s = 0.0
        self.first_s = float("nan")
        self.input_s = 0.0  # in which the device waited for a batch, but for its first

    def finish(self, start: float, end: float, ready_s: Sequence[float] = ()) -> None:
        """Add the calls of an epoch.

        Args:
            start: of its first call, monotonic [s], as are `end` and the ends.
            end: when the device had finished.
            ready_s: when each batch was ready. A call of n steps waits for its last batch, less the
                n - 1 steps before, of which each takes as long as the one behind it.
        """
        ends = sorted(self.ends.items())
        self.ends = {}
        free = start
        last = -1
        for end_step, now in ends:  # Keras counts the last call as full
            batch = min(end_step, len(ready_s) - 1) if ready_s else end_step
            if self.steps and ready_s:
                ready = ready_s[batch]
                self.input_s += max(0.0, ready - free - (batch - last - 1) * (now - ready))
            elif not self.steps:
                self.first_s = now - start
                self.first_steps = batch + 1
            self.steps += batch - last
            free = now
            last = batch
        self.total_s += end - start

    @property
    def compile_s(self) -> float:
        """Seconds that the first call took more than its steps; NaN after it alone."""
        others = self.steps - self.first_steps
        if self.steps and not others:
            return float("nan")
        others_s = self.total_s - self.first_s - self.input_s
        return max(0.0, self.first_s - others_s * self.first_steps / max(others, 1))


def count_flop(backend: str, model: Any, batch: Any) -> float:
    """Count the arithmetic of one training step by the framework's own rules; NaN if unknown.

    On JAX XLA counts what it was given to compile, on TensorFlow the operations that run and have
    a rule (a depthwise convolution has one forwards alone) are summed up.

    Args:
        backend: of Keras.
        model: trained by `fit`.
        batch: a batch that it was trained on.
    """
    with suppress(Exception):  # a training that is done is worth more than its count
        if backend == "jax":
            import jax

            groups = (
                model.trainable_variables,
                model.non_trainable_variables,
                model.optimizer.variables,
                model.metrics_variables,
            )
            state = tuple(
                [jax.ShapeDtypeStruct(value.shape, value.dtype) for value in group]
                for group in groups
            )
            # of what it compiles for a GPU or a TPU, XLA counts nothing
            with jax.default_device(jax.local_devices(backend="cpu")[0]):
                return jax.jit(model.train_step).lower(state, batch).cost_analysis()["flops"]

        parts = inspect.getclosurevars(model.train_function).nonlocals
        step = parts["one_step_on_data"].__wrapped__
        return sum_flop(step._list_all_concrete_functions()[0].graph)
    return float("nan")


def sum_flop(graph: Any) -> float:
    """Sum up the arithmetic of the operations of a tf.Graph that run and have a rule."""
    from tensorflow.python.framework import ops
    from tensorflow.python.profiler.internal import flops_registry  # noqa: F401
    from tensorflow.python.util import deprecation

    left = [*graph.control_outputs, *(output.op for output in graph.outputs)]
    counted = {}
    while left:
        operation = left.pop()
        if operation in counted:
            continue
        with deprecation.silence():
            rule = ops.get_stats_for_node_def(graph, operation.node_def, "flops")
        counted[operation] = rule.value or 0
        left += [*operation.control_inputs, *(tensor.op for tensor in operation.inputs)]
    return float(sum(counted.values()))
