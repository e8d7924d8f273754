"""The label table: labels are matched and checked before time is spent, patients are never parted."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from dr_lib.data.labels.splits import split_patients
from dr_lib.data.labels.tables import LabelTableError, read_labels
from dr_lib.data.photograph.crop import UnreadableImageError, crop_fundus

DATA = Path(__file__).resolve().parents[3] / ".." / "shared" / "data"
needs_data = pytest.mark.skipif(not DATA.exists(), reason="the folder shared/data is not beside the repository")


@pytest.fixture
def folder(tmp_path):
    """Return a function that makes photographs (never opened) and labels.csv; it returns both paths."""

    def make(csv: str, *names: str) -> tuple[Path, Path]:
        images, labels = tmp_path / "images", tmp_path / "labels.csv"
        images.mkdir(exist_ok=True)
        for name in names:
            (images / name).parent.mkdir(parents=True, exist_ok=True)
            (images / name).write_bytes(b"x")
        labels.write_text(csv, encoding="utf-8")
        return images, labels

    return make


def draw_table(num_patients: int, seed: int) -> pd.DataFrame:
    """Patients with one to four photographs, eyes alike, grades about as in a clinic."""
    rng = np.random.default_rng(seed)
    grades = rng.choice(5, num_patients, p=[0.5, 0.15, 0.2, 0.1, 0.05])
    rows = [
        (f"p{patient}", int(np.clip(grade + rng.integers(-1, 2) * (eye > 0), 0, 4)))
        for patient, grade in enumerate(grades)
        for eye in range(rng.integers(1, 5))
    ]
    return pd.DataFrame(rows, columns=["patient", "grade"])


def test_reads_a_folder_and_a_csv(folder):
    """Suffix, case and folder may be missing or differ; row numbers are lines, the header being line 1."""
    csv = "image,grade,patient,eye,split\na1.JPG,0,p,L,train\n\nB2.png,3.0,q,OD,valid\nsub/c3.jpg,4,q,,test\n"
    images, labels = folder(csv, "a1.jpg", "a1.png", "b2.JPG", "sub/c3.jpg", "other/c3.jpg")
    found = read_labels(images, labels)
    expected = pd.DataFrame(
        [
            (2, str(images / "a1.jpg"), "p", "left", 0, "train"),
            (4, str(images / "b2.JPG"), "q", "right", 3, "validation"),
            (5, str(images / "sub" / "c3.jpg"), "q", "", 4, "test"),
        ],
        columns=["row", "image", "patient", "eye", "grade", "split"],
    )
    pd.testing.assert_frame_equal(found.table, expected)
    assert found.unusable.values.tolist() == [[0, str(images / n), "no label"] for n in ("a1.png", "other/c3.jpg")]
    assert (found.layout, found.patients, found.notices) == ("folder", "known", [])


def test_a_brazilian_spreadsheet_is_read(folder):
    """Semicolons, a byte order mark and the eye as OE (olho esquerdo)."""
    found = read_labels(*folder("\ufeffimage;grade;eye\na;2;OE\n", "a.jpg"))
    assert found.table[["eye", "grade"]].values.tolist() == [["left", 2]]


def test_a_patient_written_in_other_ways_is_one_patient(folder):
    """Case, blanks, an invisible character, a composed letter and a full-width one part nobody from himself."""
    names = [
        "Jos\u00e9  Alves",
        "jos\u00e9 alves ",
        "Jose\u0301 Alves",
        "JOS\u00c9\u00a0ALVES",
        "Jos\u00e9\u200b \uff21lves",
    ]
    rows = "".join(f"{i}.jpg,{i},{name}\n" for i, name in enumerate(names))
    found = read_labels(*folder("image,grade,patient\n" + rows, *(f"{i}.jpg" for i in range(5))))
    assert found.table["patient"].nunique() == 1


@pytest.mark.parametrize("column", ["Patient", "patient_id", "Paciente", "PATIENT NAME"])
def test_a_column_of_patients_under_another_name_is_not_passed_over(folder, column):
    """Read as if there were no patients, it would let fellow eyes into two splits: said at once."""
    with pytest.raises(LabelTableError, match=f"the column {column} is not read: call it patient"):
        read_labels(*folder(f"image,grade,{column}\na.jpg,1,7\n", "a.jpg"))


def test_finds_the_csv_below_the_root(folder):
    """Without labels= a CSV with image and grade under the folder is enough; two of them are a question."""
    images, labels = folder("image,grade\na.jpg,1\nb.jpg,2\n", "a.jpg", "b.jpg", "._a.jpg")
    found = read_labels(images.parent)
    assert found.table["grade"].tolist() == [1, 2] and found.unusable.empty
    (images / "more.csv").write_text("image,grade\na.jpg,1\n")
    with pytest.raises(LabelTableError, match="images/more.csv.*labels="):
        read_labels(images.parent)


def test_patients_come_from_names_only_if_all_have_the_form(folder):
    """One name of another form, and each photograph is its own patient, with a notice."""
    names = ["10_left.jpg", "10_RIGHT.jpg", "7_left.jpg"]
    csv = "image,grade\n" + "".join(f"{name},1\n" for name in names)
    found = read_labels(*folder(csv, *names))
    assert found.patients == "from file names"
    assert found.table[["patient", "eye"]].values.tolist() == [["10", "left"], ["10", "right"], ["7", "left"]]
    found = read_labels(*folder(csv + "11_x.jpg,0\n", *names, "11_x.jpg"))
    assert found.patients == "unknown" and found.table["patient"].is_unique
    assert "fellow eyes" in found.notices[0] and not found.table["eye"].any()


def test_what_cannot_be_used_is_listed_with_the_reason(folder):
    """Photographs in = usable rows + unusable rows: nothing disappears."""
    csv = "image,grade\na,1\ngone,2\nb,\na.jpg,1\n"
    images, labels = folder(csv, "a.jpg", "b.jpg", "c.jpg")
    found = read_labels(images, labels)
    assert found.table["row"].tolist() == [2]
    assert found.unusable.values.tolist() == [
        [3, "gone", "no such file"],
        [4, str(images / "b.jpg"), "no grade"],
        [5, str(images / "a.jpg"), "named twice"],
        [0, str(images / "c.jpg"), "no label"],
    ]


def test_files_of_other_kinds_are_counted(folder):
    """What a camera or a phone writes is no missing file: labelled it stays in the table, unlabelled it is listed."""
    names = ["c.DICOM", "d.heic", "e.HEIF", "f.gif", "g.jp2", "h.jfif"]
    images, labels = folder("image,grade\na,1\nscan.dcm,2\nb,0\n", "a.jpg", "scan.dcm", "b.DCM", *names, "notes.doc")
    found = read_labels(images, labels)
    assert found.table["image"].tolist() == [str(images / name) for name in ("a.jpg", "scan.dcm", "b.DCM")]
    assert found.unusable.values.tolist() == [[0, str(images / name), "no label"] for name in names]


def test_an_exported_photograph_comes_before_what_it_was_exported_from(folder):
    """A name without suffix means the JPEG, a name with it the file of that name; the other file has no label."""
    images, labels = folder("image,grade\na,1\nb.dcm,2\n", "a.dcm", "a.jpg", "b.dcm", "b.jpg")
    found = read_labels(images, labels)
    assert found.table["image"].tolist() == [str(images / "a.jpg"), str(images / "b.dcm")]
    assert found.unusable["image"].tolist() == [str(images / "a.dcm"), str(images / "b.jpg")]


def test_a_folder_of_dicom_files_alone_comes_as_far_as_the_advice_for_each(folder):
    """The label table is read, and the decoder tells what to do with each file."""
    images, labels = folder("image,grade\nscan,1\n", "scan.dcm")
    (images / "scan.dcm").write_bytes(bytes(128) + b"DICM")
    (image,) = read_labels(images, labels).table["image"]
    with pytest.raises(UnreadableImageError, match="a DICOM file: export it as PNG or JPEG"):
        crop_fundus(image)


def test_files_that_are_no_label_table_are_counted_and_not_named(folder):
    """A report is called after its patient, and a text file begins with anything: columns are told, names are not."""
    images, _ = folder("", "a.jpg")
    (images / "Maria Silva report.txt").write_text("Maria 54\nSilva 2\n")
    (images / "Maria Silva.csv").write_text("visit,level\n1,2\n")
    with pytest.raises(LabelTableError, match=r"only: 2 label files \(no header; columns visit, level\)") as error:
        read_labels(images)
    assert "Maria" not in str(error.value) and "Silva" not in str(error.value)


@pytest.mark.parametrize(
    ("csv", "message"),
    [
        ("", "labels.csv is empty"),
        ("image,grade\n", "labels.csv is empty"),
        ("file,class\nsecret,1\n", "1 label file .columns file, class.*image and grade"),
        ("secret.jpg,1\nother.jpg,2\n", "no header"),
        ("image,grade\n" + "secret,7\n" * 8, "rows 2, 3, 4, 5, 6 and 3 more.*0, 1, 2, 3 or 4"),
        ("image,grade\nsecret,1.5\n", "labels.csv, row 2.*grade"),
        ("image,grade\nsecret,mild\n", "row 2.*grade"),
        ("image,grade\nsecret,-1\n", "row 2.*grade"),
        ("image,grade\n,1\n", "row 2.*name the photograph"),
        ("image,grade\ngone,1\n", "no row of labels.csv can be used.*no such file"),
        ("image,grade\nsecret,1\nsecret.jpg,2\n", "rows 2, 3.*two grades or patients"),
        ("image,grade,patient\nsecret,1,p\nsecret,1,q\n", "rows 2, 3.*two grades or patients"),
        ("image,grade\nsecret,1\ntwin,2\n", "row 3.*several photographs"),
        ("image,grade,eye\nsecret,1,middle\n", "row 2: eye must be left, right or empty"),
        ("image,grade,split\nsecret,1,holdout\n", "row 2: split must be train, validation, test or empty"),
    ],
)
def test_errors_name_file_and_rows_and_never_a_photograph(folder, csv, message):
    """What is said may land in a public notebook."""
    with pytest.raises(LabelTableError, match=message) as error:
        read_labels(*folder(csv, "secret.jpg", "x/twin.jpg", "y/twin.jpg"))
    assert "secret" not in str(error.value) and "twin" not in str(error.value)


def test_missing_places_are_said_before_anything_else(folder):
    """No folder, no photographs, no label file, no such layout."""
    images, labels = folder("image,grade\na,1\n", "a.jpg")
    (images / "empty").mkdir()
    for wrong, message in (
        ((images / "nowhere", labels), "no folder"),
        ((images / "empty", labels), "no photographs"),
        ((images, images / "none.csv"), "no label file"),
        ((images,), "no label file at all"),
    ):
        with pytest.raises(LabelTableError, match=message):
            read_labels(*wrong)
    with pytest.raises(LabelTableError, match="no layout 'eyepac'.*eyepacs"):
        read_labels(images, labels, layout="eyepac")


def test_a_named_layout_reads_a_file_of_another_name(folder):
    """A label file that was renamed is still the data set's, if the user says so."""
    images, labels = folder("image,level\n10_left,2\n", "10_left.jpeg")
    with pytest.raises(LabelTableError, match="columns image, level"):
        read_labels(images, labels)
    found = read_labels(images, labels, layout="eyepacs")
    assert found.table["grade"].tolist() == [2] and found.unusable.empty


