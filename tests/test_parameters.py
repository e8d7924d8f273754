"""A parameter that a notebook does not have, or a value that it cannot have, is one sentence."""

import pytest

from dr_lib.parameters import ParameterError, check_parameters

CELL = "epochs: int = 20  # passes\nlearning_rate: float = 0.1  # rate\nkeep: bool = False  # it"
VALUES = {"epochs": 20, "learning_rate": 1, "keep": False}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"epoch": 2}, "epoch: no parameter of this notebook, it has epochs, learning_rate, keep"),
        ({"epochs": 2.5}, "epochs is 2.5: give a whole number"),
        ({"epochs": True}, "epochs is True: give a whole number"),
        ({"epochs": "many"}, "epochs is 'many': give a whole number"),
        ({"epochs": 0}, "epochs is 0: give 1 or more"),
        ({"learning_rate": -0.1}, "learning_rate is -0.1: give 0 or more"),
        ({"learning_rate": float("nan")}, "learning_rate is nan: give 0 or more"),
        ({"keep": "perhaps"}, "keep is 'perhaps': give true or false"),
    ],
)
def test_a_parameter_that_cannot_be_is_named(given, message):
    """papermill assigns whatever it is given, in a cell of its own behind the notebook's."""
    lines = [f"{name} = {value!r}" for name, value in given.items()]
    injected = "\n".join(["# Parameters", *lines])
    with pytest.raises(ParameterError, match=f"^{message}$"):
        check_parameters(["", "%pwd", CELL, injected, "import sys"], VALUES | given)


def test_what_was_given_counts_until_the_parameters_run_again():
    """In a kernel that stays, the next run of the notebook is given nothing of the last one."""
    check_parameters(["", CELL, "# Parameters\nepoch = 2\n", CELL, "x = 1"], VALUES)
    check_parameters(["", CELL, "# Parameters\nepochs = 2\n"], VALUES | {"epochs": 2})
    check_parameters(["", "x = 1"], {"x": 1})
