"""What the report on scenarios says first."""

import numpy as np
import pandas as pd

from dr_lib.report.style import choose_words
from dr_lib.scenarios.answer import answer_shares


def test_a_share_is_said_only_of_a_factor_that_can_be_told_from_none():
    """36 % with p = 0.39 is nobody's share."""
    table = pd.DataFrame(
        {
            "term": ["dataset", "network", "dataset x network", "residual"],
            "num_factors": [1, 1, 2, 0],
            "share": [0.36, 0.23, 0.1, 0.31],
            "p": [0.387, 0.406, 0.9, np.nan],
        }
    )
    say = choose_words("en")
    chance = answer_shares(table, say, "en")
    assert chance.sentence.startswith("No factor has been shown") and not chance.numbers
    sure = answer_shares(table.assign(p=[0.387, 1e-10, 0.9, np.nan]), say, "en")
    assert sure.sentence == "What changes the time of an epoch: network, the strongest first."
    assert [number[:2] for number in sure.numbers] == [("Network", "23 %")]