@pytest.mark.parametrize("seed", range(12))
def test_splits_keep_patients_together_and_grades_in_proportion(seed):
    """30 % of the photographs for test, 20 % of the other patients for validation, shares within two points."""
    table = draw_table(170, seed)
    split = split_patients(table, seed=seed)
    assert (split.groupby(table["patient"]).nunique() == 1).all()
    assert (split == "test").mean() == pytest.approx(0.30, abs=0.015)
    patients = split.groupby(table["patient"]).first().value_counts()
    assert patients["validation"] / (patients["train"] + patients["validation"]) == pytest.approx(0.20, abs=0.015)
    shares = pd.crosstab(split, table["grade"], normalize="index")
    assert shares.sub(table["grade"].value_counts(normalize=True)).abs().max(axis=None) <= 0.02


def test_a_split_depends_on_the_seed_and_not_on_the_order_of_rows():
    """The same table in another order is divided alike; another seed divides it otherwise."""
    table = draw_table(120, 0)
    split = split_patients(table, seed=3)
    again = split_patients(table.sample(frac=1, random_state=1), seed=3)
    pd.testing.assert_series_equal(again.sort_index(), split)
    assert (split_patients(table, seed=4) != split).any()


def test_every_patient_has_about_the_same_chance_of_being_tested():
    """Over 150 seeds no group, by photographs or by grade, is in test much more often than 30 % of the time."""
    table = draw_table(100, 5)
    tested = sum(split_patients(table, seed=seed, kind="paper") == "test" for seed in range(150)) / 150
    assert tested.min() > 0.15 and tested.max() < 0.50
    number = table.groupby("patient")["grade"].transform("size")
    for group in (number, table["grade"]):
        assert tested.groupby(group).mean().between(0.25, 0.37).all()


