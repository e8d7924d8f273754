"""What is known of public fundus data sets: their label files, columns and folders, one entry for each."""

import re
from collections.abc import Callable
from typing import NamedTuple

import pandas as pd

EYES = {"left": "left", "l": "left", "os": "left", "oe": "left", "right": "right", "r": "right", "od": "right", "": ""}
SPLITS = {"train": "train", "training": "train", "validation": "validation", "valid": "validation"}
SPLITS |= {"val": "validation", "test": "test", "testing": "test", "": ""}
STAGES = {"mild nonproliferative": 1, "moderate nonproliferative": 2, "severe nonproliferative": 3}
STAGES |= {"proliferative": 4, "severe proliferative": 4}


class Part(NamedTuple):
    """One label file of a data set: how to know it, which columns count, where its photographs lie.

    `file` is an expression for the end of the file's path, `folders` are expressions for the photographs'
    folders, the best first. `image` and `grade` must be columns of the file, and what `needs` names; `patient`
    and `eye` are read where they are; `split` is one of SPLITS, or a column. `rewrite` turns other columns
    into image, patient, eye, grade and reason. A row is ungradable where column `ungradable[0]` holds the
    number `ungradable[1]`. `beside` names files that must stand next to the label file.
    """

    file: str
    image: str = "image"
    grade: str = "grade"
    patient: str = "patient"
    eye: str = "eye"
    split: str = "split"
    folders: tuple[str, ...] = ("",)
    needs: tuple[str, ...] = ()
    rewrite: Callable[[pd.DataFrame], pd.DataFrame] | None = None
    ungradable: tuple[str, int] | None = None
    beside: tuple[str, ...] = ()


class Layout(NamedTuple):
    """A data set as its authors, or a mirror, hand it out; `refusal` says why it cannot be used."""

    name: str
    parts: tuple[Part, ...]
    notices: tuple[str, ...] = ()
    refusal: str = ""


def find_eyes(names: pd.Series) -> pd.DataFrame:
    """Read patient and eye out of names like 10_left.jpeg; both are empty where a name is of another form."""
    found = names.str.extract(r"(?i)(?:.*[/\\])?(?P<patient>[^/\\]+)_(?P<eye>left|right)(?:\.[a-z]+)?$").fillna("")
    return found.assign(eye=found["eye"].str.lower())


def grade_keywords(keywords: str) -> tuple[str, str]:
    """Grade one eye by ODIR-5K's diagnostic keywords, which name the stage in words.

    Mild, moderate and severe nonproliferative retinopathy are 1, 2 and 3, proliferative is 4; the highest stage
    counts, also beside other diseases or a remark on quality. "normal fundus" is 0. No grade is guessed from
    the rest: retinopathy that is only suspected or has no stage, a picture of no use, other diseases alone.

    Args:
        keywords: the text of one eye, parted by fullwidth commas, now and then by plain ones.

    Returns:
        The grade ("0" to "4") and "", or "" and the reason why there is none.
    """
    text = re.sub("non[ -]proliferative", "nonproliferative", keywords.casefold())
    words = {re.sub("( diabetic)? retinopathy$", "", word.strip()) for word in re.split("[\uff0c,]", text)}
    if grades := [grade for stage, grade in STAGES.items() if stage in words]:
        return str(max(grades)), ""
    if re.search("suspi?[a-z]+ [^\uff0c,]*(diabetic|proliferative)", text):
        return "", "no grade: retinopathy only suspected"
    if "diabetic retinopathy" in text:
        return "", "no grade: retinopathy without a stage"
    if "normal fundus" in words:
        return "0", ""
    useless = re.search("low image quality|no fundus image|anterior segment|invisible", text)
    return "", "ungradable" if useless else "no grade: another disease alone"


def _rewrite_odir(table: pd.DataFrame) -> pd.DataFrame:
    """Take the eye of each row: the columns N to O and labels speak of the patient, the keywords of the eye."""
    is_left = table["filename"] == table["Left-Fundus"]
    keywords = table["Left-Diagnostic Keywords"].where(is_left, table["Right-Diagnostic Keywords"])
    graded = pd.DataFrame([grade_keywords(k) for k in keywords], table.index, ["grade", "reason"], dtype=str)
    eye = is_left.map({True: "left", False: "right"})
    return graded.assign(image=table["filename"], patient=table["ID"], eye=eye)


def _rewrite_deepdrid(table: pd.DataFrame) -> pd.DataFrame:
    """Take the eye's own level (patient_DR_Level is the worse one's) and the name (image_path lacks a folder)."""
    is_left = table["image_id"].str.contains(r"_l\d*$")
    grade = table["left_eye_DR_Level"].where(is_left, table["right_eye_DR_Level"])
    eye = is_left.map({True: "left", False: "right"})
    return pd.DataFrame({"image": table["image_id"], "patient": table["patient_id"], "eye": eye, "grade": grade})


