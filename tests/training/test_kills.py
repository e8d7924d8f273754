"""A training that is killed at any moment ends as if it had not been."""

import json

import pandas as pd
import pytest

from tests.training import simulation

# each normalises its part of a batch
REPLICAS = {"backend": "tensorflow", "num_devices": 2}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("config", "changes", "kills", "window_s"),
    [
        ({"backend": "tensorflow"}, {}, 6, 1.0),
        (REPLICAS, {}, 4, 2.0),
        ({"backend": "jax", "mode": "fast"}, {}, 3, 0.5),
        ({"backend": "jax", "mode": "fast"}, {"steps_per_execution": 0}, 2, 0.5),
    ],
    ids=["tensorflow", "replicas", "jax", "an epoch in one program"],
)
def test_killed_at_random_moments(tmp_path, config, changes, kills, window_s):
    """Dropout, colours, shuffling, learning rate, optimiser: history and final state are equal
    to the bit.
    """
    pytest.importorskip(config["backend"])
    config = config | {"epochs": 12, "augmentation": "colour", "learning_rate": 0.02}
    config["model"] = simulation.DROPPING
    asked = {"config": config, "number": 57, "impatient": True}
    asked["changes"] = changes
    how = {"kills": kills, "window_s": window_s, "seed": 1}
    simulation.run("kill", tmp_path, arguments=asked, **how)
    counted = json.loads((tmp_path / "kills.json").read_text())
    assert counted["kills"] >= kills and counted["inside"] >= 3
    straight = tmp_path / "straight"
    resumed = 0
    expected = simulation.read_arrays(straight / "checkpoint.npz")
    assert pd.read_csv(straight / "history.csv")["learning_rate"].nunique() > 1  # it fell
    for folder in sorted(tmp_path.glob("training-*")):
        assert (folder / "history.csv").read_bytes() == (straight / "history.csv").read_bytes()
        found = simulation.read_arrays(folder / "checkpoint.npz")
        assert found.keys() == expected.keys()
        simulation.assert_same(list(found.values()), list(expected.values()))
        resumed += json.loads((folder / "result.json").read_text())["resumed"]
    assert resumed >= 1