def test_a_split_does_not_depend_on_the_hash_seed():
    """Two interpreters with other hash seeds give the same split."""
    code = (
        "import pandas as pd; from dr_lib.data.labels.splits import split_patients; "
        "t = pd.DataFrame({'patient': [f'p{i // 2}' for i in range(80)], 'grade': [i * 7 % 5 for i in range(80)]}); "
        "print(''.join(split_patients(t, seed=1).str[1]))"
    )
    root = Path(__file__).resolve().parents[3]
    outputs = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            **{"cwd": root, "capture_output": True, "text": True, "check": True},
        ).stdout
        for hash_seed in ("1", "2")
    }
    assert len(outputs) == 1


def test_the_paper_split_has_no_validation():
    """70/30, as the papers did it."""
    assert set(split_patients(draw_table(100, 0), seed=0, kind="paper")) == {"train", "test"}


def test_the_official_split_is_kept_and_completed():
    """Test stays test; validation is drawn out of train only where the set ships none."""
    table = draw_table(200, 1).assign(row=lambda t: t.index + 2)
    number = table["patient"].str[1:].astype(int)
    table["split"] = np.where(number < 40, "test", "train")
    split = split_patients(table, seed=0, kind="official")
    assert ((split == "test") == (table["split"] == "test")).all() and "validation" in set(split)
    table["split"] = split
    pd.testing.assert_series_equal(split_patients(table, seed=9, kind="official"), table["split"])


