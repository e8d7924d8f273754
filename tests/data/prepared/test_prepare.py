"""Preparing a data set: nothing lost, nothing private let out, the same bytes each time, and
clear errors first.
"""

import hashlib
import json
import os
import shutil
import stat
import subprocess
import sys
from collections import Counter
from pathlib import Path

import cv2
import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from dr_lib.__main__ import main
from dr_lib.data.labels.label_files import LabelTableError
from dr_lib.data.prepared import crops, workers
from dr_lib.data.prepared.folder import Prepared, find_split, verify
from dr_lib.data.prepared.prepare import prepare
from dr_lib.data.prepared.records import ShardError
from dr_lib.data.prepared.split import lock_folder, split
from dr_lib.data.prepared.stream import StoredCrops
from dr_lib.errors import DrError
from dr_lib.files import hash_file
from tests.conftest import ROOT


def draw_eye(number: int) -> np.ndarray:
    """A disc on black with lighter and darker blots that no other number has."""
    image = np.zeros((200, 240, 3), np.uint8)
    cv2.circle(image, (120, 100), 80, (60, 110, 190), -1, cv2.LINE_AA)
    rng = np.random.default_rng(number)
    blots = rng.integers((70, 50, 4, 65), (170, 150, 20, 125), (12, 4))
    for x, y, size, share in blots.tolist():
        colour = [share * value // 100 for value in (60, 110, 190)]
        cv2.circle(image, (x, y), size, colour, -1, cv2.LINE_AA)
    return image


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


@pytest.fixture
def photographs(tmp_path) -> Path:
    """40 photographs of 20 patients."""
    return write_photographs(tmp_path / "photographs")


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


def run(photographs: Path, out: str = "out", **options) -> dict:
    """Prepare into a folder beside the photographs, in this process into shards of 16 unless told
    otherwise.
    """
    options = {"shard_size": 16, "workers": 0} | options
    labels = options.pop("labels", photographs.parent / "labels.csv")
    return prepare(photographs, labels, photographs.parent / out, **options)


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


def list_written(out: Path) -> dict[str, int]:
    """The shards that are there, each with the time at which it was written [ns]."""
    return {path.name: path.stat().st_mtime_ns for path in out.glob("*.tfrecord")}


def test_photographs_in_are_records_plus_rejected(photographs, out):
    """What has no label, no file, no disc or no picture in it is a row of rejected.csv; all the
    rest is a record. One that was mended is cropped, and the other shards stay.
    """
    good = (photographs / "maria_00_left.png").read_bytes()
    cv2.imwrite(str(photographs / "maria_98_left.png"), draw_eye(98))
    (photographs / "maria_00_left.png").write_bytes(b"damaged")
    cv2.imwrite(str(photographs / "maria_01_left.png"), np.zeros((200, 240, 3), np.uint8))
    (photographs / "maria_02_left.png").unlink()
    manifest = run(photographs)
    rejected = read_private(out, "rejected")
    assert manifest["num_photographs"] == 41 == len(read_jpegs(out)) + len(rejected)
    reasons = dict(
        zip(rejected["image"].map(os.path.basename), rejected["reason"], strict=True)
    )
    for name, reason in {
        "maria_98_left.png": "no label",
        "maria_02_left.png": "no such file",
        "maria_00_left.png": "not a picture",
        "maria_01_left.png": "no field of view",
    }.items():
        assert reason in reasons.pop(name)
    before = list_written(out)
    (photographs / "maria_00_left.png").write_bytes(good)
    assert not reasons and run(photographs)["num_rejected"] == 3
    after = list_written(out)
    assert len(after) == len(before) + 1 and before.items() <= after.items()
    assert len(Prepared(out).photographs) == 38 and verify(out)


def test_what_is_published_names_nobody(photographs, out, edit):
    """A row per photograph in both tables, patients on one side, the shares promised; names and
    titles of columns in private alone, and on the screen those of columns that are not used.
    """
    edit(**{"Dra. Zulmira": 1, "Excluir": "x"}).rename(
        columns={"patient": "Prontuário"}
    ).to_csv(photographs.parent / "labels.csv", index=False)
    said = call(photographs)
    assert "label table that are not used: Dra. Zulmira, Excluir\n" in said.output
    assert "patients by Prontuário: 20\n" in said.output
    private = out.with_name("out.private")
    labels = pd.read_csv(out / "labels.csv")
    split = pd.read_csv(out / "split.csv")
    assert list(split) == ["image_id", "group", "split", "reason"]
    assert len(labels) == len(split) == 40
    table = labels.merge(split, on="image_id", validate="1:1")
    assert table.groupby("patient_id")["split"].nunique().tolist() == [1] * 20
    assert 10 <= (table["split"] == "test").sum() <= 14  # 30 % of 40, give or take a patient
    assert (table["referable"] == (table["grade"] >= 2)).all()
    written = b"".join(path.read_bytes().lower() for path in out.iterdir())
    for name in (b"maria", b"zulmira", b"prontu", b"labels.csv,"):
        assert name not in written
    assert stat.S_IMODE(private.stat().st_mode) == 0o700
    assert len((private / "salt").read_bytes()) == 32
    manifest = json.loads((out / "manifest.json").read_text())
    (out / "manifest.json").write_text(json.dumps(manifest | {"schema": 2}))
    for read in (Prepared, lambda _: run(photographs)):
        with pytest.raises(
            ShardError, match="of schema 2, this version reads schema 1: open it"
        ):
            read(out)


def test_the_same_input_and_salt_give_the_same_bytes(photographs, tmp_path):
    """One worker or three, files in another order, any hash seed: the same bytes. Another salt:
    others.
    """
    other = tmp_path / "other"
    private = tmp_path / "private"
    run(photographs, "one", private=private, shard_size=256)
    other.mkdir()
    for path in sorted(photographs.iterdir(), reverse=True):
        (other / path.name).write_bytes(path.read_bytes())
    command = [sys.executable, "-m", "dr_lib", "prepare", f"--images={other}", "--workers=3"]
    command += [f"--labels={tmp_path}/labels.csv", f"--out={tmp_path}/two"]
    environment = os.environ | {"PYTHONHASHSEED": "12345"}
    command.append(f"--private={private}")
    subprocess.run(command, cwd=ROOT, env=environment, check=True)
    first = digests(tmp_path / "one")
    assert first == digests(tmp_path / "two") and len(first) == 8
    run(photographs, "salted")
    assert digests(tmp_path / "salted") != first


def add_copies(photographs: Path, suffix: str, **changes) -> None:
    """Name the first ten photographs once more, as files of another kind, by that patient and
    those grades.
    """
    labels = photographs.parent / "labels.csv"
    table = pd.read_csv(labels)
    names = [f"maria_copy_{number}{suffix}" for number in range(10)]
    for name, copy in zip(table["image"], names, strict=False):
        if suffix == ".png":
            shutil.copy(photographs / name, photographs / copy)
        else:
            cv2.imwrite(str(photographs / copy), cv2.imread(str(photographs / name)))
    pd.concat([table, table[:10].assign(image=names, **changes)]).to_csv(labels, index=False)


def test_nearly_the_same_picture_unites_its_patients(photographs, out):
    """Copies saved otherwise, under other patients' names: both patients are one group, and the
    private table says.
    """
    add_copies(photographs, ".jpg", patient=[f"Ana {number // 2}" for number in range(10)])
    facts = run(photographs)["splits"]["split.csv"]
    table = Prepared(out).photographs
    assert len(table) == 50 and table.groupby("group")["split"].nunique().max() == 1
    assert facts["num_groups"] == 20 == table["patient_id"].nunique() - 5
    pairs = read_private(out, "near_duplicates")
    assert len(pairs) == 10 and (abs(pairs["row"] - pairs["row_2"]) == 40).all()
    assert pairs[["image", "image_2"]].map(lambda path: "maria" in path).all(axis=None)
    is_first = table["patient_id"] == table.groupby("group")["patient_id"].transform("min")
    sides = is_first.map({True: "train", False: "test"})  # a split of one's own
    own = table[["image_id"]].assign(group=table["patient_id"], split=sides)
    own.to_csv(out / "mine.csv", index=False)
    with pytest.raises(ShardError, match="patients who share a picture, are on two sides"):
        Prepared(out, "mine.csv")


@pytest.mark.parametrize(("suffix", "num_excluded"), [(".png", 10), (".jpg", 0)])
def test_copies_with_two_grades_are_named_and_cost_no_crop(
    photographs, out, edit, suffix, num_excluded
):
    """Equal files or not, of one person: all pairs of rows stand in the message. Both copies are
    excluded if that is chosen; with the labels corrected nothing is cropped again.
    """
    add_copies(photographs, suffix, grade=[(number // 2 + 1) % 5 for number in range(10)])
    with pytest.raises(LabelTableError, match="^rows 2 and 42, 3 and 43, .* 11 and 51: copies"):
        run(photographs)
    before = list_written(out)
    run(photographs, exclude_unlike_copies=True)
    sides = Prepared(out).photographs
    excluded = sides[sides["split"] == "excluded"]
    edit(grade=lambda table: [*table["grade"][:40], *table["grade"][:10]])
    assert sorted(excluded["row"]) == [*range(2, 12), *range(42, 52)]
    manifest = run(photographs)
    assert manifest["splits"]["split.csv"]["num_excluded"] == num_excluded
    assert manifest["num_rejected"] == 0 and len(Prepared(out).photographs) == 50
    assert list_written(out) == before and len(before) == 4


def test_the_same_command_again_changes_nothing(photographs, out):
    """Nor does a shard: the bytes are the same. A damaged one is named then."""
    first = run(photographs)
    before = digests(out), list_written(out)
    assert run(photographs) == first and (digests(out), list_written(out)) == before
    shard = next(out.glob("*.tfrecord"))
    shard.write_bytes(shard.read_bytes()[:-20])
    with pytest.raises(ShardError, match=shard.name):
        run(photographs)


def list_files(out: Path) -> dict[int, str]:
    """The SHA-256 of the crop of each row, by its shard's bytes."""
    table = Prepared(out).photographs
    stored = read_jpegs(out)
    return {
        row.row: hashlib.sha256(stored[row.image_id]).hexdigest() for row in table.itertuples()
    }


def test_records_are_a_cache(photographs, out, edit):
    """Of a longer table what is new is cropped, of a changed file its new content, of one that is
    again as it was nothing. Whatever the table no longer names is in none of the tables.
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

    changed = photographs / "maria_00_left.png"  # row 3
    content = changed.read_bytes()
    cv2.imwrite(str(changed), draw_eye(77))
    run(photographs)
    assert list_files(out)[3] != first[3] and len(list_written(out)) == 4
    changed.write_bytes(content)
    shorter = edit(slice(30), grade=whole["grade"])
    assert run(photographs)["splits"]["split.csv"]["seed"] == 4  # as it was divided before
    assert len(list_written(out)) == 4 and list_files(out)[3] == first[3]
    found = Prepared(out).photographs.set_index("row")["grade"].sort_index()
    assert found.tolist() == shorter["grade"].tolist() and verify(out)


@pytest.mark.parametrize("what", ["size", "version", "decoders"])
def test_crops_of_two_kinds_are_not_mixed(photographs, out, what, monkeypatch):
    """With another size, version of the crop, or package that decodes, all are cropped again, and
    the shards of before go once the new tables are there.
    """
    run(photographs)
    before = list_written(out)
    if what == "version":
        monkeypatch.setattr(workers, "VERSION", 99)
    if what == "decoders":
        monkeypatch.setattr(workers.cv2, "__version__", "0.1")
    workers.name_versions.cache_clear()
    manifest = run(photographs, **({"size": 64} if what == "size" else {}))
    monkeypatch.undo()
    workers.name_versions.cache_clear()
    after = list_written(out)
    assert not before.keys() & after.keys() and len(after) == 3 and verify(out)
    jpegs = read_jpegs(out)
    assert len(jpegs) == 40 and manifest["parameters"]["size"] == (
        64 if what == "size" else 299
    )
    sides = {
        cv2.imdecode(np.frombuffer(jpeg, np.uint8), cv2.IMREAD_COLOR).shape[0]
        for jpeg in jpegs.values()
    }
    assert sides == {manifest["parameters"]["size"]}


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
    run(photographs)
    first = list_files(out)[3]
    other = shutil.copytree(photographs, out.parent / "other")
    eyes = [folder / "maria_00_left.png" for folder in (photographs, other)]
    cv2.imwrite(str(eyes[1]), draw_eye(77))
    for eye in eyes:
        eye.write_bytes(eye.read_bytes().ljust(50_000, b"\0"))
        os.utime(eye, ns=(5, 5))
    run(photographs)
    run(other)
    assert list_files(out)[3] != first


def test_what_cannot_be_divided_leaves_the_folder_as_it_was(photographs, out, edit):
    """More photographs, but no patient for the test side: what was prepared is read as before, and
    what was cropped is not cropped again.
    """
    edit(slice(32))
    run(photographs)
    before = digests(out)
    sides = Prepared(out).photographs.set_index("row")["split"].sort_index()
    edit((sides == "train").to_numpy())
    with pytest.raises(LabelTableError, match="split has 0 referable"):
        run(photographs)
    assert digests(out) == before and len(Prepared(out).photographs) == 32
    add_copies(photographs, ".jpg")
    edit(grade=0)
    with pytest.raises(LabelTableError, match="the label table has 0 referable"):
        run(photographs)
    assert digests(out).items() >= before.items() and len(Prepared(out).photographs) == 32


def test_what_trains_is_known_by_content(photographs, out, edit):
    """Rows in another order and patients' numbers without their zeros are the same labels and the
    same split; another grade, or two patients who are one, are others.
    """
    table = edit(patient=[f"{900 + number // 2:06d}" for number in range(40)])
    run(photographs)
    before = Prepared(out).describe()
    written = hash_file(out / "labels.csv")
    (out / "split.csv").rename(out / "mine.csv")
    assert find_split(out, before["split_sha256"]) == "mine.csv"
    (out / "mine.csv").rename(out / "split.csv")

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
        assert hash_file(out / "labels.csv") != written
        found = Prepared(out).describe()
        assert (found["labels_sha256"] == before["labels_sha256"]) == is_same
        assert not is_same or found == before


def test_patients_stay_on_their_side_when_the_table_changes(photographs, out, edit):
    """Corrected grades and more patients move nobody; who must move is said, with the number."""
    whole = edit()
    edit(slice(32))
    run(photographs)
    split(out, seed=2)
    before = Prepared(out).photographs.set_index("image_id")["split"]
    changed = whole.assign(grade=(whole["grade"] + 1) % 5).drop([0, 1])
    changed.to_csv(out.parent / "labels.csv", index=False)
    said = call(photographs)
    assert said.exit_code == 0 and "changed sides" not in said.output, said.output
    after = Prepared(out).photographs.set_index("image_id")["split"]
    both = pd.concat([before, after], axis=1, join="inner")
    assert (len(after), len(both)) == (38, 30)
    assert both.T.duplicated().tolist() == [False, True]
    # row 2 is the first of the table, as in a spreadsheet
    named = Prepared(out).photographs.set_index("row")
    one, other = (named.index[named["split"] == side][0] - 2 for side in ("train", "test"))
    people = changed["patient"].tolist()
    people[one] = people[other]
    edit(patient=people)
    said = call(photographs)
    assert "names or official sides changed: 1\n" in said.output and verify(out), said.output
    assert (Prepared(out).photographs.set_index("image_id")["split"] != after).sum() == 1


def test_patients_keep_their_side_while_they_are_away(photographs, out, edit):
    """Those who left for one call, and those whose files have other names."""
    whole = edit()
    run(photographs)
    before = Prepared(out).photographs.set_index("row")["split"]
    is_train = (before == "train").sort_index().to_numpy()
    edit(slice(12, 40))
    run(photographs)
    names = [f"b{number}.png" for number in range(40)]
    for old, name in zip(whole["image"], names, strict=True):
        (photographs / old).rename(photographs / name)
    whole.assign(image=names).to_csv(out.parent / "labels.csv", index=False)
    run(photographs)
    after = Prepared(out).photographs.set_index("row")["split"].sort_index()
    assert ((after == "train").to_numpy() == is_train).all()
    assert after.equals(before.sort_index())


def test_a_kill_between_the_tables_leaves_the_old_folder_or_the_new(
    photographs, out, edit, monkeypatch
):
    """The old one opens until the manifest is there, and the new one from then on."""
    run(photographs)
    before = digests(out)
    named = Prepared(out).photographs.set_index("row")["split"]
    one, other = (named.index[named == side][0] - 2 for side in ("train", "test"))
    people = edit()["patient"].tolist()
    people[one] = people[other]
    edit(patient=people)
    for name, is_old in (("write_bytes", True), ("place_new", False)):
        with monkeypatch.context() as patch:
            patch.setattr(f"dr_lib.data.prepared.split.{name}", lambda *_: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                run(photographs)
        assert len(Prepared(out).photographs) == 40 and verify(out)
        assert (digests(out)["labels.csv"] == before["labels.csv"]) == is_old
    after = digests(out)
    assert run(photographs)["splits"]["split.csv"]["num_moved"] == 1
    assert digests(out) == after and not [*out.glob("*.new")]


def test_damage_is_not_made_the_new_state(photographs, out):
    """A manifest or a split table that somebody edited is refused, by every command."""
    run(photographs)
    manifest = out / "manifest.json"
    for path, old, new in (
        (out / "split.csv", b"train", b"test"),
        (manifest, b"opencv", b"opencw"),
    ):
        content = path.read_bytes()
        path.write_bytes(content.replace(old, new, 1))
        for call_again in (lambda: run(photographs), lambda: split(out), lambda: Prepared(out)):
            with pytest.raises(ShardError, match=f"{path.name}.*altered|two sides"):
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


def test_a_folder_of_other_things_is_left_alone(photographs, out):
    """Somebody's files, another salt: an error, and nothing is lost, or left; files of one's own
    that begin like shards stay.
    """
    run(photographs)
    (out / "crops-notes.md").write_text("seen")
    (out / "crops-old.csv").write_text("mine")
    before = digests(out)
    run(photographs)
    assert digests(out) == before
    (out.parent / "mine").mkdir()
    (out.parent / "mine" / "thesis.docx").write_text("years of work")
    another = out.parent / "another"
    for folder, private in (("out", another), ("mine", None)):
        with pytest.raises(DrError, match="prepared with another salt than|not empty"):
            run(photographs, folder, private=private)
    assert digests(out) == before
    assert [path.name for path in (out.parent / "mine").iterdir()] == ["thesis.docx"]
    assert not (out.parent / "mine.private").exists()


def test_a_shared_private_folder_loses_nothing(photographs, tmp_path):
    """Two data sets with one salt: the rejected photographs of both stand in it, each with its
    prepared folder.
    """
    second = write_photographs(tmp_path / "second" / "photographs", 20)
    private = tmp_path / "private"
    for folder in (photographs, second):
        (folder / "maria_00_left.png").write_bytes(b"damaged")
    for folder, out in ((photographs, "one"), (second, "two"), (photographs, "one")):
        run(folder, out, private=private)
    rejected = pd.read_csv(private / "rejected.csv")
    assert [Path(folder).name for folder in rejected["data_dir"]] == ["two", "one"]
    images = [str(folder / "maria_00_left.png") for folder in (second, photographs)]
    assert rejected["image"].tolist() == images


def test_names_join_image_ids_and_files(photographs, out):
    """For every photograph of the table, cropped or not, in files of the owner's alone; a cell that
    a spreadsheet would compute is text. A file whose name is not UTF-8 has no label, and stands as
    `predict` writes it; also by a second call.
    """
    (photographs / "maria_00_left.png").write_bytes(b"damaged")
    (photographs / "maria_01_left.png").rename(photographs / "=1+2.png")
    (photographs / "Ana\udc82.png").write_bytes(b"no label")
    labels = photographs.parent / "labels.csv"
    table = pd.read_csv(labels)
    table.loc[3, ["image", "patient"]] = ["=1+2.png", ""]
    table.loc[4, "patient"] = "@7"
    (photographs / "a\rb.png").write_bytes(b"no label")
    table.to_csv(labels, index=False)
    private = out.with_name("out.private")
    private.mkdir(mode=0o755)
    for _ in range(2):
        run(photographs)
    names = read_private(out, "names")
    assert len(names) == 40
    assert names["patient"].iloc[[0, 3, 4]].tolist() == ["maria silva 0", "", "'@7"]
    files = ["maria_00_right.png", "'=1+2.png"]
    assert names["file"].iloc[[0, 3]].tolist() == files
    lost = ("maria_00_left.png", r"Ana\udc82.png", r"a\rb.png")
    rejected = [str(photographs / name) for name in lost]
    assert sorted(read_private(out, "rejected")["image"]) == sorted(rejected)
    known = {*Prepared(out).photographs["image_id"]}
    assert len(known) == 39 and known < {*names["image_id"]}
    modes = {stat.S_IMODE(path.stat().st_mode) for path in private.glob("*.csv")}
    assert modes == {0o600} and len([*private.glob("*.csv")]) == 4


def test_a_link_to_nothing_is_named_by_its_row(photographs):
    """A photograph that is not to be seen stops the preparation with its row, and no name is
    printed.
    """
    (photographs / "maria_03_left.png").unlink()
    (photographs / "maria_03_left.png").symlink_to("nowhere.png")
    with pytest.raises(DrError, match=r"row \d+ cannot be read") as caught:
        run(photographs)
    assert "maria" not in str(caught.value)


def test_a_salt_that_is_public_or_damaged_is_refused(photographs, small_sample, tmp_path):
    """Whoever knows the sample's could find out from a record whose photograph it is; half a salt
    would give other pseudonyms.
    """
    public = (small_sample.with_name("records.private") / "salt").read_bytes()
    (tmp_path / "private").mkdir()
    for salt, reason in (
        (public, "salt, which is public: choose another --private"),
        (b"short", "32 bytes"),
    ):
        (tmp_path / "private" / "salt").write_bytes(salt)
        with pytest.raises(DrError, match=reason):
            run(photographs, private=tmp_path / "private")


def test_nothing_usable_is_an_error(photographs, out):
    """Where no photograph shows a disc there is no data set, and rejected.csv says why."""
    for number, path in enumerate(sorted(photographs.iterdir())):
        cv2.imwrite(str(path), np.full((200, 240, 3), number, np.uint8))
    with pytest.raises(DrError, match="no photograph is usable: .*rejected.csv"):
        run(photographs)
    assert len(read_private(out, "rejected")) == 40


def test_what_was_rejected_is_said_where_the_rest_cannot_be_divided(photographs, edit):
    """All referable eyes are HEIC, as an iPhone saves them: the label table has them, the folder
    has not.
    """
    table = edit()
    is_lost = table["grade"] >= 2
    names = table["image"].mask(is_lost, table["image"].str.replace(".png", ".HEIC"))
    for old, new in zip(table["image"][is_lost], names[is_lost], strict=True):
        (photographs / old).rename(photographs / new).write_bytes(b"\0\0\0\x18ftypheic")
    edit(image=names)
    path = photographs.parent / "out.private" / "rejected.csv"
    reason = f"0 referable photographs .* of 16: .*; 24 labelled .* rejected, .* {path}$"
    with pytest.raises(LabelTableError, match=reason):
        run(photographs)


def test_a_disk_that_fills_up_loses_nothing(photographs, out):
    """A write that fails ends in an error that says what to do; started again with room, it
    completes.
    """
    code = """
import resource, signal, sys
from dr_lib.data.prepared.prepare import prepare
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
prepare(*sys.argv[1:], shard_size=40, workers=0)
"""
    command = [sys.executable, "-c", code, photographs, out.parent / "labels.csv", out]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert "Choose another --out, or free some space" in result.stderr
    assert not [*out.glob("*.tmp"), *out.glob("manifest.json")]
    run(photographs, shard_size=40)
    assert verify(out)


@pytest.mark.parametrize("what", ["out", "private"])
def test_a_folder_that_cannot_be_written_is_named(photographs, tmp_path, what):
    """A path below a file, as good as a read-only disk for any user, is refused with what to do."""
    (tmp_path / "file").write_text("")
    places = {"out": tmp_path / "out", "private": tmp_path / "p", what: tmp_path / "file" / "x"}
    with pytest.raises(DrError, match=f"Choose another --{what}"):
        run(photographs, **places)


def test_crops_that_are_not_ok_are_counted_and_named(photographs, out):
    """Each word of a status counts; the private folder names the files, and no others."""
    for number, size in ((1, (720, 600)), (3, (720, 480))):  # the second is squashed
        large = cv2.resize(draw_eye(number), size, interpolation=cv2.INTER_CUBIC)
        cv2.imwrite(str(photographs / f"maria_0{number // 2}_left.png"), large)
    said = call(photographs)
    statuses = Prepared(out).photographs["status"]
    words = Counter("+".join(statuses).split("+"))
    del words["ok"]
    assert said.exit_code == 0 and {"enlarged", "ellipse"} <= set(words)
    counted = ", ".join(f"{number} {word}" for word, number in words.most_common())
    assert f"explains the words): {counted}\n" in said.output
    named = read_private(out, "names")
    assert sorted(named["status"]) == sorted(statuses)
    assert all((photographs / name).exists() for name in named["file"])


def test_files_without_labels_are_cropped_once(photographs, tmp_path):
    """In the order of the files, into a folder of the owner's alone that names none; the same call
    again crops nothing.
    """
    files = sorted(photographs.iterdir())[:6]
    files[2].write_bytes(b"damaged")
    cache = tmp_path / "cache"
    tables = []
    for _ in range(2):
        tables.append(crops.crop_files(files, cache, method="robust", size=64, workers=0))
        written = list_written(cache)
    assert tables[0].equals(tables[1][tables[0].columns]) and len(written) == 1
    assert tables[0]["image"].tolist() == list(map(str, files))
    assert [bool(reason) for reason in tables[0]["reason"]] == [k == 2 for k in range(6)]
    usable = tables[0][tables[0]["reason"] == ""]
    assert StoredCrops(cache, usable, 64)[:].shape == (5, 64, 64, 3)
    assert stat.S_IMODE(cache.stat().st_mode) == 0o700
    assert not any(b"maria" in path.read_bytes() for path in cache.iterdir())
