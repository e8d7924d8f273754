"""Plans: they follow from the facts, use what is there, and combine nothing that is known to
fail.
"""

import itertools
from typing import get_args

import pytest

from dr_lib.errors import DrError
from dr_lib.hardware import Facts, HardwareError, Request, choose
from dr_lib.hardware.plans import find_arithmetic
from dr_lib.training.config import TrainingConfig

LAPTOP = Facts("local", "AMD EPYC", 2, 24.0, (), 0.0, 0.0, "", 0, ("tensorflow", "jax"))
COLAB_CPU = LAPTOP._replace(platform="colab")
COLAB_T4 = COLAB_CPU._replace(
    gpus=("Tesla T4",), gpu_memory_gib=15.0, compute_capability=7.5, driver="550.54"
)
COLAB_TPU = COLAB_CPU._replace(num_tpu_chips=1, backends=("jax",))
KAGGLE_T4 = COLAB_T4._replace(platform="kaggle", gpus=("Tesla T4", "Tesla T4"))
KAGGLE_P100 = COLAB_T4._replace(
    platform="kaggle", gpus=("Tesla P100-PCIE-16GB",), compute_capability=6.0
)
KAGGLE_TPU = COLAB_TPU._replace(
    platform="kaggle", num_tpu_chips=8, backends=("tensorflow", "jax")
)
H200 = LAPTOP._replace(
    gpus=("NVIDIA H200",), gpu_memory_gib=139.0, compute_capability=9.0, backends=("jax",)
)
MACHINES = (LAPTOP, COLAB_T4, COLAB_TPU, KAGGLE_T4, KAGGLE_P100, KAGGLE_TPU, H200)


def list_choices(name: str) -> tuple[str, ...]:
    """The values of a parameter of notebook 10."""
    return get_args(TrainingConfig.model_fields[name].annotation)


def columns(facts: Facts, **asked) -> tuple:
    """What the tables below list of a plan."""
    plan = choose(facts, Request(**asked))
    precision = plan.precision.removeprefix("mixed_")
    how = (precision, plan.jit, plan.steps_per_execution)
    return plan.backend, plan.strategy, plan.num_replicas, *how


@pytest.mark.parametrize(
    ("facts", "plan"),
    [
        (LAPTOP, ("tensorflow", "none", 1, "float32", False, 8)),
        (COLAB_T4, ("tensorflow", "none", 1, "float16", True, 16)),
        (COLAB_TPU, ("jax", "none", 1, "bfloat16", True, 0)),
        (KAGGLE_T4, ("tensorflow", "MirroredStrategy", 2, "float16", False, 1)),
        (
            KAGGLE_T4._replace(has_jax_cuda=True),
            ("jax", "DataParallel", 2, "float16", True, 0),
        ),
        (KAGGLE_TPU, ("jax", "DataParallel", 8, "bfloat16", True, 0)),
        (H200, ("jax", "none", 1, "bfloat16", True, 0)),
    ],
)
def test_fast_mode_by_environment(facts, plan):
    """The table of environments: backend, strategy, replicas, precision, XLA, steps per call."""
    assert columns(facts, mode="fast", batch_size=32) == plan


MIRRORED = ("tensorflow", "MirroredStrategy", 2, "float32", False, 1)
ONE = ("tensorflow", "none", 1, "float32", False, 1)


@pytest.mark.parametrize(
    ("facts", "asked", "plan"),
    [
        (LAPTOP, {}, ONE),
        (COLAB_TPU, {}, ("jax", "none", 1, "float32", True, 1)),
        (KAGGLE_T4, {}, MIRRORED),
        (KAGGLE_T4, {"backend": "jax"}, ("jax", "DataParallel", 2, "float32", True, 1)),
        (KAGGLE_TPU, {"num_devices": 4}, ("jax", "DataParallel", 4, "float32", True, 1)),
    ],
)
def test_paper_mode_and_what_is_asked_for(facts, asked, plan):
    """As published: float32, one step per call, XLA only where the backend knows nothing else."""
    assert columns(facts, **asked) == plan