def test_unusable_splits_are_errors_that_say_so():
    """A patient on two sides, no official split, one class, too few photographs, a misspelt kind."""
    table = draw_table(60, 2).assign(row=lambda t: t.index + 2, split="")
    with pytest.raises(LabelTableError, match="ships no split"):
        split_patients(table, seed=0, kind="official")
    alternating = table.assign(split=np.where(table.index % 2, "train", "test"))
    with pytest.raises(LabelTableError, match=r"rows \d+, .* two sides"):
        split_patients(alternating, seed=0, kind="official")
    with pytest.raises(LabelTableError, match="the label table has 0 referable"):
        split_patients(table.assign(grade=1), seed=0)
    with pytest.raises(LabelTableError, match="split has .* referable photographs"):
        split_patients(pd.DataFrame({"patient": list("abcdef"), "grade": [0, 0, 0, 0, 0, 4]}), seed=0)
    with pytest.raises(LabelTableError, match="random, paper, official"):
        split_patients(table, seed=0, kind="by eye")


@needs_data
@pytest.mark.parametrize(("name", "layout", "num_images"), [("odir512", "folder", 610), ("eyepacs64", "eyepacs", 2400)])
def test_real_data_sets_are_read_and_split(name, layout, num_images):
    """Every photograph has its label, its patient and a place in a proportionate split."""
    found = read_labels(DATA / name)
    assert (found.layout, found.patients, len(found.table)) == (layout, "from file names", num_images)
    assert found.unusable.empty
    split = split_patients(found.table, seed=20)
    shares = pd.crosstab(split, found.table["grade"], normalize="index")
    assert shares.sub(found.table["grade"].value_counts(normalize=True)).abs().max(axis=None) <= 0.02
