"""Promises of dr_lib.data.labels.datasets: each known data set is recognised and read as its authors mean it."""

from pathlib import Path

import pytest

from dr_lib.data.labels.datasets import grade_keywords
from dr_lib.data.labels.tables import LabelTableError, read_labels


@pytest.fixture
def tree(tmp_path):
    """Return a function that makes files of one byte below a folder; its `write` makes one with a text."""

    def make(*names: str) -> Path:
        for name in names:
            write(name, "x")
        return tmp_path

    def write(name: str, text: str, encoding: str = "utf-8") -> None:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding=encoding)

    make.write = write
    return make


def rows_of(labels, *columns):
    """The table as a list of tuples, each led by the row number."""
    return [tuple(row) for row in labels.table[["row", *columns]].values.tolist()]


def files_of(labels, root):
    """Where the photographs lie, below the root."""
    return [Path(image).relative_to(root).as_posix() for image in labels.table["image"]]


def test_aptos_competition_leaves_its_unlabelled_test_pictures_alone(tree):
    """Only train_images counts; test.csv has no grades, and nobody knows the patients."""
    root = tree("a/train_images/0c1.png", "a/train_images/9f2.png", "a/test_images/77e.png")
    tree.write("a/train.csv", "id_code,diagnosis\n9f2,4\n0c1,0\n")
    tree.write("a/test.csv", "id_code\n77e\n")
    tree.write("a/sample_submission.csv", "id_code,diagnosis\n77e,0\n")
    labels = read_labels(root)
    assert (labels.layout, labels.patients) == ("aptos2019", "unknown")
    assert rows_of(labels, "grade", "official") == [(2, 4, ""), (3, 0, "")]
    assert files_of(labels, root) == ["a/train_images/9f2.png", "a/train_images/0c1.png"]
    assert labels.unusable.empty and any("fellow eyes" in notice for notice in labels.notices)


def test_aptos_mirror_has_doubled_folders_and_a_split(tree):
    """Three label files, each with its own folder; row numbers count within each file."""
    root = tree(*(f"{part}_images/{part}_images/{part}.png" for part in ("train", "val", "test")))
    for name, part in (("train_1", "train"), ("valid", "val"), ("test", "test")):
        tree.write(f"{name}.csv", f"id_code,diagnosis\n{part},3\n")
    labels = read_labels(root)
    assert labels.layout == "aptos2019_split"
    assert rows_of(labels, "grade", "official") == [(2, 3, "train"), (2, 3, "validation"), (2, 3, "test")]
    assert files_of(labels, root)[1] == "val_images/val_images/val.png"


@pytest.mark.parametrize("folder", ["colored_images", "gaussian_filtered_images/gaussian_filtered_images"])
def test_aptos_224_has_a_folder_for_each_grade(tree, folder):
    """The pictures of the small mirrors lie in folders named by the grade."""
    root = tree(f"{folder}/No_DR/a1.png", f"{folder}/Proliferate_DR/b2.png")
    tree.write("train.csv", "id_code,diagnosis\na1,0\nb2,4\n")
    assert files_of(read_labels(root), root) == [f"{folder}/No_DR/a1.png", f"{folder}/Proliferate_DR/b2.png"]


def test_eyepacs_takes_patients_from_file_names(tree):
    """Both label files make one set with a split; sampleSubmission.csv, of the same columns, is no label file."""
    root = tree("train/10_left.jpeg", "train/10_right.jpeg", "test/1_left.jpeg")
    tree.write("trainLabels.csv", "image,level\n10_left,0\n10_right,2\n")
    tree.write("sampleSubmission.csv", "image,level\n1_left,0\n")
    expected = [(2, "10", "left", ""), (3, "10", "right", "")]  # one part alone is no split
    assert rows_of(read_labels(root), "patient", "eye", "official") == expected
    tree.write("retinopathy_solution.csv", "image,level,Usage\n1_left,4,Private\n")
    labels = read_labels(root)
    assert (labels.layout, labels.patients) == ("eyepacs", "from file names")
    assert rows_of(labels, "patient", "grade", "official")[2] == (2, "1", 4, "test")


