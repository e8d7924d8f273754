"""A model that commit 87acb15 exported answers as it did."""

import pandas as pd
from click.testing import CliRunner

from dr_lib.__main__ import main
from tests.test_old import OLD


def test_an_exported_model_says_the_same(tmp_path):
    """Of each photograph of a prepared folder, by the command."""
    out = tmp_path / "predicted.csv"
    words = [str(OLD / "exported"), str(OLD / "prepared"), "--external", "--out", str(out)]
    ran = CliRunner().invoke(main, ["predict", *words], catch_exceptions=False)
    assert ran.exit_code == 0, ran.output
    expected = pd.read_csv(OLD / "predicted.csv")
    pd.testing.assert_frame_equal(pd.read_csv(out)[list(expected)], expected, atol=0.004)
