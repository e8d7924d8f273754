"""Where the seconds of a training go, and the arithmetic of a step, by hand."""

from pathlib import Path
from tempfile import TemporaryDirectory

import keras
import numpy as np
import pytest

from dr_lib.data.prepared.batches import Batches
from dr_lib.training.calls import Calls, count_flop, sum_flop
from dr_lib.training.fit import compile_model, train
from dr_lib.training.models import build_model
from dr_lib.training.recorder import Recorder
from tests.training.simulation import draw, run_code

# multiplications and additions of small_cnn at 96 px, each of four convolutions and the output
FORWARD = [
    96**2 * 9 * 3 * 16,
    48**2 * 9 * 16 * 32,
    24**2 * 9 * 32 * 64,
    12**2 * 9 * 64 * 96,
    208,
]
# training takes the gradient by the weights too, and that by the input but of the photographs
SMALL_CNN = 2 * (3 * sum(FORWARD) - FORWARD[0])


def count(steps: int) -> float:
    """Operations of a step for a photograph, as a training of small_cnn at 96 px counts them."""
    batches = Batches(*draw(8, 96), 4, shuffle_seed=1)
    network = build_model("small_cnn", 96)
    backend = keras.config.backend()
    compile_model(network, steps_per_execution=steps, jit=backend == "jax")
    with TemporaryDirectory() as folder:
        train(network, batches, None, Recorder(Path(folder)), epochs=1)
    return count_flop(backend, network, batches[0]) / 4


def test_the_first_call_compiles_and_later_ones_wait():
    """Three steps to 12.5 s: 9.05 s of the first call are compiling, for the others took 0.95 s
    and waited 0.2 and 0.4 s.
    """
    calls = Calls()
    calls.ends.update({1: 11.0, 0: 10.0, 2: 12.0})  # as they come, from several threads
    calls.finish(0.0, 12.5, [0.5, 10.2, 11.4])
    assert calls.input_s == pytest.approx(0.6)
    assert calls.compile_s == pytest.approx(10 - 0.95)


@pytest.mark.parametrize(("ready", "waited"), [(10.0, 0.0), (12.0, 0.0), (12.8, 3.2)])
def test_a_call_of_four_steps_waits_for_its_last_batch(ready, waited):
    """It ends at 13 s: where the last step took 1 s, so did the three before, since 9 s; where it
    took 0.2 s, 3.2 s were waited for.
    """
    calls = Calls()
    calls.ends.update({3: 9.0, 7: 13.0})
    calls.finish(0.0, 13.0, [1.0] * 7 + [ready])
    assert calls.input_s == pytest.approx(waited)


def test_a_shorter_last_call_is_of_fewer_steps():
    """Two epochs of nine steps of 3 s in calls of eight and one, which Keras names by 15: the first
    call compiled for 5 s and took its steps 24 s, not as long as a call on average.
    """
    calls = Calls()
    for compile_s in (5.0, 0.0):
        calls.ends.update({7: compile_s + 24, 15: compile_s + 27})
        calls.finish(0.0, compile_s + 27, [0.0] * 9)
    assert calls.compile_s == pytest.approx(5)
    assert calls.input_s == 0


def test_without_a_second_call_it_is_not_known_what_compiled():
    """Else no second were left for its steps, which would then seem faster than the device's peak;
    where no call was made there is nothing to divide.
    """
    calls = Calls()
    assert (calls.compile_s, calls.input_s) == (0.0, 0.0) and np.isnan(calls.first_s)
    calls.ends[0] = 4.0
    calls.finish(1.0, 4.0)
    assert np.isnan(calls.compile_s)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("backend", "steps"), [("tensorflow", 1), ("tensorflow", 2), ("jax", 1)]
)
def test_the_arithmetic_of_a_step_is_that_by_hand(backend, steps):
    """To 5 %: TensorFlow adds what is no convolution, XLA leaves out products with a border."""
    pytest.importorskip(backend)
    if backend == "jax":
        code = f"from {__name__} import count; print(count({steps}))"
        found = float(run_code(code, backend).split()[-1])
    else:
        found = count(steps)
    assert found == pytest.approx(SMALL_CNN, rel=0.05)


@pytest.mark.slow
def test_inception_v3_has_the_published_arithmetic():
    """5.7 G multiplications and additions forwards at 299 px (Keras, torchvision)."""
    import tensorflow as tf

    network = keras.applications.InceptionV3(weights=None)
    forward = tf.function(lambda images: network(images, training=False))
    images = tf.TensorSpec((1, 299, 299, 3))
    found = sum_flop(forward.get_concrete_function(images).graph)
    assert found / 2 == pytest.approx(5.7e9, rel=0.02)