def test_resized_eyepacs_is_chosen_by_its_folder(tree):
    """The download holds every photograph twice: whole or cropped must be said when both are there."""
    root = tree("resized_train_cropped/resized_train_cropped/10_left.jpeg")
    tree.write("trainLabels.csv", "image,level\n10_left,1\n")
    tree.write("trainLabels_cropped.csv", "Unnamed: 0.1,,image,level\n0,0,10_left,1\n")
    assert read_labels(root).layout == "eyepacs_resized_cropped"
    tree("resized_train/resized_train/10_left.jpeg")
    with pytest.raises(LabelTableError, match="eyepacs_resized and eyepacs_resized_cropped.*layout="):
        read_labels(root)
    assert "resized_train/resized_train/" in read_labels(root, layout="eyepacs_resized").table["image"][0]


def test_resized_2015_2019_keeps_eyes_together_where_names_tell(tree):
    """Of the two sources one names patients; folders with blanks; a missing folder is said, not counted."""
    root = tree("k/resized train 15/10_left.jpg", "k/resized test 15/2_right.jpg", "k/resized train 19/ab.jpg")
    tree.write("k/labels/trainLabels15.csv", "image,level\n10_left,0\n")
    tree.write("k/labels/testLabels15.csv", "image,level,Usage\n2_right,2,Public\n")
    tree.write("k/labels/trainLabels19.csv", "id_code,diagnosis\nab,3\n")
    tree.write("k/labels/testImages19.csv", "id_code,diagnosis\ncd,\n")
    labels = read_labels(root)
    assert (labels.layout, labels.patients) == ("resized_2015_2019", "partly unknown")
    assert rows_of(labels, "patient", "grade") == [(2, "10", 0), (2, "2", 2), (2, "k/resized train 19/ab.jpg", 3)]
    assert labels.table["official"].tolist() == ["train", "test", "train"]
    assert any("testImages19.csv is not used" in notice for notice in labels.notices)


def test_messidor_2_matches_names_and_counts_the_ungradable(tree):
    """Suffix and case differ from the files; a row that is not gradable has no grade."""
    root = tree("IMAGES/20051020_0100_PP.PNG", "IMAGES/im000001.JPG", "IMAGES/IM000002.JPG")
    header = "image_id,adjudicated_dr_grade,adjudicated_dme,adjudicated_gradable\n"
    rows = "20051020_0100_PP.png,2.0,0,1\nIM000001.jpg,0,0,1\nIM000002.jpg,,,0\nIM000003.jpg,1,0,1\n"
    tree.write("messidor_data.csv", header + rows)
    labels = read_labels(root)
    assert labels.layout == "messidor2"
    assert rows_of(labels, "grade") == [(2, 2), (3, 0)]
    assert labels.unusable[["row", "reason"]].values.tolist() == [[4, "ungradable"], [5, "no such file"]]


def test_the_mirror_of_messidor_2_is_told_apart_by_its_columns(tree):
    """The same name for the label file, other columns."""
    root = tree("messidor-2/preprocess/IM000001.png")
    tree.write("messidor_data.csv", "id_code,diagnosis,adjudicated_dme,adjudicated_gradable\nIM000001.png,3,0,1\n")
    assert read_labels(root).layout == "messidor2_preprocess"


def test_messidor_1_is_refused_with_the_reason(tree):
    """Its scale ends at 3 and means something else."""
    root = tree("Base11/20051019_38557_0100_PP.tif", "Base11/Annotation_Base11.xls", "Base12/Annotation_Base12.xls")
    with pytest.raises(LabelTableError, match="0 to 3.*Messidor-2"):
        read_labels(root)