@pytest.mark.parametrize("facts", [LAPTOP, KAGGLE_TPU])
def test_mode_plain_plans_as_mode_paper(facts):
    """But the photographs are decoded in each epoch, however few they are; a TPU takes JAX."""
    plain = choose(facts, Request(mode="plain"))
    assert columns(facts, mode="plain") == columns(facts)
    assert plain.input == "stream" and not plain.on_device


def test_no_plan_combines_what_fails():
    """Over all machines and wishes: XLA, several steps or resident data never meet a
    tf.distribute strategy.
    """
    wishes = {
        "accelerator": list_choices("accelerator"),
        "backend": list_choices("backend"),
        "num_devices": (0, 2, 4),
        "mode": list_choices("mode"),
        "batch_size": (7, 8),
    }
    plans = 0
    for facts, *values in itertools.product(MACHINES, *wishes.values()):
        request = Request(**dict(zip(wishes, values, strict=True)))
        try:
            plan = choose(facts, request)
        except HardwareError:
            continue
        plans += 1
        mirrored = plan.strategy == "MirroredStrategy"
        assert not (mirrored and (plan.jit or plan.steps_per_execution != 1 or plan.on_device))
        is_resident = plan.on_device and plan.backend == "jax" and plan.accelerator != "cpu"
        assert bool(plan.steps_per_execution) != is_resident
        several = {"tensorflow": "MirroredStrategy", "jax": "DataParallel"}[plan.backend]
        assert plan.strategy == (several if plan.num_replicas > 1 else "none")
        assert plan.backend == "jax" or plan.accelerator != "tpu"
        assert request.batch_size % plan.num_replicas == 0
        assert request.accelerator in ("auto", plan.accelerator)
        assert request.backend in ("auto", plan.backend)
        assert len(plan.reasons) >= 3 and all(plan.reasons)
    assert plans > 500


@pytest.mark.parametrize(
    ("facts", "batch_size", "num_replicas"),
    [
        (KAGGLE_TPU, 12, 2),
        (KAGGLE_TPU, 7, 1),
        (KAGGLE_T4, 6, 1),
        (KAGGLE_T4._replace(gpus=("Tesla T4",) * 6), 12, 3),
    ],
)
def test_as_many_replicas_as_get_four_photographs_of_a_step(facts, batch_size, num_replicas):
    """The batch stays as asked; devices that cannot share it idle. Of a batch for each of them all
    are used.
    """
    plan = choose(facts, Request(batch_size=batch_size))
    assert (plan.num_replicas, plan.step_size) == (num_replicas, batch_size)
    there = max(len(facts.gpus), facts.num_tpu_chips)
    each = choose(facts, Request(batch_size=batch_size, batch_size_of="replica"))
    assert (each.num_replicas, each.step_size) == (there, there * batch_size)


@pytest.mark.parametrize(
    ("facts", "requested", "found"),
    [
        (KAGGLE_T4, "auto", "local"),
        (KAGGLE_T4, "global", "global"),
        (COLAB_T4, "local", "global"),
        (KAGGLE_TPU, "local", None),
    ],
)
def test_batch_normalisation_is_as_asked_or_refused(facts, requested, found):
    """Local is a MirroredStrategy's; on JAX a step is one array over all devices."""
    request = Request(batch_size=8, batch_norm=requested)
    if found:
        assert choose(facts, request).batch_norm == found
        return
    with pytest.raises(HardwareError, match="'local' is not possible: on JAX .*'global'"):
        choose(facts, request)


def test_photographs_stay_on_the_host_where_they_do_not_fit():
    """A T4 has 15 GiB: 1,000 photographs of 299 px fit, EyePACS (22 GiB) does not, and the host
    holds copies.
    """

    def is_kept(facts, data_gib, may_keep=True):
        request = Request(mode="fast", data_gib=data_gib, may_keep=may_keep)
        return choose(facts, request).on_device

    assert is_kept(COLAB_T4, 0.25) and not is_kept(COLAB_T4, 0.25, may_keep=False)
    assert not is_kept(COLAB_T4, 22.0)
    assert not is_kept(COLAB_T4._replace(memory_gib=12.7), 5.0)


