"""Preparing a data set: nothing lost, nothing private let out, the same bytes each time, and
clear errors first.
"""

import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import cv2
import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from dr_lib.__main__ import main
from dr_lib.data.prepared import crops, workers
from dr_lib.data.prepared.folder import Prepared, verify
from dr_lib.data.prepared.prepare import _keep_private, prepare
from dr_lib.data.prepared.records import ShardError
from dr_lib.data.prepared.split import lock_folder, split
from dr_lib.errors import DrError
from dr_lib.files import hash_file
from tests.conftest import ROOT
from tests.data.photograph.pictures import draw_fov


def draw_eye(number: int) -> np.ndarray:
    """A field of view with lighter and darker blots that no other number has."""
    return draw_fov(240, 200, 120.05 + number / 7, 100.0, 80.0)


def write_photographs(folder: Path, num: int = 40) -> Path:
    """Draw photographs of patients, two each, named like people, with a label table beside their
    folder.
    """
    folder.mkdir(parents=True)
    rows = []
    for number in range(num):
        eye = "left" if number % 2 else "right"
        name = f"maria_{number // 2:02d}_{eye}.png"
        cv2.imwrite(str(folder / name), draw_eye(number))
        rows.append((name, f"Maria Silva {number // 2}", eye, (number // 2) % 5))
    table = pd.DataFrame(rows, columns=["image", "patient", "eye", "grade"])
    table.to_csv(folder.parent / "labels.csv", index=False)
    return folder


@pytest.fixture(scope="module")
def drawn(tmp_path_factory) -> Path:
    """The photographs that each test copies."""
    return write_photographs(tmp_path_factory.mktemp("drawn") / "photographs").parent


@pytest.fixture
def photographs(drawn, tmp_path) -> Path:
    """40 photographs of 20 patients."""
    return shutil.copytree(drawn, tmp_path, dirs_exist_ok=True) / "photographs"


@pytest.fixture
def out(tmp_path) -> Path:
    """Where they are prepared, unless a test says otherwise."""
    return tmp_path / "out"


@pytest.fixture
def edit(tmp_path):
    """Return a function that writes rows of the label table with changed columns."""
    path = tmp_path / "labels.csv"

    def write(rows=slice(None), **columns) -> pd.DataFrame:
        table = pd.read_csv(path)[rows].assign(**columns)
        table.to_csv(path, index=False)
        return table

    return write


@pytest.fixture(autouse=True)
def small_shards(monkeypatch):
    """Of 16 photographs."""
    monkeypatch.setattr(crops, "SHARD_SIZE", 16)


def run(photographs: Path, out: str = "out", **options) -> dict:
    """Prepare into a folder beside the photographs, in this process."""
    folder = photographs.parent
    return prepare(photographs, folder / "labels.csv", folder / out, workers=0, **options)


def call(photographs: Path, *more: str):
    """Call the command; return what it said."""
    folder = photographs.parent
    command = f"prepare --images {photographs} --labels {folder}/labels.csv --out {folder}/out"
    return CliRunner().invoke(main, [*command.split(), "--workers", "1", *more])


def digests(folder: Path) -> dict[str, str]:
    """SHA-256 of every file in a folder."""
    return {path.name: hash_file(path) for path in sorted(folder.iterdir())}


def read_private(out: Path, name: str) -> pd.DataFrame:
    """A table of the private folder, as texts but for rows."""
    return pd.read_csv(out.with_name("out.private") / f"{name}.csv", keep_default_na=False)


def read_jpegs(folder: Path) -> dict[str, bytes]:
    """The stored crops by image id, each cut out of its shard where the listing says."""
    table = Prepared(folder).photographs
    return {
        row.image_id: (folder / row.shard).read_bytes()[row.offset :][: row.length]
        for row in table.itertuples()
    }


def read_sides(out: Path) -> pd.Series:
    """The sides of the photographs, by their rows in order."""
    return Prepared(out).photographs.set_index("row")["split"].sort_index()


def list_written(out: Path) -> dict[str, int]:
    """The shards that are there, each with the time at which it was written [ns]."""
    return {path.name: path.stat().st_mtime_ns for path in out.glob("*.tfrecord")}


def list_files(out: Path) -> dict[int, bytes]:
    """The crop of each row."""
    stored = read_jpegs(out)
    return {row.row: stored[row.image_id] for row in Prepared(out).photographs.itertuples()}


def test_photographs_in_are_records_plus_rejected(photographs, out):
    """What has no label, no file, no disc or no picture in it is a row of rejected.csv; all the
    rest is a record. One that was mended is a record then.
    """
    good = (photographs / "maria_00_left.png").read_bytes()
    cv2.imwrite(str(photographs / "maria_98_left.png"), draw_eye(98))
    (photographs / "maria_00_left.png").write_bytes(b"damaged")
    cv2.imwrite(str(photographs / "maria_01_left.png"), np.zeros((200, 240, 3), np.uint8))
    (photographs / "maria_02_left.png").unlink()
    manifest = run(photographs)
    rejected = read_private(out, "rejected")
    assert manifest["num_photographs"] == 41 == len(read_jpegs(out)) + len(rejected)
    names = rejected["image"].map(os.path.basename)
    reasons = dict(zip(names, rejected["reason"], strict=True))
    for name, reason in {
        "maria_98_left.png": "no label",
        "maria_02_left.png": "no such file",
        "maria_00_left.png": "not a picture",
        "maria_01_left.png": "no field of view",
    }.items():
        assert reason in reasons.pop(name)
    (photographs / "maria_00_left.png").write_bytes(good)
    assert not reasons and run(photographs)["num_rejected"] == 3
    assert len(Prepared(out).photographs) == 38 and verify(out)


def test_what_is_published_names_nobody(photographs, out, edit):
    """Names and titles of columns are in private alone, and on the screen those of columns that are
    not used.
    """
    table = edit(**{"Dra. Zulmira": 1, "Excluir": "x"})
    table = table.rename(columns={"patient": "Prontuário"})
    table.to_csv(photographs.parent / "labels.csv", index=False)
    said = call(photographs)
    assert "label table that are not used: Dra. Zulmira, Excluir\n" in said.output
    assert "patients by Prontuário: 20\n" in said.output
    private = out.with_name("out.private")
    table = Prepared(out).photographs
    assert table.groupby("patient_id")["split"].nunique().tolist() == [1] * 20
    assert (table["referable"] == (table["grade"] >= 2)).all()
    written = b"".join(path.read_bytes().lower() for path in out.iterdir())
    for name in (b"maria", b"zulmira", b"prontu", b"labels.csv,"):
        assert name not in written
    assert stat.S_IMODE(private.stat().st_mode) == 0o700
    assert len((private / "salt").read_bytes()) == 32


def test_the_same_input_and_salt_give_the_same_bytes(photographs, tmp_path, monkeypatch):
    """One worker or three, files in another order, any hash seed: the same bytes. Another salt:
    others.
    """
    monkeypatch.setattr(crops, "SHARD_SIZE", 256)
    private = tmp_path / "private"
    run(photographs, "one", private=private)
    other = tmp_path / "other"
    other.mkdir()
    for path in sorted(photographs.iterdir(), reverse=True):
        (other / path.name).write_bytes(path.read_bytes())
    command = [sys.executable, "-m", "dr_lib", "prepare", f"--images={other}", "--workers=3"]
    command.append("--reread")
    command += [f"--labels={tmp_path}/labels.csv", f"--out={tmp_path}/two"]
    environment = os.environ | {"PYTHONHASHSEED": "12345"}
    command.append(f"--private={private}")
    subprocess.run(command, cwd=ROOT, env=environment, check=True)
    first = digests(tmp_path / "one")
    assert first == digests(tmp_path / "two") and len(first) == 9
    run(photographs, "salted")
    assert digests(tmp_path / "salted") != first


@pytest.mark.parametrize("suffix", [".png", ".jpg"])
def test_copies_unite_their_patients_and_are_excluded_where_grades_differ(
    photographs, out, edit, suffix
):
    """Equal files or saved otherwise, under other patients' names: two patients are one group.
    Both copies are excluded where grades differ, which is said, until the labels are corrected.
    """
    table = edit()
    copies = table[:10].assign(
        image=[f"copy_{number}{suffix}" for number in range(10)],
        patient=[f"Ana {number // 2}" for number in range(10)],
    )
    for name, copy in zip(table["image"], copies["image"], strict=False):
        picture = (photographs / name).read_bytes()
        if suffix == ".jpg":
            pixels = np.frombuffer(picture, np.uint8)
            picture = cv2.imencode(".jpg", cv2.imdecode(pixels, cv2.IMREAD_COLOR))[1]
        (photographs / copy).write_bytes(picture)
    both = pd.concat([table, copies], ignore_index=True)
    other = both["grade"].mask(both.index == 40, 3)
    labels = out.parent / "labels.csv"
    both.assign(grade=other).to_csv(labels, index=False)
    facts = run(photographs)
    assert any("different grades and are excluded: 1 pairs" in said for said in facts["said"])
    sides = read_sides(out)
    assert {2, 42} <= {*sides[sides == "excluded"].index}
    pairs = read_private(out, "near_duplicates")
    assert len(pairs) == 10 and (abs(pairs["row"] - pairs["row_2"]) == 40).all()
    both.to_csv(labels, index=False)
    facts = run(photographs)["splits"]["split.csv"]
    assert (facts["num_groups"], facts["num_excluded"]) == (20, 10 * (suffix == ".png"))
    table = Prepared(out).photographs
    assert table[table["split"] != "excluded"].groupby("group")["split"].nunique().max() == 1


def test_records_are_a_cache(photographs, out, edit):
    """Of a longer table what is new is cropped, of a changed file its new content.
    Whatever the table no longer names is in none of the tables.
    """
    whole = edit()
    edit(slice(24))
    assert run(photographs)["num_photographs"] == 40  # 16 have no label
    before = list_written(out)
    first = list_files(out)
    split(out, seed=4)
    whole.assign(grade=(whole["grade"] + 1) % 5).to_csv(out.parent / "labels.csv", index=False)
    assert run(photographs)["num_rejected"] == 0
    after = list_written(out)
    assert (len(before), len(after)) == (2, 3) and before.items() <= after.items()
    assert list_files(out).items() > first.items()

    cv2.imwrite(str(photographs / "maria_00_left.png"), draw_eye(77))  # row 3
    shorter = edit(slice(30), grade=whole["grade"])
    assert run(photographs)["splits"]["split.csv"]["seed"] == 4  # as it was divided before
    assert len(list_written(out)) == 4 and list_files(out)[3] != first[3]
    found = Prepared(out).photographs.set_index("row")["grade"].sort_index()
    assert found.tolist() == shorter["grade"].tolist() and verify(out)


@pytest.mark.parametrize("what", ["size", "version"])
def test_crops_of_two_kinds_are_not_mixed(photographs, out, what, monkeypatch):
    """With another size or version of what crops or decodes all are cropped again, and the shards
    of before go once the new tables are there.
    """
    run(photographs)
    before = list_written(out)
    if what == "version":
        monkeypatch.setattr(crops, "name_versions", lambda: "others")
    size = 64 if what == "size" else 299
    run(photographs, size=size)
    after = list_written(out)
    assert not before.keys() & after.keys() and len(after) == 3 and verify(out)
    for jpeg in read_jpegs(out).values():
        pixels = cv2.imdecode(np.frombuffer(jpeg, np.uint8), cv2.IMREAD_COLOR)
        assert pixels.shape == (size, size, 3)


def test_a_file_as_it_was_is_not_read_again(photographs, out, monkeypatch):
    """By name, length and time; of a new time the content counts, and --reread reads all."""
    run(photographs)
    before = list_written(out)
    read = []
    monkeypatch.setattr(
        crops, "read_content", lambda path: read.append(path) or workers.read_content(path)
    )
    run(photographs)
    assert read == []
    touched = photographs / "maria_03_left.png"
    os.utime(touched, ns=(5, 5))
    run(photographs)
    run(photographs)
    assert read == [str(touched)]
    run(photographs, reread=True)
    assert len(read) == 41 and list_written(out) == before


def test_another_folder_with_the_same_names_has_its_own_crops(photographs, out):
    """Of equal lengths and times, too."""
    other = shutil.copytree(photographs, out.parent / "other")
    eyes = [folder / "maria_00_left.png" for folder in (photographs, other)]
    cv2.imwrite(str(eyes[1]), draw_eye(77))
    found = []
    for eye in eyes:
        eye.write_bytes(eye.read_bytes().ljust(50_000, b"\0"))
        os.utime(eye, ns=(5, 5))
        run(eye.parent)
        found.append(list_files(out)[3])
    assert found[0] != found[1]


def test_what_cannot_be_divided_leaves_the_folder_as_it_was(photographs, out, edit):
    """No patient for the test side: what was prepared is read as before."""
    run(photographs)
    before = digests(out)
    edit((read_sides(out) == "train").to_numpy())
    with pytest.raises(DrError, match="split has 0 referable"):
        run(photographs)
    assert digests(out) == before and len(Prepared(out).photographs) == 40


def test_what_trains_is_known_by_content(photographs, out, edit):
    """Rows in another order and patients' numbers without their zeros are the same labels and the
    same split; another grade, or two patients who are one, are others.
    """
    table = edit(patient=[f"{900 + number // 2:06d}" for number in range(40)])
    run(photographs)
    before = Prepared(out).describe()
    short = table.assign(patient=table["patient"].astype(int))
    last = short["grade"].mask(short.index == 39, (short["grade"] + 1) % 5)
    for changed, is_same in (
        (table[::-1], True),
        (short, True),
        (short.assign(grade=last), False),
        (short.assign(patient=short["patient"].replace(901, 900)), False),
    ):
        changed.to_csv(out.parent / "labels.csv", index=False)
        run(photographs)
        found = Prepared(out).describe()
        assert (found["labels_sha256"] == before["labels_sha256"]) == is_same
        assert not is_same or found == before


def test_patients_stay_on_their_side(photographs, out, edit):
    """Corrected grades, more patients, those who were away for one call and those whose files have
    other names move nobody.
    """
    whole = edit()
    edit(slice(32))
    run(photographs)
    split(out, seed=2)
    before = read_sides(out)
    edit(slice(6, 32), grade=lambda table: (table["grade"] + 1) % 5)
    run(photographs)
    names = [f"b{number}.png" for number in range(40)]
    for old, name in zip(whole["image"], names, strict=True):
        (photographs / old).rename(photographs / name)
    labels = out.parent / "labels.csv"
    whole.assign(image=names).to_csv(labels, index=False)
    said = call(photographs)
    assert said.exit_code == 0 and "changed sides" not in said.output, said.output
    after = read_sides(out)
    assert len(after) == 40 and after[:32].equals(before)


def test_other_splits_are_written_anew_after_labels_changed(
    photographs, out, edit, monkeypatch
):
    """By the same command under the same name; until then there is none. After a kill before the
    manifest the folder is read as before, verifying names what is gone, and the next call goes on.
    """
    run(photographs)
    split(out, seed=3, out="split-3.csv")
    edit(grade=lambda table: table["grade"].replace(0, 1))
    with monkeypatch.context() as patch, pytest.raises(TypeError):
        patch.setattr("dr_lib.data.prepared.split.write_manifest", None)
        run(photographs)
    assert len(Prepared(out).photographs) == 40
    with pytest.raises(ShardError, match="split-3.csv: missing"):
        verify(out)
    run(photographs)
    with pytest.raises(ShardError, match="no split table split-3.csv"):
        Prepared(out, "split-3.csv")
    split(out, seed=3, out="split-3.csv")
    assert len(Prepared(out, "split-3.csv").photographs) == 40 and verify(out)


def test_damage_is_not_made_the_new_state(photographs, out):
    """A manifest or a table that somebody edited is refused, by every command."""
    run(photographs)
    for name, old, new in (
        ("split.csv", b"train", b"test"),
        ("sides.csv", b"train", b"test"),
        ("manifest.json", b"opencv", b"opencw"),
    ):
        path = out / name
        content = path.read_bytes()
        path.write_bytes(content.replace(old, new, 1))
        for call_again in (lambda: run(photographs), lambda: split(out), lambda: Prepared(out)):
            with pytest.raises(ShardError, match=f"{name}.*altered"):
                call_again()
        path.write_bytes(content)
    run(photographs)


def test_a_folder_is_written_by_one_process_at_a_time(photographs, out, monkeypatch):
    """Else a split that began before would put back the labels of before."""
    run(photographs)
    before = digests(out)
    monkeypatch.setattr("dr_lib.data.prepared.split.LOCK_WAIT_S", 0.0)
    with lock_folder(out):
        for write in (lambda: run(photographs), lambda: split(out, scheme="folds")):
            with pytest.raises(ShardError, match="prepared or split by another process"):
                write()
    assert digests(out) == before


def test_a_folder_of_other_things_is_left_alone(photographs, out, small_sample):
    """Another salt, one that is public, somebody's files: an error, and nothing is lost; nor is
    what somebody laid beside the shards.
    """
    run(photographs)
    beside = [out / f"crops-00000.{end}" for end in ("zip", "old.tfrecord")]
    for path in beside:
        path.write_text("years of work")
    run(photographs)
    assert all(path.exists() for path in beside)
    before = digests(out)
    (out.parent / "mine").mkdir()
    (out.parent / "mine" / "thesis.docx").write_text("years of work")
    public = (small_sample.with_name("records.private") / "salt").read_bytes()
    for folder, salt, reason in (
        ("out", b"s" * 32, "prepared with another salt than"),
        ("mine", b"s" * 32, "not empty"),
        ("new", public, "salt, which is public: choose another --private"),
    ):
        private = out.parent / "another"
        private.mkdir(exist_ok=True)
        (private / "salt").write_bytes(salt)
        with pytest.raises(DrError, match=reason):
            run(photographs, folder, private=private)
    assert digests(out) == before
    assert [path.name for path in (out.parent / "mine").iterdir()] == ["thesis.docx"]


def test_private_tables_name_every_file(photographs, out):
    """Cropped or not, in files of the owner's alone, with a line for each prepared folder. A file
    whose name is not UTF-8 has no label, and stands as `predict` writes it.
    """
    (photographs / "maria_00_left.png").write_bytes(b"damaged")
    (photographs / "Ana\udc82.png").write_bytes(b"no label")
    private = out.with_name("out.private")
    for folder in ("out", "second", "out"):
        run(photographs, folder, private=private)
    names = read_private(out, "names")
    assert [Path(name).name for name in names["data_dir"]] == ["second"] * 40 + ["out"] * 40
    assert names["patient"][0] == "maria silva 0" and names["file"][1] == "maria_00_left.png"
    lost = ("maria_00_left.png", r"Ana\udc82.png")
    rejected = [str(photographs / name) for name in lost]
    assert sorted(read_private(out, "rejected")["image"]) == sorted(rejected * 2)
    known = {*Prepared(out).photographs["image_id"]}
    assert len(known) == 39 and known < {*names["image_id"]}
    modes = {stat.S_IMODE(path.stat().st_mode) for path in private.glob("*.csv")}
    assert modes == {0o600} and len([*private.glob("*.csv")]) == 3


def test_a_spreadsheet_computes_no_name(tmp_path):
    """An apostrophe makes text of what would be a formula (OWASP, CSV injection)."""
    files = ["=1+2.png", "+1.png", "-1.png", "@a.png", "a=1.png"]
    _keep_private(tmp_path, tmp_path, "names.csv", pd.DataFrame({"file": files}))
    written = pd.read_csv(tmp_path / "names.csv")["file"].tolist()
    assert written == ["'=1+2.png", "'+1.png", "'-1.png", "'@a.png", "a=1.png"]


def test_a_link_to_nothing_is_named_by_its_row(photographs):
    """A photograph that is not to be seen stops the preparation, and no name is printed."""
    (photographs / "maria_03_left.png").unlink()
    (photographs / "maria_03_left.png").symlink_to("nowhere.png")
    with pytest.raises(DrError, match=r"row \d+ cannot be read") as caught:
        run(photographs)
    assert "maria" not in str(caught.value)


def test_a_disk_that_fills_up_loses_nothing(photographs, out):
    """A write that fails ends in a sentence that names the file; started again with room, it
    completes.
    """
    code = """
import resource, signal, sys
from dr_lib.__main__ import main
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
main()
"""
    options = f"prepare --images {photographs} --labels {out.parent}/labels.csv --out {out}"
    command = [sys.executable, "-c", code, *options.split(), "--workers=1"]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert "crops-00000.tfrecord: File too large" in result.stderr, result.stderr
    assert not [*out.glob("*.tmp"), *out.glob("manifest.json")]
    run(photographs)
    assert verify(out)