def test_idrid_numbers_overlap_between_its_folders(tree):
    """The folder is part of the name; BOM, trailing blanks, empty columns and rows do no harm, other tasks neither."""
    grading, original = "B. Disease Grading", "1. Original Images/a. Training Set/IDRiD_001.jpg"
    testing = f"{grading}/1. Original Images/b. Testing Set/IDRiD_001.jpg"
    root = tree(f"{grading}/{original}", testing, f"C. Localization/{original}", f"A. Segmentation/{original}")
    header, truths = "Image name,Retinopathy grade,Risk of macular edema ,,\n", f"{grading}/2. Groundtruths"
    tree.write(
        f"{truths}/a. IDRiD_Disease Grading_Training Labels.csv", f"{header}\nIDRiD_001 ,3,2,,\n,,,,\n", "utf-8-sig"
    )
    tree.write(f"{truths}/b. IDRiD_Disease Grading_Testing Labels.csv", f"{header}IDRiD_001,0,0,,,,\n", "utf-8-sig")
    labels = read_labels(root)
    assert labels.layout == "idrid"
    assert rows_of(labels, "grade", "official") == [(3, 3, "train"), (2, 0, "test")]
    assert files_of(labels, root) == [f"{grading}/{original}", testing]
    assert labels.table["patient"].nunique() == 2


def test_odir_grades_each_eye_by_its_own_keywords(tree):
    """The columns N to O speak of the patient; an eye without a stage is left out with the reason."""
    names = ("0_left.jpg", "0_right.jpg", "1_left.jpg")
    root = tree(*(f"ODIR-5K/ODIR-5K/Training Images/{n}" for n in names), *(f"preprocessed_images/{n}" for n in names))
    head = "ID,Patient Age,Patient Sex,Left-Fundus,Right-Fundus,Left-Diagnostic Keywords,Right-Diagnostic Keywords,N,D"
    zero = "0,69,Female,0_left.jpg,0_right.jpg,lens dust，moderate non proliferative retinopathy,normal fundus,0,1"
    one = "1,57,Male,1_left.jpg,1_right.jpg,cataract,normal fundus,0,0"
    lines = [f"{head},filename", f"{zero},0_right.jpg", f"{zero},0_left.jpg", f"{one},1_left.jpg"]
    tree.write("full_df.csv", "\n".join(lines))
    labels = read_labels(root)
    assert (labels.layout, labels.patients) == ("odir5k", "known")
    assert rows_of(labels, "patient", "eye", "grade") == [(2, "0", "right", 0), (3, "0", "left", 2)]
    assert files_of(labels, root)[0] == "ODIR-5K/ODIR-5K/Training Images/0_right.jpg"
    assert labels.unusable["reason"].tolist() == ["no grade: another disease alone"]


@pytest.mark.parametrize(
    ("keywords", "expected"),
    [
        ("lens dust，normal fundus", "0"),
        ("mild nonproliferative retinopathy", "1"),
        ("moderate non proliferative retinopathy，epiretinal membrane", "2"),
        ("mild nonproliferative retinopathy，severe nonproliferative retinopathy", "3"),
        ("severe proliferative diabetic retinopathy，laser spot", "4"),
        ("proliferative diabetic retinopathy，hypertensive retinopathy", "4"),
        ("suspected moderate non proliferative retinopathy", "no grade: retinopathy only suspected"),
        ("suspicious diabetic retinopathy", "no grade: retinopathy only suspected"),
        ("hypertensive retinopathy,diabetic retinopathy", "no grade: retinopathy without a stage"),
        ("low image quality", "ungradable"),
        ("chorioretinal atrophy with pigmentation proliferation", "no grade: another disease alone"),
    ],
)
def test_keywords_give_a_grade_or_the_reason_for_none(keywords, expected):
    """Nothing is guessed: a suspicion, or another disease, is no grade."""
    assert "".join(grade_keywords(keywords)) == expected


