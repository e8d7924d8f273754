"""Promises of dr_lib.data.labels.datasets: each known data set is recognised and read as its
authors mean it.
"""

from pathlib import Path

import pandas as pd
import pytest

from dr_lib.data.labels.datasets import read_names
from dr_lib.data.labels.tables import read_labels
from dr_lib.errors import DrError

DEEPDRID = """patient_id,image_id,image_path,left_eye_DR_Level,right_eye_DR_Level,patient_DR_Level
1,1_l1,\\regular-fundus-training\\1\\1_l1.jpg,1.0,,4
1,1_l2,\\regular-fundus-training\\1\\1_l2.jpg,5.0,,4
1,1_r1,\\regular-fundus-training\\1\\1_r1.jpg,,4.0,4
1,1_r3,\\regular-fundus-training\\1\\1_r3.jpg,2,,4
"""
BRSET = "image_id,patient_id,exam_eye,DR_SDRG,DR_ICDR\nimg00001,7,1,3,2\n"
MESSIDOR = """image_id,adjudicated_dr_grade,adjudicated_dme,adjudicated_gradable
20051020_0100_PP.png,2.0,0,1
IM000001.jpg,0,0,1
IM000002.jpg,,,0
IM000003.jpg,1,0,1
"""
MBRSET = (
    "patient,file,laterality,final_icdr\n1,1.1.jpg,right,0.0\n1,1.2,left,3.0\n1,1.3.jpg,left,\n"
)


@pytest.mark.parametrize(
    ("name", "patient", "eye"),
    [
        ("10_left.jpeg", "10", "left"),
        ("joa\u0303o_left.jpg", "joão", "left"),
        ("C:\\eyes\\10_OD.JPG", "10", "right"),  # oculus dexter
        ("10-oe.png", "10", "left"),  # olho esquerdo
        ("exam_OD_12.jpg", "", ""),  # of which patient?
        ("0001_1_L.jpg", "", ""),
        ("000c1434d8d7.png", "", ""),  # of APTOS
    ],
)
def test_names_give_patient_and_eye_where_they_end_in_an_eye(name, patient, eye):
    """In English, Portuguese and Latin, behind a sign, or two letters behind a digit; the patient
    is one part.
    """
    both = read_names(pd.Series([name, name]))
    assert both.values.tolist() == [[patient, eye]] * 2


def lay_out(root: Path, tables: dict[str, str], *photographs: str) -> Path:
    """Write label files, and photographs of one byte, which are never opened."""
    for name, text in (tables | dict.fromkeys(photographs, "x")).items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")
    return root


def describe(root: Path, **options) -> list[str]:
    """What is read of a data set: its layout, then of each photograph the row, name, patient, eye,
    grade and side, of each row that cannot be used the reason, and how each notice begins.
    """
    labels = read_labels(root, **options)
    lines = [labels.layout]
    for row in labels.table.itertuples():
        name = Path(row.file).name
        patient = "?" if row.patient == row.file else row.patient
        lines.append(f"{row.row} {name} {patient} {row.eye or '?'} {row.grade} {row.official}")
    lines += [f"{row.row} {row.reason}" for row in labels.unusable.itertuples()]
    return [line.strip() for line in lines] + [notice[:11] for notice in labels.notices]


