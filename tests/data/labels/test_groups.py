"""Patients whom copies connect are one group, however long the chain."""

import numpy as np
import pandas as pd

from dr_lib.data.labels.groups import unite


def test_a_chain_of_copies_is_one_group():
    """By hand: c-d, d-a makes a, c and d one group, b stays alone; a group has the first name of
    its patients.
    """
    patients = pd.Series(["d", "a", "c", "b", "a", "d"])
    assert unite(patients, np.array([[2, 0], [5, 4]])).tolist() == [
        "a",
        "a",
        "a",
        "b",
        "a",
        "a",
    ]
