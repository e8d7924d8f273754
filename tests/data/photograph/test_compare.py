"""Two ways of finding the disc over the same photographs: who refuses what, how far apart, how far from the truth."""

import cv2
import numpy as np
import pandas as pd
import pytest

from dr_lib.data.photograph.compare import compare_methods, count_refusals, read_truth, summarise_methods
from dr_lib.data.photograph.contact_sheet import lay_out_differences


def draw_disc(path, background: int, radius: int = 150) -> str:
    """A disc around (200.0, 190.0) on a grey level."""
    image = np.full((400, 420, 3), background, np.uint8)
    cv2.circle(image, (200, 190), radius, (60, 90, 160), -1, cv2.LINE_AA)
    cv2.imwrite(str(path), image)
    return str(path)


@pytest.fixture
def photographs(tmp_path) -> pd.DataFrame:
    """A disc on black, the same on grey, a disc too small for Voets et al., and a black picture."""
    images = [draw_disc(tmp_path / "a.png", 0), draw_disc(tmp_path / "b.png", 60), draw_disc(tmp_path / "c.png", 0, 70)]
    cv2.imwrite(str(tmp_path / "d.png"), np.zeros((400, 420, 3), np.uint8))
    return pd.DataFrame({"row": [2, 3, 4, 5], "image": [*images, str(tmp_path / "d.png")]})


def test_both_methods_see_the_same_photographs(photographs):
    """On black both find the disc; grey is all retina to voets; a small disc it refuses, a black picture both do."""
    truth = pd.DataFrame({"x": 200.0, "y": 190.0, "radius": [150.0, 150.0, 70.0]}, index=photographs["image"][:3])
    compared = compare_methods(photographs, truth)
    assert compared["row"].tolist() == [2, 3, 4, 5]
    assert (compared["robust_error_percent"][:3] < 1).all() and compared["robust_error_percent"][3:].isna().all()
    assert compared["voets_error_percent"][0] < 2 and compared["voets_error_percent"][1] > 50
    assert compared["radius_percent"][1] > 50 and np.isnan(compared["radius_percent"][2])
    assert count_refusals(compared) == {"robust": 1, "voets": 2}
    assert "100 px" in compared["voets_refused"][2] and compared["robust_refused"][2] == ""


def test_the_summary_is_that_of_the_paper_and_pencil():
    """Median, 95th percentile and largest of 1, 2, 3, 4 and 100, and how many there are without the refused one."""
    values = [1, 2, 3, 4, 100, np.nan]
    summary = summarise_methods(pd.DataFrame({"centre_percent": values, "radius_percent": values}))
    assert len(summary) == 2 and (summary["photographs"] == 5).all()
    assert summary.iloc[0, 1:].tolist() == pytest.approx([3, 80.8, 100])  # 4 + 0.8 x (100 - 4)


def test_without_truth_there_is_no_error_to_tell(photographs, tmp_path):
    """A folder without circles.csv, or with somebody else's, has no truth, and the summary two rows."""
    assert read_truth(tmp_path) is None
    (tmp_path / "circles.csv").write_text("my circles\n1\n")
    assert read_truth(tmp_path) is None
    (tmp_path / "circles.csv").write_text("image,x,y,radius\na.png,200,190,150\n")
    assert read_truth(tmp_path).loc[str(tmp_path / "a.png"), "radius"] == 150
    assert len(summarise_methods(compare_methods(photographs))) == 2


def test_nothing_to_compare_is_no_error(photographs):
    """Without a photograph the tables are empty, and nothing is shown."""
    compared = compare_methods(photographs[:0])
    assert len(compared) == 0 and count_refusals(compared) == {"robust": 0, "voets": 0}
    assert (summarise_methods(compared)["photographs"] == 0).all() and lay_out_differences(compared) == []


def test_the_largest_differences_come_first(photographs):
    """What only one method refuses, then what they place far apart; what both refuse shows nothing to compare."""
    panels = lay_out_differences(compare_methods(photographs))
    assert [panel.caption.split("\n")[0] for panel in panels] == ["row 4", "row 3", "row 2"]
    refused, apart, _ = panels
    assert refused.caption.endswith("refused by one") and "100 px" in refused.crops[1]
    assert apart.crops[0].shape == apart.crops[1].shape == (299, 299, 3) and len(apart.circles) == 2
