"""What tests of rooms share with those of the runs."""

from tests.runs.conftest import house  # noqa: F401
