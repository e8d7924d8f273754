"""Patients whom copies connect are one group, however long the chain."""

import numpy as np
import pandas as pd

from dr_lib.data.labels.groups import unite


def test_a_chain_of_copies_is_one_group():
    """By hand: c-d, d-a makes a, c and d one group, b stays alone; a group has the first name of its patients."""
    patients = pd.Series(["d", "a", "c", "b", "a", "d"])
    assert unite(patients, np.array([[2, 0], [5, 4]])).tolist() == ["a", "a", "a", "b", "a", "a"]


def test_without_copies_each_patient_is_a_group():
    """Copies within a patient connect nobody."""
    patients = pd.Series(["x", "y", "x"], index=[7, 8, 9])
    for pairs in (np.empty((0, 2), int), np.array([[0, 2]])):
        pd.testing.assert_series_equal(unite(patients, pairs), patients.rename("group"))
