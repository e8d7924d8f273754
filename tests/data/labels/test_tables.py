"""The label table: labels are matched and checked before time is spent."""

import os
from pathlib import Path

import pandas as pd
import pytest

from dr_lib.data.labels.label_files import LabelTableError
from dr_lib.data.labels.tables import read_labels
from dr_lib.errors import DrError


def list_names(table: pd.DataFrame) -> list[str]:
    """The photographs of a table, without their folder."""
    return [Path(image).name for image in table["image"]]


@pytest.fixture
def folder(tmp_path):
    """Return a function that makes photographs (never opened) and labels.csv; it returns both
    paths.
    """

    def make(csv: str, *names: str) -> tuple[Path, Path]:
        images = tmp_path / "images"
        labels = tmp_path / "labels.csv"
        images.mkdir(exist_ok=True)
        for name in names:
            (images / name).parent.mkdir(parents=True, exist_ok=True)
            (images / name).write_bytes(b"x")
        labels.write_text(csv, encoding="utf-8")
        return images, labels

    return make


def test_reads_a_folder_and_a_csv(folder):
    """Suffix, case and folder may be missing or differ; row numbers are lines, the header being
    line 1.
    """
    csv = "image,grade,patient,eye,split\na1.JPG,0,p,L,train\n\nB2.png,3.0,q,OD,valid\n"
    csv += "sub/c3.jpg,4,q,,test\n"
    images, labels = folder(csv, "a1.jpg", "a1.png", "b2.JPG", "sub/c3.jpg", "other/c3.jpg")
    found = read_labels(images, labels)
    expected = pd.DataFrame(
        [
            (2, str(images / "a1.jpg"), "p", "left", 0, "train"),
            (4, str(images / "b2.JPG"), "q", "right", 3, "validation"),
            (5, str(images / "sub" / "c3.jpg"), "q", "", 4, "test"),
        ],
        columns=["row", "image", "patient", "eye", "grade", "official"],
    )
    pd.testing.assert_frame_equal(found.table.drop(columns="file"), expected)
    assert found.table["file"].tolist() == ["a1.jpg", "b2.JPG", "sub/c3.jpg"]
    assert found.unusable.values.tolist() == [
        [0, str(images / n), "no label"] for n in ("a1.png", "other/c3.jpg")
    ]
    assert (found.layout, found.patients) == ("folder", "known")
    assert found.said == ["patients by patient: 2"]


def test_a_brazilian_spreadsheet_is_read(folder):
    """Semicolons, a byte order mark and the eye as OE (olho esquerdo); in windows-1252, of which
    a sentence says so.
    """
    images, labels = folder("\ufeffimage;grade;eye;patient\na;2;OE;João\n", "a.jpg")
    found = read_labels(images, labels)
    labels.write_bytes(b"image;grade;eye;patient\na;2;OE;Jo\xe3o\n")
    windows = read_labels(images, labels)
    pd.testing.assert_frame_equal(windows.table, found.table)
    assert found.table[["eye", "grade", "patient"]].values.tolist() == [["left", 2, "joão"]]
    notice = "labels.csv is not UTF-8 and was read as windows-1252."
    assert windows.said == [notice, *found.said]


@pytest.mark.parametrize("patient", ["patient_id", "Subject ID", "Patient name", "prontuário"])
def test_a_table_with_portuguese_columns_is_read(folder, patient):
    """As a hospital's spreadsheet writes it, with decimal commas and words."""
    rows = (
        f"Grau de RD;{patient};olho;idade;divisão;Arquivo\n"
        "3,0;7;OE;64;Treinamento;a.jpg\n"
        "Severa;7;OD;64;treino;d.jpg\n"
        "Sem RD;8;Esquerdo;64;teste;e.jpg\n"
        "moderada;8;DIREITO;64;teste;f.jpg\n"
    )
    found = read_labels(*folder(rows, "a.jpg", "d.jpg", "e.jpg", "f.jpg")).table
    assert found["grade"].tolist() == [3, 3, 0, 2]
    assert found["eye"].tolist() == ["left", "right"] * 2
    assert found["official"].tolist() == ["train", "train", "test", "test"]
    assert found["patient"].tolist() == ["7", "7", "8", "8"] and set(found["age"]) == {"64"}


def test_finds_the_csv_below_the_root(folder):
    """Without --labels a CSV with image and grade under the folder is enough; two of them are a
    question.
    """
    images, labels = folder("image,grade\na.jpg,1\nb.jpg,2\n", "a.jpg", "b.jpg", "._a.jpg")
    found = read_labels(images.parent)
    assert found.table["grade"].tolist() == [1, 2] and found.unusable.empty
    (images / "more.csv").write_text("image,grade\na.jpg,1\n")
    with pytest.raises(LabelTableError, match="images/more.csv .folder.*--labels"):
        read_labels(images.parent)


