"""The label table: labels are matched and checked before time is spent."""

import os
from pathlib import Path

import pytest

from dr_lib.data.labels.tables import read_labels
from dr_lib.errors import DrError


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
    line 1. Photographs in = usable rows + unusable rows.
    """
    csv = "image,grade,patient,eye,split\na1.JPG,0,p,L,train\n\nB2.png,3.0,q,OD,valid\n"
    csv += "sub/c3.jpg,4,q,,test\ngone,2,,,\na1.png,,,,\na1.jpg,0,p,L,train\n"
    images, labels = folder(csv, "a1.jpg", "a1.png", "b2.JPG", "sub/c3.jpg", "other/c3.jpg")
    found = read_labels(images, labels)
    rows = found.table.drop(columns="image").astype(str).agg(" ".join, axis=1)
    assert rows.tolist() == [
        "2 a1.jpg p left 0 train",
        "4 b2.JPG q right 3 validation",
        "5 sub/c3.jpg q  4 test",
    ]
    assert found.table["image"][0] == str(images / "a1.jpg")
    assert found.unusable.values.tolist() == [
        [6, "gone", "no such file"],
        [7, str(images / "a1.png"), "no grade"],
        [8, str(images / "a1.jpg"), "named twice"],
        [0, str(images / "other" / "c3.jpg"), "no label"],
    ]
    assert found.layout == "folder" and found.said == ["patients by patient: 2"]
    assert not found.notices


def test_a_hospital_s_spreadsheet_is_read(folder):
    """As Excel in Brazil saves it: semicolons, Portuguese names, decimal commas and words."""
    rows = (
        "Grau de RD;prontuário;olho;idade;divisão;Arquivo;Gradável\n"
        "3,0;7;OE;64;Treinamento;a.jpg;sim\n"
        "Severa;7;OD;64;treino;d.jpg;S\n"
        "Sem RD;João;Esquerdo;64;teste;e.jpg;\n"
        "moderada;João;DIREITO;64;teste;f.jpg;V\n"
        ";João;DIREITO;64;teste;g.jpg;não\n"
    )
    images, labels = folder(rows, *(f"{name}.jpg" for name in "adefg"))
    labels.write_bytes(rows.encode("windows-1252"))
    found = read_labels(images, labels)
    assert found.unusable["reason"].tolist() == ["ungradable"]
    columns = ["patient", "eye", "grade", "official", "age"]
    assert found.table[columns].astype(str).agg(" ".join, axis=1).tolist() == [
        "7 left 3 train 64",
        "7 right 3 train 64",
        "joão left 0 test 64",
        "joão right 2 test 64",
    ]


def test_finds_the_csv_below_the_root(folder):
    """Without --labels a CSV with image and grade under the folder is enough, whatever lies beside
    it; two of them are a question.
    """
    images, labels = folder("image,grade\na.jpg,1\nb.jpg,2\n", "a.jpg", "b.jpg", "._a.jpg")
    (images / "Maria.csv").write_text('image,grade\na.jpg,"0\nb.jpg,4\n')
    found = read_labels(images.parent)
    assert found.table["grade"].tolist() == [1, 2] and found.unusable.empty
    assert found.said == ["Tables beside it that cannot be read: 1."]
    (images / "more.csv").write_text("image,grade\na.jpg,1\n")
    with pytest.raises(DrError, match="images/more.csv .folder.*--labels"):
        read_labels(images.parent)
    labels.unlink()
    (images / "more.csv").unlink()
    with pytest.raises(DrError, match="row 2: a quotation mark"):
        read_labels(images)


STARTS = {
    "1_left": b"\xff\xd8\xff\xe0",
    "1_right.JPG_": b"\xff\xd8\xff\xdb",
    "2_left.png.part": b"\x89PNG\r\n\x1a\n",
    "4_right.image": b"\0\0\0\x18ftypheic",
}


def test_a_photograph_of_any_suffix_is_found_by_its_content(folder):
    """Files as phones, downloads and scanners name them are photographs, by their suffix too;
    notes, caches and web pages are none, and a pipe is not waited for.
    """
    rare = ["c.DICOM", "d.heic", "f.gif", "g.jp2", "h.jfif"]
    rows = "".join(f"{name},0\n" for name in STARTS)
    others = ["Thumbs.db", "index.html", "empty", "BMC.md"]
    images, labels = folder(f"image,grade\n{rows}", *others, *rare)
    (images / "BMC.md").write_text("BM: a bench mark, P6 and GIF")
    for name, start in STARTS.items():
        (images / name).write_bytes(start + bytes(100))
    os.mkfifo(images / "pipe")
    found = read_labels(images, labels)
    assert found.table["file"].tolist() == [*STARTS]
    assert sorted(map(os.path.basename, found.unusable["image"])) == rare


SEVERAL = "row 2: several photographs have this name"


@pytest.mark.parametrize(
    ("name", "files", "expected"),
    [
        ("C:\\\\Users\\\\X\\\\a.jpg", "a.jpg", "a.jpg"),
        ("\\\\\\\\server\\\\share\\\\a.jpg", "a.jpg", "a.jpg"),
        ("../p/2.jpg", "p/2.jpg", "p/2.jpg"),
        ("q/2.jpg", "p/2.jpg", "no such file"),
        ("Ju\u0301/1.jpg", "J\u00fa/1.jpg", "J\u00fa/1.jpg"),  # composed and decomposed
        ("X/1.jpg", "x/1.jpg X/1.jpg", "X/1.jpg"),
        ("/data/p/1.jpg", "p/1.jpg q/1.jpg", SEVERAL),
        ("a", "a.jpg a.dcm", SEVERAL),  # an export, and what it was exported from
    ],
)
def test_photographs_are_found_by_people_s_paths(folder, name, files, expected):
    """By the name at the end of another machine's path, and of files alike that of exactly the
    name; a name of two is refused.
    """
    images, labels = folder(f"image,grade\n{name},1\n", *files.split())
    if " " in expected:
        with pytest.raises(DrError, match=expected):
            read_labels(images, labels)
    else:
        assert read_labels(images, labels).table["file"].tolist() == [expected]


@pytest.mark.parametrize(
    ("csv", "message"),
    [
        (
            "photo,class\nsecret,1\n",
            "found: 1. A label table needs the columns image and grade",
        ),
        ("Imagem;Laudo\nsecret;1\n", r"with one of the two: .*Imagem.*Laudo"),
        ("image,grade\nsecret,none\n", 'row 2: grade is "none": it must be 0 no .*, or empty'),
        ("image,grade,patient\nsecret,1,p\nsecret,1,q\n", "rows 2, 3.*two grades or patients"),
        (
            "image,grade,eye\nsecret,1,middle\n",
            'row 2: eye is "middle": it must be left, right',
        ),
    ],
)
def test_errors_name_file_and_rows_and_never_a_photograph(folder, csv, message):
    """What is said may land in a public notebook."""
    with pytest.raises(DrError, match=message) as error:
        read_labels(*folder(csv, "secret.jpg"))
    assert "secret" not in str(error.value)


def test_running_numbers_are_no_patients_whatever_other_rows_say(folder):
    """A row without a file, one without a grade and one that is repeated name nobody again."""
    names = ["1_left", "2_right", "3_left", "4_right"]
    rows = [*(f"{name},0" for name in names), "1_left.jpg,0", "1_right,0", "2_left,"]
    csv = "\n".join(["image,grade", *rows])
    found = read_labels(*folder(csv, *(f"{name}.jpg" for name in names), "2_left.jpg"))
    assert "unknown for 4 of 4" in found.notices[0] and found.table["patient"].nunique() == 4
    assert found.table["eye"].tolist() == ["left", "right", "left", "right"]