_PHYSIONET = (
    "This data set of PhysioNet comes under an agreement: its pictures may not be passed on, so they may not "
    "enter the output of a public notebook or a report.",
)
_KEYWORDS = ("The grades were derived from each eye's diagnostic keywords; ODIR-5K has no 0-4 column of its own.",)
_APTOS = ("id_code", "diagnosis")
_EYEPACS = ("image", "level")
_MESSIDOR = {"needs": ("adjudicated_gradable",), "ungradable": ("adjudicated_gradable", 0)}
_IDRID = ("Image name", "Retinopathy grade")
_GRADING = r"^(?!.*(A\. Segmentation|C\. Localization)).*"  # its other tasks repeat names and folders
_MESSIDOR_1 = (
    "Messidor-1 is graded 0 to 3 on a scale of its own, which cannot be turned into grades 0 to 4: "
    "use Messidor-2 with its adjudicated grades"
)
_LEVELS = ("left_eye_DR_Level", "right_eye_DR_Level")
_DEEPDRID = {
    "needs": ("image_id", "patient_id", *_LEVELS),
    "rewrite": _rewrite_deepdrid,
    "ungradable": ("grade", 5),
}
_SIDES = ("Left-Fundus", "Left-Diagnostic Keywords", "Right-Diagnostic Keywords")
_ODIR = {"needs": ("ID", "filename", *_SIDES), "rewrite": _rewrite_odir}
_BRSET = ("fundus_photos/", "images/", "")

FOLDER = Layout("folder", (Part(r"[^/]*\.csv"),))
LAYOUTS = (
    Layout("sample", (Part(r"labels\.csv", beside=("sample.json", "circles.csv")),)),
    Layout(
        "aptos2019",
        (Part(r"train\.csv", *_APTOS, folders=("train_images/", "(colored|filtered)_images/", "")),),
    ),
    Layout(
        "aptos2019_split",
        (
            Part(r"train_1\.csv", *_APTOS, split="train", folders=("train_images/",)),
            Part(r"valid\.csv", *_APTOS, split="validation", folders=("val_images/",)),
            Part(r"test\.csv", *_APTOS, split="test", folders=("test_images/",)),
        ),
    ),
    Layout(
        "eyepacs",
        (
            Part(r"trainLabels\.csv", *_EYEPACS, split="train", folders=(r"\btrain/", "^(?!.*resized_train)")),
            Part(r"retinopathy_solution\.csv", *_EYEPACS, split="test", folders=(r"\btest/", "")),
        ),
    ),
    *(  # the same photographs twice; both are in the download, so the user says which
        Layout(
            f"eyepacs_resized{cut}",
            (Part(rf"trainLabels{cut}\.csv", *_EYEPACS, folders=(f"resized_train{cut}/",)),),
        )
        for cut in ("", "_cropped")
    ),
    Layout(
        "resized_2015_2019",
        (
            Part(r"trainLabels15\.csv", *_EYEPACS, split="train", folders=("resized train 15/",)),
            Part(r"testLabels15\.csv", *_EYEPACS, split="test", folders=("resized test 15/",)),
            Part(r"trainLabels19\.csv", *_APTOS, split="train", folders=("resized train 19/",)),
            Part(r"testImages19\.csv", *_APTOS, split="test", folders=("resized test 19/",)),
        ),
    ),
    Layout("messidor2", (Part(r"messidor_data\.csv", "image_id", "adjudicated_dr_grade", **_MESSIDOR),)),
    Layout("messidor2_preprocess", (Part(r"messidor_data\.csv", *_APTOS, **_MESSIDOR),)),
    Layout("messidor1", (Part(r"Annotation[ _]Base\d+\.xls", "", ""),), refusal=_MESSIDOR_1),
    Layout(
        "idrid",
        (
            Part(
                r".*Grading_Training Labels\.csv",
                *_IDRID,
                split="train",
                folders=(_GRADING + r"a\. Training Set/",),
            ),
            Part(
                r".*Grading_Testing Labels\.csv",
                *_IDRID,
                split="test",
                folders=(_GRADING + r"b\. Testing Set/",),
            ),
        ),
    ),
    Layout(
        "odir5k",
        (Part(r"full_df\.csv", folders=("Training Images/", "preprocessed_images/", ""), **_ODIR),),
        _KEYWORDS,
    ),
    Layout(
        "ddr",
        tuple(
            Part(
                rf"DR_grading/{part}\.txt",
                split=part,
                folders=(f"DR_grading/{part}/",),
                ungradable=("grade", 5),
            )
            for part in ("train", "valid", "test")
        ),
    ),
    Layout(
        "deepdrid",
        tuple(
            Part(rf"regular-fundus-{part}\.csv", split=part, folders=(f"regular-fundus-{part}/",), **_DEEPDRID)
            for part in ("training", "validation")
        ),
    ),
    Layout(
        "brset",
        (
            Part(
                r"labels(_brset)?\.csv",
                "image_id",
                "DR_ICDR",
                "patient_id",
                folders=_BRSET,
                needs=("patient_id",),
            ),
        ),
        _PHYSIONET,
    ),
    Layout(
        "mbrset",
        (Part(r"labels_mbrset\.csv", "file", "final_icdr", "patient", "laterality", needs=("patient",)),),
        _PHYSIONET,
    ),
)
