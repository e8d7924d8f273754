"""The line by which a process says what went wrong."""

import pytest

from dr_lib.processes import read_last_words

CASES = [
    ("", "no message"),
    ("one\nValueError: two\n\n", "ValueError: two"),
    # TensorFlow's warnings and information come behind
    (
        "ValueError: two\nW0000 00:00:17.5 cuda.cc:1] no\nI0000 00:00:17.6 a.cc:2] on\n",
        "ValueError: two",
    ),
    (
        "F0000 00:00:17.5 a.cc:1] Check failed\n*** stack ***\n    @     0x7f main\nlast",
        "F0000 00:00:17.5 a.cc:1] Check failed",
    ),
    (
        'Fatal Python error: Segmentation fault\n\nThread 0x1:\n  File "a"\n',
        "Fatal Python error: Segmentation fault",
    ),
]


@pytest.mark.parametrize(("printed", "said"), CASES)
def test_the_last_words_are_neither_warning_nor_stack(printed, said):
    """As glog, TensorFlow and Python's faulthandler write them."""
    assert read_last_words(printed) == said