def test_patients_come_from_the_names_that_have_the_form(folder):
    """A name of another form is a patient of its own, which a notice counts; it does not
    dissolve the others.
    """
    names = ["10_left.jpg", "10_RIGHT.jpg", "7_left.jpg"]
    csv = "image,grade\n" + "".join(f"{name},1\n" for name in names)
    found = read_labels(*folder(csv, *names))
    patients = [["10", "left"], ["10", "right"], ["7", "left"]]
    assert found.patients == "from file names"
    assert found.table[["patient", "eye"]].values.tolist() == patients
    found = read_labels(*folder(csv + "11_x.jpg,0\n", *names, "11_x.jpg"))
    assert found.patients == "partly unknown"
    assert found.table[["patient", "eye"]].values.tolist() == [*patients, ["11_x.jpg", ""]]
    assert found.said == ["patients by file names: 2"]
    assert "patient is unknown for 1 of 4 photographs" in found.notices[0]
    assert "Add a column patient to the label table" in found.notices[0]


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
    """What a camera or a phone writes is no missing file: labelled it stays in the table,
    unlabelled it is listed. A name with a suffix means that file."""
    others = ["c.DICOM", "d.heic", "e.HEIF", "f.gif", "g.jp2", "h.jfif", "i.jpg"]
    labelled = ["a.jpg", "scan.dcm", "b.DCM", "i.dcm"]
    csv = "image,grade\na,1\nscan.dcm,2\nb,0\ni.dcm,0\n"
    found = read_labels(*folder(csv, *labelled, *others, "notes.doc"))
    assert list_names(found.table) == labelled
    assert sorted(list_names(found.unusable)) == sorted(others)
    assert set(found.unusable["reason"]) == {"no label"}


STARTS = {
    "1_left": b"\xff\xd8\xff\xe0",
    "1_right.JPG_": b"\xff\xd8\xff\xdb",
    "2_left.png.part": b"\x89PNG\r\n\x1a\n",
    "2_right.TIFF-1": b"MM\0*",
    "3_left.scn": b"II+\0",
    "3_right.mpo": b"\xff\xd8\xff\xe1",
    "4_left.pnm": b"P6\n640 480\n255\n",
    "4_right.image": b"\0\0\0\x18ftypheic",
}


def test_a_photograph_of_any_suffix_is_found_by_its_content(folder):
    """Files as phones, downloads and scanners name them are photographs; notes, caches and web
    pages are none, and a pipe is not waited for.
    """
    rows = "".join(f"{name},0\n" for name in STARTS)
    images, labels = folder(
        f"image,grade\n{rows}", "Thumbs.db", "index.html", "empty", "BMC.md"
    )
    (images / "BMC.md").write_text("BM: a bench mark, P6 and GIF")
    for name, start in STARTS.items():
        (images / name).write_bytes(start + bytes(100))
    os.mkfifo(images / "pipe")
    found = read_labels(images, labels)
    assert list_names(found.table) == [*STARTS] and found.unusable.empty


@pytest.mark.parametrize(
    ("names", "files", "expected"),
    [
        ("C:\\\\Users\\\\X\\\\a.jpg D:\\\\b.jpg", "a.jpg b.jpg", "a.jpg b.jpg"),
        ("/mnt/x/a.jpg /mnt/x/b.jpg", "a.jpg b.jpg", "a.jpg b.jpg"),
        ("file:///C:/My%20Eyes/a.jpg s3://bucket/b.jpg", "a.jpg b.jpg", "a.jpg b.jpg"),
        ("\\\\\\\\server\\\\share\\\\a.jpg ../b.jpg", "a.jpg b.jpg", "a.jpg b.jpg"),
        ("fotos/1.jpg photographs/2.jpg", "1.jpg photographs/2.jpg", "- photographs/2.jpg"),
        # composed and decomposed letters
        (
            "Jos\u00e9.jpg Ju\u0301/1.jpg",
            "Jose\u0301.jpg J\u00fa/1.jpg",
            "Jose\u0301.jpg J\u00fa/1.jpg",
        ),
        ("a1.jpg A1.jpg", "a1.jpg A1.jpg", "a1.jpg A1.jpg"),
        ("X/1.jpg x/1.jpg", "x/1.jpg X/1.jpg", "X/1.jpg x/1.jpg"),
    ],
)
def test_photographs_are_found_by_people_s_paths(folder, names, files, expected):
    """By the name at the end of another machine's path, and of files alike that of exactly the
    name.
    """
    rows = "".join(f"{name},{k}\n" for k, name in enumerate(names.split()))
    images, labels = folder("image,grade\n" + rows, *files.split())
    found = read_labels(images, labels)
    by_row = dict(zip(found.table["row"], found.table["image"], strict=True))
    paths = [Path(by_row[row]) if row in by_row else None for row in (2, 3)]
    named = [path.relative_to(images).as_posix() if path else "-" for path in paths]
    assert named == expected.split()