@pytest.mark.parametrize(
    ("num_images", "chosen"),
    # at 299 px 0.25 GiB for 1,000: by hand, half of Colab's memory holds 25,421
    [(25_000, "memory"), (35_000, "stream")],
)
def test_photographs_are_streamed_where_they_do_not_fit(num_images, chosen):
    """Half of the memory is for decoded photographs; streamed ones are not on the device."""
    facts = COLAB_T4._replace(memory_gib=12.7, gpu_memory_gib=80.0)
    config = TrainingConfig(data_dir="", mode="fast", image_size=299)
    plan = config.plan(facts, num_images)
    assert plan.input == chosen and not (plan.on_device and chosen == "stream")


@pytest.mark.parametrize(
    ("facts", "asked", "message"),
    [
        (LAPTOP, {"accelerator": "gpu"}, "this machine has no GPU"),
        (LAPTOP._replace(backends=()), {}, "tensorflow is not installed"),
        (KAGGLE_TPU, {"backend": "tensorflow"}, "cannot drive"),
        (KAGGLE_T4, {"num_devices": 3}, "this machine has 2"),
    ],
)
def test_what_is_not_there_is_an_error(facts, asked, message):
    """An accelerator, backend or strategy that cannot be had is never replaced by another."""
    with pytest.raises(DrError, match=message):
        choose(facts, Request(**asked))


A100 = H200._replace(
    gpus=("NVIDIA A100",), compute_capability=8.0, backends=("tensorflow", "jax")
)


@pytest.mark.parametrize(
    ("facts", "asked", "possible"),
    [
        (KAGGLE_T4, {}, "float32"),
        (A100, {}, "float32 tf32"),
        (A100, {"mode": "fast"}, "bfloat16"),
        (COLAB_TPU, {}, "float32 bfloat16 bfloat16_3x"),
    ],
)
def test_arithmetic_that_a_machine_cannot_do_is_refused(facts, asked, possible):
    """TF32 begins with Ampere, passes of bfloat16 are a TPU's, and mixed precision leaves no
    choice; by the documentation of TensorFlow and JAX.
    """
    for name in list_choices("matmul_precision"):
        request = Request(matmul_precision=name, **asked)
        if name in ("default", *possible.split()):
            assert choose(facts, request).request.matmul_precision == name
            continue
        fault = f"^matmul_precision '{name}' is not possible: in mode .* multiplies in .*; set"
        with pytest.raises(HardwareError, match=fault):
            choose(facts, request)


@pytest.mark.parametrize(
    ("facts", "asked", "matmul", "conv"),
    [
        (KAGGLE_T4, {}, "float32", "float32"),
        (KAGGLE_T4, {"mode": "fast"}, "float16", "float16"),
        (A100, {}, "tf32", "tf32"),
        (A100, {"matmul_precision": "float32"}, "float32", "float32"),
        (COLAB_TPU, {"matmul_precision": "bfloat16_3x"}, "bfloat16_3x", "bfloat16_3x"),
    ],
)
def test_the_row_says_the_arithmetic(facts, asked, matmul, conv):
    """By the documentation of TensorFlow and JAX, see docs/training.md."""
    row = choose(facts, Request(**asked)).describe()
    assert (row["matmul_precision"], row["conv_precision"]) == (matmul, conv)


@pytest.mark.parametrize("backend", ["torch", "mxnet"])
def test_other_frameworks_take_tf32_in_convolutions_alone(backend):
    """By the notes of PyTorch and by cuDNN's default."""
    expected = {"matmul_precision": "float32", "conv_precision": "tf32"}
    assert find_arithmetic("gpu", 8.0, backend) == expected
    assert {*find_arithmetic("gpu", 7.5, backend).values()} == {"float32"}