def test_ddr_has_text_files_without_a_header(tree):
    """Names and grades parted by a blank; 5 means ungradable; lines count from 1."""
    root = tree(
        "DR_grading/train/007-1.jpg", "DR_grading/train/007-2.jpg", "DR_grading/valid/a.jpg", "DR_grading/test/b.jpg"
    )
    tree.write("DR_grading/train.txt", "007-1.jpg 0\n007-2.jpg 5\n")
    tree.write("DR_grading/valid.txt", "a.jpg 2\n")
    tree.write("DR_grading/test.txt", "b.jpg 4\n")
    labels = read_labels(root)
    assert rows_of(labels, "grade", "official") == [(1, 0, "train"), (1, 2, "validation"), (1, 4, "test")]
    assert labels.unusable[["row", "reason"]].values.tolist() == [[2, "ungradable"]]


def test_deepdrid_takes_the_level_of_the_eye(tree):
    """Not the patient's, which is the worse eye's; paths have backslashes and lack a folder."""
    root = tree(*(f"regular-fundus-training/Images/1/1_{eye}.jpg" for eye in ("l1", "l2", "r1")))
    head = "patient_id,image_id,image_path,Overall quality,left_eye_DR_Level,right_eye_DR_Level,patient_DR_Level"
    path = "\\regular-fundus-training\\1\\1_"
    rows = [f"1,1_l1,{path}l1.jpg,1,1.0,,4", f"1,1_l2,{path}l2.jpg,0,5.0,,4", f"1,1_r1,{path}r1.jpg,1,,4.0,4"]
    tree.write("regular-fundus-training/regular-fundus-training.csv", "\n".join([head, *rows]))
    labels = read_labels(root)
    assert rows_of(labels, "patient", "eye", "grade") == [(2, "1", "left", 1), (4, "1", "right", 4)]
    assert labels.unusable[["row", "reason"]].values.tolist() == [[3, "ungradable"]]


def test_the_drawn_sample_is_known_by_what_stands_beside_its_labels(tree):
    """The sample's salt is public, so no other folder may pass for it."""
    root = tree("images/1_left.jpg", "sample.json")
    tree.write("labels.csv", "image,patient,eye,grade\nimages/1_left.jpg,1,left,0\n")
    assert read_labels(root).layout == "folder" and read_labels(tree("circles.csv")).layout == "sample"


@pytest.mark.parametrize(("name", "folder"), [("labels.csv", "images"), ("labels_brset.csv", "fundus_photos")])
def test_brset_does_not_rely_on_the_eye(tree, name, folder):
    """exam_eye was remapped between versions; the pictures must not be shown."""
    root = tree(f"brset/{folder}/img00001.jpg")
    tree.write(f"brset/{name}", "image_id,patient_id,exam_eye,DR_SDRG,DR_ICDR\nimg00001,7,1,3,2\n", "utf-8-sig")
    labels = read_labels(root)
    assert (labels.layout, labels.patients) == ("brset", "known")
    assert rows_of(labels, "patient", "eye", "grade") == [(2, "7", "", 2)]
    assert any("public notebook" in notice for notice in labels.notices)


def test_mbrset_has_points_in_its_names_and_rows_without_a_grade(tree):
    """1.2.jpg is no picture of name 1; an empty final_icdr is no grade 0."""
    root = tree("images/1.1.jpg", "images/1.2.jpg", "images/1.3.jpg")
    rows = "1,1.1.jpg,right,0.0\n1,1.2,left,3.0\n1,1.3.jpg,left,\n"
    tree.write("labels_mbrset.csv", f"patient,file,laterality,final_icdr\n{rows}")
    labels = read_labels(root)
    assert rows_of(labels, "patient", "eye", "grade") == [(2, "1", "right", 0), (3, "1", "left", 3)]
    assert labels.unusable[["row", "reason"]].values.tolist() == [[4, "no grade"]]
