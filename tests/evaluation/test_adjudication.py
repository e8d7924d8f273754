"""Adjudication: Begg and Greenes' case by R, counts by hand, and what doctors send back."""

import numpy as np
import pandas as pd
import pytest

from dr_lib.errors import DrError
from dr_lib.evaluation.adjudication import (
    LIST,
    WEIGHTS,
    correct_accuracy,
    draw_sample,
    read_adjudicated,
    write_lists,
)

POINTS = pd.DataFrame(
    {"point": ["high sensitivity", "high specificity"], "threshold": [0.5, 0.8]}
)


def draw(*cells, eyes=1) -> pd.DataFrame:
    """Test photographs: of each cell their number, label and probability; so many a patient."""
    numbers, labels, probabilities = zip(*cells, strict=True)
    n = sum(numbers)
    return pd.DataFrame(
        {
            "image_id": [f"i{k:04}" for k in range(n)],
            "patient_id": [f"p{k // eyes}" for k in range(n)],
            "grade": 2.0 * np.repeat(labels, numbers),
            "referable": np.repeat(labels, numbers).astype(float),
            "probability_referable": np.repeat(probabilities, numbers),
        }
    )


def mark(*counts) -> np.ndarray:
    """So many ill, then so many well, in turn."""
    return np.repeat([1.0, 0.0] * (len(counts) // 2), counts)


def fill(folder, test=None, number=60, change=lambda table: table):
    """Write the lists, and fill in a grade of 2 for each photograph."""
    write_lists(folder, SIX if test is None else test, POINTS, number, {})
    table = pd.read_csv(folder / LIST, dtype=str).assign(grade="2")
    change(table).to_csv(folder / LIST, index=False)
    return folder / LIST


# true and false, called by both points, by one, by none
SIX = draw(
    (40, 1, 0.9), (30, 0, 0.9), (20, 1, 0.6), (50, 0, 0.6), (10, 1, 0.1), (350, 0, 0.1), eyes=2
)


def test_begg_and_greenes_case():
    """Of 650 liver scans 429 were positive, of which 263 were verified (231 ill), and 81 of the
    others (27 ill): 0.836 and 0.738, as they publish. Bounds: the delta method on the logit, in R.
    """
    test = draw((429, 1, 0.9), (221, 0, 0.1))
    verified = pd.concat([test[:263], test[429:510]]).assign(is_ill=mark(231, 32, 27, 54))
    row = correct_accuracy(test, POINTS[:1], verified).iloc[0]
    found = row.filter(regex="_corrected").to_numpy()
    assert found == pytest.approx([0.8365, 0.7826, 0.8790, 0.7384, 0.6555, 0.8072], abs=0.008)


def test_all_graded_again_is_a_count():
    """Of 40 + 20 called and labelled ill 45 are, of 80 called and labelled well 16, of 10 missed 6
    and of 350 others 7: both points by hand.
    """
    ill = mark(30, 10, 6, 24, 15, 5, 10, 40, 6, 4, 7, 343)
    perfect = SIX.assign(probability_referable=0.9 * SIX["referable"])
    bounds = correct_accuracy(perfect, POINTS, perfect.assign(is_ill=SIX["referable"]))
    assert (bounds.filter(regex="corrected_high") == 1).all(axis=None)
    table = correct_accuracy(SIX, POINTS, SIX.assign(is_ill=ill))
    assert table["sensitivity"].tolist() == pytest.approx([60 / 70, 40 / 70])
    assert table["sensitivity_corrected"].tolist() == pytest.approx([61 / 74, 36 / 74])
    well = (347 / 426, (347 + 45) / 426)
    assert table["specificity_corrected"].tolist() == pytest.approx(well)


def test_ungradable_photographs_stand_for_their_like():
    """Half of the 350 cannot be graded: 175 are left, of which none is ill."""
    ill = SIX["referable"].copy()
    ill[-350::2] = np.nan
    table = correct_accuracy(SIX, POINTS, SIX.assign(is_ill=ill))
    assert table["specificity_corrected"][0] == pytest.approx(175 / 255)
    assert table["sensitivity_corrected"][0] == pytest.approx(60 / 70)
    assert table["specificity_corrected_high"][0] > 175 / 255


def test_a_sample_has_agreements_and_disagreements():
    """60 of 500, by the roots of 10 to 350: 4, 6, 7, 8, 10 and 25; each weight is a cell's number
    by that of its sample, in random order.
    """
    sample = draw_sample(SIX, POINTS, 60, np.random.default_rng(0))
    cells = SIX.loc[sample.index, ["referable", "probability_referable"]]
    counts = cells.value_counts().sort_values()
    assert counts.tolist() == [4, 6, 7, 8, 10, 25]
    assert sample["weight"].sum() == pytest.approx(500)
    assert not sample.index.is_monotonic_increasing
    everything = draw_sample(SIX, POINTS, 900, np.random.default_rng(0))
    assert len(everything) == 500 and set(everything["weight"]) == {1.0}


@pytest.mark.parametrize("names", [{}, {"i0000": "Silva.jpg"}])
def test_a_list_is_blind(tmp_path, names):
    """Neither labels nor answers nor weights nor patients; names of files where they may be."""
    write_lists(tmp_path, SIX, POINTS, 500, names)
    table = pd.read_csv(tmp_path / LIST)
    assert list(table) == ["image_id", *["photograph"] * bool(names), "grade", "gradable"]
    assert table[["grade", "gradable"]].isna().all(axis=None)
    assert list(pd.read_csv(tmp_path / WEIGHTS)) == ["image_id", "weight"]
    assert ("Silva.jpg" in (tmp_path / LIST).read_text()) == bool(names)
    of_referable = SIX.drop(columns="grade")
    write_lists(tmp_path, of_referable, POINTS, 500, {})
    assert "referable" in pd.read_csv(tmp_path / LIST)


def test_a_filled_list_comes_back_as_people_save_it(tmp_path):
    """With semicolons, Portuguese headers and words, in another order, the weights with decimal
    commas, and beside names of files; a grade of what cannot be graded does not count.
    """
    write_lists(tmp_path, SIX, POINTS, 60, {i: f"{i}.jpg" for i in SIX["image_id"]})
    weights = pd.read_csv(tmp_path / WEIGHTS)
    weights.to_csv(tmp_path / WEIGHTS, sep=";", decimal=",", index=False)
    table = pd.read_csv(tmp_path / LIST, dtype=str)
    table["grade"] = ["moderada", "leve", "", "grave"] * 15
    table["gradable"] = ["sim", "", "não", "0.0"] * 15
    table.columns = ["Imagem", "photograph", "Grau", "Gradável"]
    table[::-1].to_csv(tmp_path / "de volta.csv", sep=";", index=False)
    filled = (tmp_path / "de volta.csv").replace(tmp_path / LIST)
    again = read_adjudicated(filled, SIX, POINTS)
    order = again.set_index("image_id").loc[table["Imagem"], "is_ill"]
    assert order[:2].tolist() == [1, 0] and order.isna().sum() == 30


def test_ids_that_differ_in_zeros_alone_are_two_photographs(tmp_path):
    """Predictions may hold 1.jpg beside 01.jpg."""
    names = [f"{'0' * (k % 2)}{k // 2 + 1}.jpg" for k in range(len(SIX))]
    test = SIX.assign(image_id=names)
    again = read_adjudicated(fill(tmp_path, test, number=500), test, POINTS)
    assert set(again["image_id"]) == set(names)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda table: table[2:], "2 of 60 photographs are missing"),
        (
            lambda table: table.assign(grade=["7", *["2"] * 59]),
            'row 2: grade is "7": it must be',
        ),
        (
            lambda table: table.assign(grade=["", "", *["2"] * 58], gradable=["1"] * 60),
            "rows 2, 3: no grade: fill it",
        ),
        (lambda table: table.assign(gradable="talvez"), 'gradable is "talvez": it must be 0'),
        (
            lambda table: table.rename(columns={"grade": "adjudicated"}).assign(adjudicated=1),
            "nobody has the disease: grades are from 0 to 4, not yes",
        ),
        (
            lambda table: pd.concat([table, table[:1]]),
            "row 62: this photograph is listed twice",
        ),
        (
            lambda table: table.replace(r"^i", "x", regex=True),
            "is not in adjudicate.weights.csv",
        ),
        (lambda table: table.drop(columns="grade"), "needs the columns image_id and grade"),
    ],
    ids=["missing", "range", "half", "word", "flags", "twice", "other", "column"],
)
def test_a_list_that_cannot_be_used_is_a_sentence(tmp_path, change, words):
    """It names the rows; the file stays as it is."""
    path = fill(tmp_path, change=change)
    before = path.read_bytes()
    with pytest.raises(DrError, match=words):
        read_adjudicated(path, SIX, POINTS)
    assert path.read_bytes() == before


def test_a_list_of_another_evaluation_is_refused(tmp_path):
    """Other photographs, other thresholds, or no weights beside it; too few to draw from."""
    path = fill(tmp_path)
    turned = SIX["probability_referable"].to_numpy()[::-1]
    for test, points in (
        (SIX[100:], POINTS),
        (SIX, POINTS.assign(threshold=[0.05, 0.8])),
        (SIX.assign(probability_referable=turned), POINTS),
    ):
        with pytest.raises(DrError, match="is of another evaluation"):
            read_adjudicated(path, test, points)
    (tmp_path / WEIGHTS).write_text("image_id\ni0000\n")
    with pytest.raises(DrError, match=f"{WEIGHTS}: it needs the columns image_id and we"):
        read_adjudicated(path, SIX, POINTS)
    (tmp_path / WEIGHTS).unlink()
    with pytest.raises(DrError, match="is missing: copy there"):
        read_adjudicated(path, SIX, POINTS)
    with pytest.raises(DrError, match="give 12 photographs or more, not 11"):
        draw_sample(SIX, POINTS, 11, np.random.default_rng(0))
    with pytest.raises(DrError, match="without an operating point"):
        draw_sample(SIX, POINTS[:0], 60, np.random.default_rng(0))