@pytest.mark.parametrize(
    ("name", "files"),
    [
        ("/data/p/1.jpg", "p/1.jpg q/1.jpg"),
        ("D:\\\\p\\\\1.jpg", "p/1.jpg q/1.jpg"),
        ("a", "a.jpg a.dcm"),  # an exported photograph, and what it was exported from
        ("a1", "a1.jpg A1.jpg"),
    ],
)
def test_a_name_of_two_files_is_refused(folder, name, files):
    """It could be either."""
    with pytest.raises(DrError, match="row 2: several photographs have this name"):
        read_labels(*folder(f"image,grade\n{name},1\n", *files.split()))


def test_an_ungradable_photograph_is_listed(folder):
    """By the column gradable, with words of either language."""
    for yes, no in (
        ("sim", "não"),
        ("S", "N"),
        ("y", "n"),
        ("t", "f"),
        ("V", "F"),
        ("1", "0.0"),
        ("gradável", "Não gradável"),
        ("gradable", "ungradable"),
        ("", "not gradable"),
    ):
        csv = f"image,grade,gradable\na,0,{yes}\nb,,0\nc,2,{no}\n"
        found = read_labels(*folder(csv, "a.jpg", "b.jpg", "c.jpg"))
        assert found.table["row"].tolist() == [2], (yes, no)
        assert found.unusable["reason"].tolist() == ["ungradable"] * 2


def test_a_table_that_cannot_be_read_is_said(folder):
    """Where another is used it is counted, and not named; where none is, its error is shown."""
    images, _ = folder("", "a.jpg", "b.jpg")
    (images / "Maria.csv").write_text('image,grade\na.jpg,"0\nb.jpg,4\n')
    (images / "other.csv").write_text("visit,level\n1,2\n")
    with pytest.raises(DrError, match="row 2: a quotation mark"):
        read_labels(images)
    (images / "other.csv").write_text("image,grade\na.jpg,1\n")
    assert "Tables beside it that cannot be read: 1." in read_labels(images).said


def test_files_that_are_no_label_table_are_counted_and_not_named(folder):
    """A report is called after its patient, and a text file begins with anything."""
    images, _ = folder("", "a.jpg")
    (images / "Maria Silva report.txt").write_text("Maria 54\nSilva 2\n")
    (images / "Maria Silva.csv").write_text("visit,level\n1,2\n")
    with pytest.raises(LabelTableError, match="found: 2. A label") as error:
        read_labels(images)
    assert "Maria" not in str(error.value) and "Silva" not in str(error.value)


@pytest.mark.parametrize(
    ("csv", "message"),
    [
        ("image,grade\n", "labels.csv is empty"),
        ("photo,class\nsecret,1\n", "found: 1.*image and grade"),
        ("secret.jpg,1\nother.jpg,2\n", "found: 1. A label"),
        (
            "image,grade\n" + "secret,7\n" * 8,
            "rows 2, 3, 4, 5, 6 and 3 more.*0 no retinopathy, 1 mild",
        ),
        ("image,grade\nsecret,1.5\n", "labels.csv, row 2.*grade"),
        (
            "image,severity\nsecret,1\n",
            "labels.csv: missing: grade; it has the columns image, severity",
        ),
        ("Imagem;Laudo\nsecret;1\n", "missing: grade; it has the columns Imagem, Laudo"),
        (
            "image,grade\nsecret,none\n",
            'row 2: grade is "none": it must be 0 no .*, or empty; of grades',
        ),
        ("image,grade\n,1\n", "no row of labels.csv can be used: {'no such file': 1}"),
        ("image,grade\ngone,1\n", "no row of labels.csv can be used.*no such file"),
        ("image,grade\nsecret,1\nsecret.jpg,2\n", "rows 2, 3.*two grades or patients"),
        ("image,grade,patient\nsecret,1,p\nsecret,1,q\n", "rows 2, 3.*two grades or patients"),
        ("image,grade\nsecret,1\ntwin,2\n", "row 3.*several photographs"),
        (
            "image,grade,eye\nsecret,1,middle\n",
            'row 2: eye is "middle": it must be left, right or empty',
        ),
        (
            "image,grade,gradable\nsecret,1,1\nsecret,1,ruim\n",
            'row 3: gradable is "ruim": it must be 1, 0 or empty',
        ),
        (
            "image,grade,split\nsecret,1,holdout\n",
            'row 2: split is "holdout": it must be train, validation, test or empty',
        ),
    ],
)
def test_errors_name_file_and_rows_and_never_a_photograph(folder, csv, message):
    """What is said may land in a public notebook."""
    with pytest.raises(DrError, match=message) as error:
        read_labels(*folder(csv, "secret.jpg", "x/twin.jpg", "y/twin.jpg"))
    assert "secret" not in str(error.value) and "twin" not in str(error.value)


def test_missing_places_are_said_before_anything_else(folder):
    """No folder, no photographs, no label file."""
    images, labels = folder("image,grade\na,1\n", "a.jpg")
    (images / "empty").mkdir()
    for wrong, message in (
        ((images / "nowhere", labels), "no folder"),
        ((images / "empty", labels), "no photographs"),
        ((images, images / "none.csv"), "no such file"),
        ((images,), "found: 0"),
    ):
        with pytest.raises(DrError, match=message):
            read_labels(*wrong)
