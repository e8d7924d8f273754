"""Promises of dr_lib.data.labels.datasets: each known data set is recognised and read as its
authors mean it.
"""

from pathlib import Path

import pandas as pd
import pytest

from dr_lib.data.labels.datasets import read_names
from dr_lib.data.labels.label_files import LabelTableError
from dr_lib.data.labels.tables import read_labels

HEAD_DEEPDRID = (
    "patient_id,image_id,image_path,Overall"
    " quality,left_eye_DR_Level,right_eye_DR_Level,patient_DR_Level\n"
)
DEEPDRID = "1,1_{0},\\regular-fundus-training\\1\\1_{0}.jpg,{1}\n"
BRSET = "image_id,patient_id,exam_eye,DR_SDRG,DR_ICDR\nimg00001,7,1,3,2\n"


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


def lay_out(root: Path, tables: dict[str, str], photographs: str | list[str]) -> Path:
    """Write label files, and photographs of one byte, which are never opened."""
    listed = photographs.split() if isinstance(photographs, str) else photographs
    for name, text in (tables | dict.fromkeys(listed, "x")).items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")
    return root


def describe(root: Path, **options) -> dict:
    """What is read of a data set, in lists: of each photograph, and of each row that cannot be
    used.
    """
    labels = read_labels(root, **options)
    columns = labels.table[["row", "patient", "eye", "grade", "official"]].to_dict("list")
    files = [Path(image).relative_to(root).as_posix() for image in labels.table["image"]]
    unusable = labels.unusable[["row", "reason"]].values.tolist()
    known = {"layout": labels.layout, "patients": labels.patients, "unusable": unusable}
    return {
        **columns,
        **known,
        "file": files,
        "notices": " ".join(labels.said + labels.notices),
    }


@pytest.mark.parametrize(
    ("tables", "photographs", "expected"),
    [
        (  # only train_images counts; test.csv has no grades, and nobody knows the patients
            {
                "a/train.csv": "id_code,diagnosis\n9f2,4\n0c1,0\n",
                "a/test.csv": "id_code\n77e\n",
                "a/sample_submission.csv": "id_code,diagnosis\n77e,0\n",
            },
            "a/train_images/0c1.png a/train_images/9f2.png a/test_images/77e.png",
            {
                "layout": "aptos2019",
                "patients": "unknown",
                "row": [2, 3],
                "grade": [4, 0],
                "official": ["", ""],
                "file": ["a/train_images/9f2.png", "a/train_images/0c1.png"],
                "unusable": [],
            },
        ),
        (  # a mirror with doubled folders and a split; row numbers count within each file
            {
                f"{name}.csv": f"id_code,diagnosis\n{name},3\n"
                for name in ("train_1", "valid", "test")
            },
            (
                "train_images/train_images/train_1.png val_images/val_images/valid.png"
                " test_images/test_images/test.png"
            ),
            {
                "layout": "aptos2019_split",
                "row": [2, 2, 2],
                "official": ["train", "validation", "test"],
                "grade": [3, 3, 3],
            },
        ),
        (
            {
                "trainLabels.csv": "image,level\n10_left,0\n10_right,2\n",
                "retinopathy_solution.csv": "image,level,Usage\n1_left,4,Private\n",
            },
            "train/10_left.jpeg train/10_right.jpeg test/1_left.jpeg",
            {
                "layout": "eyepacs",
                "patient": ["10", "10", "1"],
                "eye": ["left", "right", "left"],
                "grade": [0, 2, 4],
                "official": ["train", "train", "test"],
            },
        ),
        (  # suffix and case differ from the files; what is not gradable has no grade
            {
                "messidor_data.csv": (
                    "image_id,adjudicated_dr_grade,adjudicated_dme,adjudicated_gradable\n"
                    "20051020_0100_PP.png,2.0,0,1\nIM000001.jpg,0,0,1\nIM000002.jpg,,,0\nIM000003.jpg,1,0,1\n"
                )
            },
            "IMAGES/20051020_0100_PP.PNG IMAGES/im000001.JPG IMAGES/IM000002.JPG",
            {"layout": "messidor2", "row": [2, 3], "grade": [2, 0]}
            | {"unusable": [[4, "ungradable"], [5, "no such file"]]},
        ),
        (  # the mirror of Messidor-2: the same name for the label file, other columns
            {
                "messidor_data.csv": (
                    "id_code,diagnosis,adjudicated_dme,adjudicated_gradable\nIM000001.png,3,0,1\n"
                )
            },
            "messidor-2/preprocess/IM000001.png",
            {"layout": "messidor2_preprocess", "grade": [3]},
        ),
        # text files without a header, names and grades parted by a blank; 5 means ungradable; lines
        # count from 1
        (
            {
                "DR_grading/train.txt": "007-1.jpg 0\n007-2.jpg 5\n",
                "DR_grading/valid.txt": "a.jpg 2\n",
                "DR_grading/test.txt": "b.jpg 4\n",
            },
            (
                "DR_grading/train/007-1.jpg DR_grading/train/007-2.jpg DR_grading/valid/a.jpg"
                " DR_grading/test/b.jpg"
            ),
            {
                "layout": "ddr",
                "row": [1, 1, 1],
                "grade": [0, 2, 4],
                "official": ["train", "validation", "test"],
                "unusable": [[2, "ungradable"]],
            },
        ),
        # the level of the eye, not the patient's, which is the worse eye's; paths have backslashes
        # and lack a folder
        (
            {
                "regular-fundus-training/regular-fundus-training.csv": (
                    HEAD_DEEPDRID
                    + DEEPDRID.format("l1", "1,1.0,,4")
                    + DEEPDRID.format("l2", "0,5.0,,4")
                    + DEEPDRID.format("r1", "1,,4.0,4")
                    + DEEPDRID.format("r3", "1,2,,4")  # as 56_r3: a grade of the left eye
                )
            },
            [
                f"regular-fundus-training/Images/1/1_{eye}.jpg"
                for eye in ("l1", "l2", "r1", "r3")
            ],
            {
                "layout": "deepdrid",
                "patient": ["1", "1"],
                "eye": ["left", "right"],
                "grade": [1, 4],
                "unusable": [
                    [3, "ungradable"],
                    [5, "the name is of one eye, the grade of the other"],
                ],
            },
        ),
        (  # exam_eye was remapped between versions
            {"brset/labels.csv": BRSET},
            "brset/images/img00001.jpg",
            {
                "layout": "brset",
                "patients": "known",
                "patient": ["7"],
                "eye": [""],
                "grade": [2],
            },
        ),
        (  # of the two sources one names patients; folders have blanks
            {
                "k/labels/trainLabels15.csv": "image,level\n10_left,0\n10_right,1\n",
                "k/labels/testImages19.csv": "id_code,diagnosis\ncd,3\n",
            },
            [
                "k/resized train 15/10_left.jpg",
                "k/resized train 15/10_right.jpg",
                "k/resized test 19/cd.jpg",
            ],
            {
                "layout": "resized_2015_2019",
                "patient": ["10", "10", "k/resized test 19/cd.jpg"],
                "official": ["train", "train", "test"],
            },
        ),
        (  # 1.2.jpg is no picture of name 1; an empty final_icdr is no grade 0
            {
                "labels_mbrset.csv": (
                    "patient,file,laterality,final_icdr\n"
                    "1,1.1.jpg,right,0.0\n1,1.2,left,3.0\n1,1.3.jpg,left,\n"
                )
            },
            "images/1.1.jpg images/1.2.jpg images/1.3.jpg",
            {
                "patient": ["1", "1"],
                "eye": ["right", "left"],
                "grade": [0, 3],
                "unusable": [[4, "no grade"]],
            },
        ),
    ],
)
def test_a_data_set_is_read_as_its_authors_mean_it(tmp_path, tables, photographs, expected):
    """Its layout, patients, eyes, grades and split, and what cannot be used with the reason."""
    found = describe(lay_out(tmp_path, tables, photographs))
    assert {name: found[name] for name in expected} == expected
    assert ("fellow eyes" in found["notices"]) == (
        found["patients"] in ("unknown", "partly unknown")
    )
    assert ("public notebook" in found["notices"]) == (found["layout"] in ("brset", "mbrset"))


