"""Which arithmetic a layer has, found by layers that round their inputs as each would."""

import ml_dtypes
import numpy as np
import pytest

from dr_lib.training.arithmetic import name_arithmetic


def keep_bits(number: int, away: bool = False):
    """A rounding to so many bits of the fraction: to the even neighbour, or from zero in a tie."""
    step = 2**-number

    def rounded(values: np.ndarray) -> np.ndarray:
        fraction, exponent = np.frexp(values.astype(np.float64))
        scaled = 2 * fraction / step
        whole = np.floor(scaled + 0.5) if away else np.round(scaled)
        return np.ldexp(whole * step / 2, exponent).astype(np.float32)

    return rounded


def cut_bits(number: int):
    """The same by leaving the lower bits of float32 out, as matrix units may."""
    mask = np.uint32(0xFFFFFFFF << (23 - number) & 0xFFFFFFFF)
    return lambda values: (values.astype(np.float32).view(np.uint32) & mask).view(np.float32)


def as_type(kind):
    """The rounding of a type of NumPy or ml_dtypes."""
    with np.errstate(over="ignore"):
        return lambda values: values.astype(kind).astype(np.float32)


def split_in_two(values: np.ndarray) -> np.ndarray:
    """What two bfloat16 numbers hold."""
    high = as_type(ml_dtypes.bfloat16)(values)
    return high + as_type(ml_dtypes.bfloat16)(values - high)


def saturate(values: np.ndarray) -> np.ndarray:
    """float16 that ends at its largest number."""
    return as_type(np.float16)(np.clip(values, -65504, 65504))


ROUNDINGS = {
    "float32": [lambda values: values],
    "tf32": [keep_bits(10), keep_bits(10, away=True), cut_bits(10)],
    "bfloat16": [as_type(ml_dtypes.bfloat16), keep_bits(7, away=True), cut_bits(7)],
    "bfloat16_3x": [split_in_two],
    "float16": [as_type(np.float16), saturate],
    "other": [
        as_type(ml_dtypes.float8_e4m3fn),
        as_type(ml_dtypes.float8_e5m2),
        keep_bits(12),
        lambda values: saturate(as_type(ml_dtypes.bfloat16)(values)),
        np.zeros_like,
        lambda values: np.full_like(values, np.nan),
    ],
}
CASES = [(name, rounding) for name, listed in ROUNDINGS.items() for rounding in listed]


@pytest.mark.parametrize(("name", "rounding"), CASES)
@pytest.mark.parametrize("sides", ["inputs", "kernel", "both"])
def test_the_format_is_that_to_which_inputs_are_rounded(name, rounding, sides):
    """Of inputs and kernel the coarser one counts; in what direction ties go does not."""

    def multiply(inputs, kernel):
        if sides != "kernel":
            inputs = rounding(inputs)
        if sides != "inputs":
            kernel = rounding(kernel)
        with np.errstate(invalid="ignore"):
            return inputs @ kernel

    with np.errstate(over="ignore"):
        assert name_arithmetic(multiply) == name
