"""The peak of a device is that of its data sheet, or measured."""

import time

import numpy as np
import pytest

from dr_lib.hardware.peaks import find_peak


@pytest.mark.parametrize(
    ("device", "precision", "tflops"),
    [
        ("Tesla T4", "float32", 8.1),
        ("Tesla P100-PCIE-16GB", "float32", 9.3),
        ("Tesla V100-SXM2-16GB", "float16", 125),
        ("NVIDIA L4", "tf32", 60),
        ("NVIDIA A100-SXM4-40GB", "tf32", 156),
        ("NVIDIA A100 80GB PCIe", "bfloat16", 312),
        ("NVIDIA H100 80GB HBM3", "bfloat16", 989),
        ("NVIDIA H200", "float32", 67),
        ("TPU v5 lite", "bfloat16", 197),
        ("TPU v6 lite", "bfloat16", 918),
        # others of a like name, parts of one, and what no data sheet gives
        ("NVIDIA L40S", "float32", np.nan),
        ("NVIDIA A100-SXM4-40GB MIG 1g.5gb", "tf32", np.nan),
        ("TPU v5 lite", "float32", np.nan),
        ("Tesla T4", "tf32", np.nan),
    ],
)
def test_peaks_are_those_of_data_sheets(device, precision, tflops):
    """Without sparsity; of a device that is not listed none."""
    assert find_peak(device, precision) == pytest.approx(1e12 * tflops, nan_ok=True)


def test_a_cpu_is_measured_within_a_second():
    """It multiplies at a rate that a CPU of today may have."""
    start = time.monotonic()
    assert 1e9 < find_peak("cpu", "float32") < 1e13
    assert time.monotonic() - start < 1.5