def test_resized_eyepacs_is_chosen_by_its_folder(tmp_path):
    """The download holds every photograph twice: whole or cropped must be said when both are
    there.
    """
    cropped = "Unnamed: 0.1,,image,level\n0,0,10_left,1\n"
    tables = {"trainLabels.csv": "image,level\n10_left,1\n", "trainLabels_cropped.csv": cropped}
    root = lay_out(tmp_path, tables, "resized_train_cropped/resized_train_cropped/10_left.jpeg")
    assert describe(root)["layout"] == "eyepacs_resized_cropped"
    lay_out(root, {}, "resized_train/resized_train/10_left.jpeg")
    with pytest.raises(
        LabelTableError, match="trainLabels.csv .eyepacs_resized., .*cropped.*give the folder"
    ):
        read_labels(root)


def test_idrid_numbers_overlap_between_its_folders(tmp_path):
    """The folder is part of the name; BOM, trailing blanks, empty columns and rows do no harm,
    other tasks neither.
    """
    grading = "B. Disease Grading"
    original = "1. Original Images/a. Training Set/IDRiD_001.jpg"
    testing = f"{grading}/1. Original Images/b. Testing Set/IDRiD_001.jpg"
    truths = f"{grading}/2. Groundtruths"
    header = "\ufeffImage name,Retinopathy grade,Risk of macular edema ,,\n"
    tables = {
        f"{truths}/a. IDRiD_Disease Grading_Training Labels.csv": (
            f"{header}\nIDRiD_001 ,3,2,,\n,,,,\n"
        ),
        f"{truths}/b. IDRiD_Disease Grading_Testing Labels.csv": f"{header}IDRiD_001,0,0,,,,\n",
    }
    photographs = [
        f"{grading}/{original}",
        testing,
        f"C. Localization/{original}",
        f"A. Segmentation/{original}",
    ]
    found = describe(lay_out(tmp_path, tables, photographs))
    assert (found["layout"], found["row"], found["grade"]) == ("idrid", [3, 2], [3, 0])
    assert found["official"] == ["train", "test"]
    assert found["file"] == [f"{grading}/{original}", testing]
    assert len(set(found["patient"])) == 2
    given = describe(tmp_path, labels=tmp_path / next(iter(tables)))
    assert given["file"] == [f"{grading}/{original}"]


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
    root = lay_out(tmp_path, tables, "1_left.jpg 1_right.jpg")
    (root / "sample.json").write_text(note)
    assert describe(root)["layout"] == layout
