"""Unite patients who share a photograph: a group is on one side of every split."""

import numpy as np
import pandas as pd
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components


def unite(patients: pd.Series, pairs: np.ndarray) -> pd.Series:
    """Name the group of each photograph: the first, by name, of all patients connected by copies.

    Copies form chains: where one patient's photograph is a copy of another's, and that one's of a
    third's, all three are one group.

    Args:
        patients: the patient of each photograph.
        pairs: (n, 2) int, the places of two photographs that show the same eye.
    """
    codes, names = pd.factorize(patients, sort=True)
    ends = codes[pairs].reshape(-1, 2).T
    links = coo_array((np.ones(len(pairs), bool), tuple(ends)), shape=(len(names), len(names)))
    _, component = connected_components(links, directed=False)
    first = pd.Series(codes).groupby(component[codes]).transform("min")
    return pd.Series(names[first], patients.index, name="group")
