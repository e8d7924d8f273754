"""What tests of rooms share with those of the runs."""

from tests.runs.conftest import dear, house  # noqa: F401
