"""Photographs that are there twice, byte for byte: the first is kept, and nothing is lost in silence."""

import pandas as pd
import pytest

from dr_lib.data.labels.duplicates import drop_duplicates
from dr_lib.data.labels.label_files import LabelTableError


@pytest.fixture
def table(tmp_path) -> pd.DataFrame:
    """Four photographs, of which the second and the fourth are one file, and the third is as long."""
    contents = {"d.jpg": b"other", "b.jpg": b"twice", "c.jpg": b"equal", "a.jpg": b"twice"}
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
    images = [str(tmp_path / name) for name in contents]
    return pd.DataFrame({"row": [2, 3, 4, 5], "image": images, "grade": 0, "patient": "p"})


def test_one_of_two_equal_files_is_dropped(table):
    """The first by name stays, whatever the order of the rows; files that are only as long stay too."""
    for rows in (table, table[::-1]):
        rest, dropped = drop_duplicates(rows)
        assert sorted(rest["row"]) == [2, 4, 5]
        assert dropped == [(3, table["image"][1], "same photograph as row 5")]


@pytest.mark.parametrize("change", [{"grade": [0, 0, 0, 1]}, {"patient": ["p", "p", "p", "q"]}])
def test_equal_files_with_two_labels_are_an_error(table, change):
    """Which label is right only the user knows; the message names rows and no file."""
    with pytest.raises(LabelTableError, match="another grade or patient, such as 3 and 5:") as caught:
        drop_duplicates(table.assign(**change))
    assert "jpg" not in str(caught.value)


def test_five_pairs_of_two_labels_are_named_at_once(tmp_path):
    """Seven patients with one photograph under two grades: how many pairs there are, and five of them by rows."""
    images = [tmp_path / f"{row}.jpg" for row in range(2, 16)]
    for i, image in enumerate(images):
        image.write_bytes(b"x" * (i % 7))
    table = pd.DataFrame({"row": range(2, 16), "image": map(str, images), "grade": [0] * 7 + [1] * 7, "patient": "p"})
    with pytest.raises(LabelTableError, match="7 pairs of rows .* 2 and 9, 3 and 10, 4 and 11, 5 and 12, 6 and 13:"):
        drop_duplicates(table)


def test_a_file_that_cannot_be_read_is_nobodys_copy(table, tmp_path):
    """Links that lead nowhere stay in the table: cropping them says what is wrong with each."""
    for name in ("b.jpg", "a.jpg"):
        (tmp_path / name).unlink()
        (tmp_path / name).symlink_to(tmp_path / "gone")
    rest, dropped = drop_duplicates(table)
    assert len(rest) == 4 and dropped == []