@pytest.mark.parametrize(
    ("tables", "photographs", "expected"),
    [
        (  # only train_images counts; test.csv has no grades, and nobody knows the patients
            {
                "a/train.csv": "id_code,diagnosis\n9f2,4\n0c1,0\n",
                "a/test.csv": "id_code\n77e\n",
                "a/sample_submission.csv": "id_code,diagnosis\n77e,0\n",
            },
            "a/train_images/0c1.png|a/train_images/9f2.png|a/test_images/77e.png",
            "aptos2019|2 9f2.png ? ? 4|3 0c1.png ? ? 0|The patient",
        ),
        (  # a mirror with doubled folders and a split; row numbers count within each file
            {
                f"{name}.csv": f"id_code,diagnosis\n{name},3\n"
                for name in ("train_1", "valid", "test")
            },
            "train_images/train_images/train_1.png|val_images/val_images/valid.png"
            "|test_images/test_images/test.png",
            "aptos2019_split|2 train_1.png ? ? 3 train|2 valid.png ? ? 3 validation"
            "|2 test.png ? ? 3 test|The patient",
        ),
        (  # a column that one of the files has
            {
                "train_1.csv": "id_code,diagnosis\nt,3\n",
                "valid.csv": "id_code,diagnosis,patient\nv,2,p\n",
            },
            "train_images/t.png|val_images/v.png",
            "aptos2019_split|2 t.png ? ? 3 train|2 v.png p ? 2 validation|The patient",
        ),
        (
            {
                "trainLabels.csv": "image,level\n10_left,0\n10_right,2\n",
                "retinopathy_solution.csv": "image,level,Usage\n1_left,4,Private\n",
            },
            "train/10_left.jpeg|train/10_right.jpeg|test/1_left.jpeg",
            "eyepacs|2 10_left.jpeg 10 left 0 train|3 10_right.jpeg 10 right 2 train"
            "|2 1_left.jpeg 1 left 4 test",
        ),
        (  # suffix and case differ from the files; what is not gradable has no grade
            {"messidor_data.csv": MESSIDOR},
            "IMAGES/20051020_0100_PP.PNG|IMAGES/im000001.JPG|IMAGES/IM000002.JPG",
            "messidor2|2 20051020_0100_PP.PNG ? ? 2|3 im000001.JPG ? ? 0|4 ungradable"
            "|5 no such file|The patient",
        ),
        (  # the mirror of Messidor-2: the same name for the label file, other columns
            {"messidor_data.csv": "id_code,diagnosis,adjudicated_gradable\nIM000001.png,3,1\n"},
            "messidor-2/preprocess/IM000001.png",
            "messidor2_preprocess|2 IM000001.png ? ? 3|The patient",
        ),
        (  # without a header, names and grades parted by a blank; 5 means ungradable
            {
                "DR_grading/train.txt": "007-1.jpg 0\n007-2.jpg 5\n",
                "DR_grading/valid.txt": "a.jpg 2\n",
                "DR_grading/test.txt": "b.jpg 4\n",
            },
            "DR_grading/train/007-1.jpg|DR_grading/train/007-2.jpg|DR_grading/valid/a.jpg"
            "|DR_grading/test/b.jpg",
            "ddr|1 007-1.jpg ? ? 0 train|1 a.jpg ? ? 2 validation|1 b.jpg ? ? 4 test"
            "|2 ungradable|The patient",
        ),
        (  # the level of the eye, not the patient's, which is the worse eye's
            {"regular-fundus-training/regular-fundus-training.csv": DEEPDRID},
            "|".join(
                f"regular-fundus-training/Images/1/1_{n}.jpg" for n in ("l1", "l2", "r1", "r3")
            ),
            "deepdrid|2 1_l1.jpg 1 left 1 train|4 1_r1.jpg 1 right 4 train|3 ungradable"
            "|5 the name is of one eye, the grade of the other",
        ),
        (  # exam_eye was remapped between versions
            {"brset/labels.csv": BRSET},
            "brset/images/img00001.jpg",
            "brset|2 img00001.jpg 7 ? 2|PhysioNet's",
        ),
        (  # of the two sources one names patients; folders have blanks
            {
                "k/labels/trainLabels15.csv": "image,level\n10_left,0\n10_right,1\n",
                "k/labels/testImages19.csv": "id_code,diagnosis\ncd,3\n",
            },
            "k/resized train 15/10_left.jpg|k/resized train 15/10_right.jpg"
            "|k/resized test 19/cd.jpg",
            "resized_2015_2019|2 10_left.jpg 10 left 0 train|3 10_right.jpg 10 right 1 train"
            "|2 cd.jpg ? ? 3 test|The patient",
        ),
        (  # 1.2.jpg is no picture of name 1; an empty final_icdr is no grade 0
            {"labels_mbrset.csv": MBRSET},
            "images/1.1.jpg|images/1.2.jpg|images/1.3.jpg",
            "mbrset|2 1.1.jpg 1 right 0|3 1.2.jpg 1 left 3|4 no grade|PhysioNet's",
        ),
    ],
)
def test_a_data_set_is_read_as_its_authors_mean_it(tmp_path, tables, photographs, expected):
    """Its layout, patients, eyes, grades and split, and what cannot be used with the reason."""
    root = lay_out(tmp_path, tables, *photographs.split("|"))
    assert describe(root) == expected.split("|")


def test_resized_eyepacs_is_chosen_by_its_folder(tmp_path):
    """The download holds every photograph twice: whole or cropped must be said when both are
    there.
    """
    cropped = "Unnamed: 0.1,,image,level\n0,0,10_left,1\n"
    tables = {"trainLabels.csv": "image,level\n10_left,1\n", "trainLabels_cropped.csv": cropped}
    root = lay_out(tmp_path, tables, "resized_train_cropped/resized_train_cropped/10_left.jpeg")
    assert describe(root)[0] == "eyepacs_resized_cropped"
    lay_out(root, {}, "resized_train/resized_train/10_left.jpeg")
    message = "trainLabels.csv .eyepacs_resized., .*cropped.*give the folder"
    with pytest.raises(DrError, match=message):
        read_labels(root)


def test_idrid_numbers_overlap_between_its_folders(tmp_path):
    """The folder is part of the name; BOM, trailing blanks, empty columns and rows do no harm,
    other tasks neither.
    """
    grading = "B. Disease Grading"
    original = "1. Original Images/a. Training Set/IDRiD_001.jpg"
    testing = f"{grading}/1. Original Images/b. Testing Set/IDRiD_001.jpg"
    labels = f"{grading}/2. Groundtruths/a. IDRiD_Disease Grading_Training Labels.csv"
    header = "\ufeffImage name,Retinopathy grade,Risk of macular edema ,,\n"
    tables = {
        labels: f"{header}\nIDRiD_001 ,3,2,,\n,,,,\n",
        labels.replace("a.", "b.").replace("Train", "Test"): f"{header}IDRiD_001,0,0,,,,\n",
    }
    others = [f"{task}/{original}" for task in (grading, "C. Localization", "A. Segmentation")]
    root = lay_out(tmp_path, tables, testing, *others)
    found = read_labels(root)
    assert found.layout == "idrid"
    rows = found.table[["row", "file", "grade", "official"]].values.tolist()
    assert rows == [[3, f"{grading}/{original}", 3, "train"], [2, testing, 0, "test"]]
    given = read_labels(root, root / labels)
    assert given.table["file"].tolist() == [f"{grading}/{original}"]


@pytest.mark.parametrize(
    ("note", "layout"),
    [
        ("[1]", "folder"),
        ('{"data_kind": "synthetic", "num_patients": 1, "seed": 7}', "sample"),
        ('{"data_kind": "synthetic", "num_patients": 2, "seed": 7}', "folder"),
    ],
)
def test_the_drawn_sample_is_known_by_its_note(tmp_path, note, layout):
    """The sample's salt is public, so no other folder may pass for it."""
    tables = {"labels.csv": "image,patient,grade\n1_left.jpg,1,0\n1_right.jpg,1,0\n"}
    root = lay_out(tmp_path, tables | {"sample.json": note}, "1_left.jpg", "1_right.jpg")
    assert describe(root)[0] == layout
