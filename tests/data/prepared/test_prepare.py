"""Preparing a data set: nothing lost, nothing private let out, the same bytes each time, and
clear errors first.
"""

import hashlib
import json
import os
import signal
import stat
import subprocess
import sys
import time
from collections import Counter
from functools import partial
from pathlib import Path

import cv2
import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from dr_lib.__main__ import main
from dr_lib.data.labels.tables import LabelTableError
from dr_lib.data.prepared.folder import Prepared, find_split, verify
from dr_lib.data.prepared.prepare import prepare
from dr_lib.data.prepared.records import ShardError
from dr_lib.data.prepared.split import lock_folder, split
from dr_lib.errors import DrError

ROOT = Path(__file__).resolve().parents[3]


def draw_eye(number: int) -> np.ndarray:
    """A disc on black with lighter and darker blots that no other number has."""
    image = np.zeros((200, 240, 3), np.uint8)
    cv2.circle(image, (120, 100), 80, (60, 110, 190), -1, cv2.LINE_AA)
    for x, y, size, share in np.random.default_rng(number).integers(
        (70, 50, 4, 65), (170, 150, 20, 125), (12, 4)
    ):
        colour = tuple(int(share) * value // 100 for value in (60, 110, 190))
        cv2.circle(image, (int(x), int(y)), int(size), colour, -1, cv2.LINE_AA)
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


def run(photographs: Path, out: str = "out", **options) -> dict:
    """Prepare into a folder beside the photographs, by one worker into shards of 16 unless told
    otherwise.
    """
    options = {"shard_size": 16, "workers": 1} | options
    labels = options.pop("labels", photographs.parent / "labels.csv")
    return prepare(photographs, labels, photographs.parent / out, **options)


def digests(folder: Path) -> dict[str, str]:
    """SHA-256 of every file in a folder."""
    return {
        p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in sorted(folder.iterdir())
    }


def read_jpegs(folder: Path) -> dict[str, bytes]:
    """The stored crops by image id, each cut out of its shard where the listing says."""
    table = Prepared(folder).photographs
    return {
        row.image_id: (folder / row.shard).read_bytes()[row.offset :][: row.length]
        for row in table.itertuples()
    }


def test_photographs_in_are_records_plus_rejected(photographs):
    """What has no label, no file, no disc or no picture in it is a row of rejected.csv; all the
    rest is a record.
    """
    cv2.imwrite(str(photographs / "maria_98_left.png"), draw_eye(98))  # no label
    (photographs / "maria_00_left.png").write_bytes(b"damaged")
    cv2.imwrite(str(photographs / "maria_01_left.png"), np.zeros((200, 240, 3), np.uint8))
    (photographs / "maria_02_left.png").unlink()
    manifest = run(photographs)
    rejected = pd.read_csv(photographs.parent / "out.private" / "rejected.csv")
    out = photographs.parent / "out"
    assert (
        manifest["num_photographs"] == 41 == len(read_jpegs(out)) + len(rejected)
        and len(rejected) == 4
    )
    reasons = dict(
        zip(
            rejected["image"].map(lambda path: Path(path).name), rejected["reason"], strict=True
        )
    )
    assert (
        "no label" in reasons["maria_98_left.png"]
        and "no such file" in reasons["maria_02_left.png"]
    )
    assert (
        "not a picture" in reasons["maria_00_left.png"]
        and "no field of view" in reasons["maria_01_left.png"]
    )


def test_what_is_published_names_nobody(photographs):
    """A row per photograph in both tables, patients on one side, the shares promised; names in
    private alone.

    A folder of before, with scores of the crops, is still read.
    """
    run(photographs)
    out = photographs.parent / "out"
    private = photographs.parent / "out.private"
    labels = pd.read_csv(out / "labels.csv")
    split = pd.read_csv(out / "split.csv")
    assert (
        list(split) == ["image_id", "group", "split", "reason"]
        and len(labels) == len(split) == 40
    )
    table = labels.merge(split, on="image_id", validate="1:1")
    assert (
        table.groupby("patient_id")["split"].nunique().max() == 1
        and table["patient_id"].nunique() == 20
    )
    assert 10 <= (table["split"] == "test").sum() <= 14  # 30 % of 40, give or take a patient
    assert (table["referable"] == (table["grade"] >= 2)).all()
    assert not any(b"maria" in path.read_bytes().lower() for path in out.iterdir())
    assert (
        stat.S_IMODE(private.stat().st_mode) == 0o700
        and len((private / "salt").read_bytes()) == 32
    )
    manifest = json.loads((out / "manifest.json").read_text())
    for listing in out.glob("crops-*.csv"):  # as an earlier version wrote them
        pd.read_csv(listing, dtype=str).assign(gradability="0.5").to_csv(listing, index=False)
        manifest["files"][listing.name] = hashlib.sha256(listing.read_bytes()).hexdigest()
    (out / "manifest.json").write_text(json.dumps(manifest))
    run(photographs)
    assert "gradability" not in Prepared(out).photographs


def test_the_same_input_and_salt_give_the_same_bytes(photographs):
    """One worker or three, files in another order, any hash seed: the same bytes. Another salt:
    others.
    """
    folder = photographs.parent
    other = photographs.parent / "other"
    private = photographs.parent / "private"
    run(photographs, "one", private=private, shard_size=256)
    other.mkdir()
    for path in sorted(photographs.iterdir(), reverse=True):
        (other / path.name).write_bytes(path.read_bytes())
    options = {
        "images": other,
        "labels": folder / "labels.csv",
        "out": folder / "two",
        "private": private,
    }
    options |= {"workers": 3}
    command = [
        sys.executable,
        "-m",
        "dr_lib",
        "prepare",
        *(f"--{name}={value}" for name, value in options.items()),
    ]
    subprocess.run(command, cwd=ROOT, env=os.environ | {"PYTHONHASHSEED": "12345"}, check=True)
    assert (
        digests(folder / "one") == digests(folder / "two") and len(digests(folder / "one")) == 8
    )
    run(photographs, "salted")
    assert digests(folder / "salted") != digests(folder / "one")


def add_copies(photographs: Path, suffix: str, **changes) -> None:
    """Name the first ten photographs once more, as files of another kind, by that patient and
    those grades.
    """
    labels = photographs.parent / "labels.csv"
    table = pd.read_csv(labels)
    copies = table[:10].assign(
        image=[f"maria_copy_{number}{suffix}" for number in range(10)], **changes
    )
    for name, copy in zip(table["image"], copies["image"], strict=False):
        if suffix == ".png":
            (photographs / copy).write_bytes((photographs / name).read_bytes())
        else:
            cv2.imwrite(str(photographs / copy), cv2.imread(str(photographs / name)))
    pd.concat([table, copies]).to_csv(labels, index=False)


def test_nearly_the_same_picture_unites_its_patients(photographs):
    """Copies saved otherwise, under other patients' names: both patients are one group, and the
    private table says.
    """
    add_copies(photographs, ".jpg", patient=[f"Ana {number // 2}" for number in range(10)])
    manifest = run(photographs)
    table = Prepared(photographs.parent / "out").photographs
    assert len(table) == 50 and table.groupby("group")["split"].nunique().max() == 1
    assert (
        manifest["splits"]["split.csv"]["num_groups"] == 20 == table["patient_id"].nunique() - 5
    )
    assert manifest["splits"]["split.csv"]["largest_group"] == {"images": 4, "patients": 2}
    pairs = pd.read_csv(photographs.parent / "out.private" / "near_duplicates.csv")
    assert len(pairs) == 10 and (abs(pairs["row"] - pairs["row_2"]) == 40).all()
    assert (
        pairs["image"].str.contains("maria").all()
        and pairs["image_2"].str.contains("maria").all()
    )
    is_first = table["patient_id"] == table.groupby("group")["patient_id"].transform("min")
    sides = is_first.map({True: "train", False: "test"})  # a split of one's own
    own = table[["image_id"]].assign(group=table["patient_id"], split=sides)
    own.to_csv(photographs.parent / "out" / "mine.csv", index=False)
    with pytest.raises(ShardError, match="a group with copies is on two sides"):
        Prepared(photographs.parent / "out", "mine.csv")


def test_the_same_file_twice_counts_once(photographs):
    """The later one is excluded from the split with the reason; nothing is lost and nothing
    stops, patients or not.
    """
    add_copies(photographs, ".png", patient="")
    table = pd.read_csv(photographs.parent / "labels.csv").drop(columns=["patient", "eye"])
    table.to_csv(photographs.parent / "labels.csv", index=False)
    manifest = run(photographs)
    table = Prepared(photographs.parent / "out").photographs
    excluded = table[table["split"] == "excluded"]
    assert manifest["num_rejected"] == 0 and len(table) == 50 and len(excluded) == 10
    assert sorted(excluded["reason"]) == sorted(
        f"same file as row {row - 40}" for row in excluded["row"]
    )
    assert manifest["splits"]["split.csv"]["num_excluded"] == 10


@pytest.mark.parametrize("suffix", [".png", ".jpg"])
def test_copies_with_two_grades_are_named_and_cost_no_crop(photographs, suffix):
    """Equal files or not, of one person: all pairs of rows stand in the message. Both copies are
    excluded if that is chosen; with the labels corrected nothing is cropped again.
    """
    add_copies(photographs, suffix, grade=[(number // 2 + 1) % 5 for number in range(10)])
    with pytest.raises(LabelTableError, match="^rows 2 and 42, 3 and 43, .* 11 and 51: copies"):
        run(photographs)
    before = list_written(photographs.parent / "out")
    table = pd.read_csv(photographs.parent / "labels.csv")
    run(photographs, exclude_unlike_copies=True)
    excluded = pd.read_csv(photographs.parent / "out.private" / "excluded.csv")
    files = [str(photographs / table["image"][row - 2]) for row in excluded["row"]]
    assert sorted(excluded["row"]) == [*range(2, 12), *range(42, 52)]
    assert excluded["image"].tolist() == files
    table.loc[40:, "grade"] = table.loc[:9, "grade"].to_numpy()
    table.to_csv(photographs.parent / "labels.csv", index=False)
    num_excluded = 10 if suffix == ".png" else 0
    assert run(photographs)["splits"]["split.csv"]["num_excluded"] == num_excluded
    assert list_written(photographs.parent / "out") == before and len(before) == 4


def list_written(out: Path) -> dict[str, int]:
    """The shards that are there, each with the time at which it was written [ns]."""
    return {path.name: path.stat().st_mtime_ns for path in out.glob("*.tfrecord")}


def test_the_same_command_again_changes_nothing(photographs):
    """Nor does a shard: the bytes are the same. A damaged one is named then."""
    first = run(photographs)
    out = photographs.parent / "out"
    before = digests(out)
    shards = list_written(out)
    assert run(photographs) == first and digests(out) == before and list_written(out) == shards
    shard = next(out.glob("*.tfrecord"))
    shard.write_bytes(shard.read_bytes()[:-20])
    with pytest.raises(ShardError, match=shard.name):
        run(photographs)


def test_a_longer_table_adds_shards(photographs):
    """The old shards stay; a shorter table and corrected grades crop nothing."""
    labels = photographs.parent / "labels.csv"
    out = photographs.parent / "out"
    table = pd.read_csv(labels)
    table[:24].to_csv(labels, index=False)
    assert run(photographs)["num_photographs"] == 40  # 16 have no label
    before = list_written(out)
    table.assign(grade=(table["grade"] + 1) % 5).to_csv(labels, index=False)
    split(out, seed=4)
    assert run(photographs)["num_rejected"] == 0 and len(before) == 2
    assert {name: time for name, time in list_written(out).items() if name in before} == before
    assert len(list_written(out)) == 3 and len(Prepared(out).photographs) == 40
    assert verify(out)["splits"]["split.csv"]["seed"] == 4
    table[:30].to_csv(labels, index=False)
    assert run(photographs)["splits"]["split.csv"]["seed"] == 4  # as it was divided before
    assert len(Prepared(out).photographs) == 30 and len(list_written(out)) == 3
    assert (
        Prepared(out).photographs.set_index("row")["grade"].sort_index().tolist()
        == table["grade"][:30].tolist()
    )


def test_what_cannot_be_divided_leaves_the_folder_as_it_was(photographs):
    """More photographs, but no patient for the test side: what was prepared is read as before, and
    what was cropped is not cropped again.
    """
    labels = photographs.parent / "labels.csv"
    out = photographs.parent / "out"
    table = pd.read_csv(labels)
    table[:32].to_csv(labels, index=False)
    run(photographs)
    before = digests(out)
    sides = Prepared(out).photographs.set_index("row")["split"]
    table[:32][(sides.sort_index() == "train").to_numpy()].to_csv(labels, index=False)
    with pytest.raises(LabelTableError, match="split has 0 referable"):
        run(photographs)
    assert digests(out) == before and len(Prepared(out).photographs) == 32
    add_copies(photographs, ".jpg")
    table = pd.read_csv(labels)
    table.assign(grade=0).to_csv(labels, index=False)
    with pytest.raises(LabelTableError, match="the label table has 0 referable"):
        run(photographs)
    assert digests(out).items() >= before.items() and len(Prepared(out).photographs) == 32


def test_what_trains_is_known_by_content(photographs):
    """Rows in another order and patients' numbers without their zeros are the same labels and the
    same split; another grade, or two patients who are one, are others. Hashes of files, as earlier
    versions wrote them, still find their table.
    """
    labels = photographs.parent / "labels.csv"
    table = pd.read_csv(labels)
    table["patient"] = [f"{900 + number // 2:06d}" for number in range(len(table))]
    table.to_csv(labels, index=False)
    run(photographs)
    out = photographs.parent / "out"
    before = Prepared(out).describe()
    names = ("labels.csv", "split.csv")
    of_files = [hashlib.sha256((out / name).read_bytes()).hexdigest() for name in names]
    older = {"labels_sha256": of_files[0], "split_sha256": of_files[1]}
    assert Prepared(out).describe(older) == before | older
    assert find_split(out, older["split_sha256"]) == "split.csv"
    (out / "split.csv").rename(out / "mine.csv")
    assert find_split(out, before["split_sha256"]) == "mine.csv"
    (out / "mine.csv").rename(out / "split.csv")

    short = table.assign(patient=table["patient"].astype(int))
    for changed in (table[::-1], short):
        changed.to_csv(labels, index=False)
        run(photographs)
        assert hashlib.sha256((out / "labels.csv").read_bytes()).hexdigest() != of_files[0]
        assert Prepared(out).describe() == before
    grade = short.assign(grade=[*short["grade"][:-1], (short["grade"].iloc[-1] + 1) % 5])
    one = short.assign(patient=short["patient"].replace(901, 900))
    for changed in (grade, one):
        changed.to_csv(labels, index=False)
        run(photographs)
        assert Prepared(out).describe()["labels_sha256"] != before["labels_sha256"]


def test_patients_stay_on_their_side_when_the_table_changes(photographs):
    """Corrected grades and more patients move nobody; who must move is said, with the number."""
    labels = photographs.parent / "labels.csv"
    out = photographs.parent / "out"
    table = pd.read_csv(labels)
    table[:32].to_csv(labels, index=False)
    run(photographs)
    split(out, seed=2)
    before = Prepared(out).photographs.set_index("image_id")["split"]
    changed = table.assign(grade=(table["grade"] + 1) % 5).drop([0, 1])
    changed.to_csv(labels, index=False)
    asked = [
        "prepare",
        "--images",
        str(photographs),
        "--labels",
        str(labels),
        "--out",
        str(out),
        "--workers",
        "1",
    ]
    said = CliRunner().invoke(main, asked)
    assert said.exit_code == 0, said.output
    after = Prepared(out).photographs.set_index("image_id")["split"]
    assert (
        len(after) == 38
        and (
            after[after.index.isin(before.index)] == before[before.index.isin(after.index)]
        ).all()
    )
    assert "changed sides" not in said.output
    # row 2 is the first of the table, as in a spreadsheet
    named = Prepared(out).photographs.set_index("row")
    one, other = (named.index[named["split"] == side][0] - 2 for side in ("train", "test"))
    changed.loc[changed.index[one], "patient"] = changed["patient"].iloc[other]
    changed.to_csv(labels, index=False)
    said = CliRunner().invoke(main, asked)
    assert "names or official sides changed: 1\n" in said.output and verify(out), said.output
    assert (Prepared(out).photographs.set_index("image_id")["split"] != after).sum() == 1


def test_a_longer_table_is_not_cropped_by_other_code(photographs, monkeypatch):
    """Crops of two versions of the code are not mixed; without more to crop, the version does
    not matter.
    """
    labels = photographs.parent / "labels.csv"
    out = photographs.parent / "out"
    table = pd.read_csv(labels)
    table[:24].to_csv(labels, index=False)
    run(photographs)
    monkeypatch.setattr("dr_lib.data.prepared.crops.hash_code", lambda: "another")
    run(photographs)
    table.to_csv(labels, index=False)
    with pytest.raises(DrError, match="cropped by another version of the code"):
        run(photographs)
    assert len(Prepared(out).photographs) == 24 and verify(out)


def test_a_folder_is_written_by_one_process_at_a_time(photographs, monkeypatch):
    """Else a split that began before would put back the labels of before."""
    run(photographs)
    out = photographs.parent / "out"
    before = digests(out)
    monkeypatch.setattr("dr_lib.data.prepared.split.LOCK_WAIT_S", 0.0)
    with lock_folder(out):
        for write in (lambda: run(photographs), lambda: split(out, scheme="folds")):
            with pytest.raises(ShardError, match="prepared or split by another process"):
                write()
    assert digests(out) == before


def test_other_crops_do_not_overwrite_a_folder(photographs):
    """Other parameters, photographs or somebody else's files in the folder are an error; nothing
    is lost, or left.
    """
    run(photographs, size=64)
    before = digests(photographs.parent / "out")
    for jpeg in read_jpegs(photographs.parent / "out").values():
        assert cv2.imdecode(np.frombuffer(jpeg, np.uint8), cv2.IMREAD_COLOR).shape == (
            64,
            64,
            3,
        )
    with pytest.raises(DrError, match="holds crops with other settings \\(size\\)"):
        run(photographs)
    with pytest.raises(DrError, match="other settings \\(salt_id"):
        run(photographs, size=64, private=photographs.parent / "another")
    cv2.imwrite(
        str(photographs / "maria_00_left.png"), np.pad(draw_eye(1), ((2, 2), (0, 0), (0, 0)))
    )
    with pytest.raises(
        DrError, match="1 photographs were changed after they were cropped \\(rows 3\\)"
    ):
        run(photographs, size=64)
    assert digests(photographs.parent / "out") == before
    (photographs.parent / "mine").mkdir()
    (photographs.parent / "mine" / "thesis.docx").write_text("years of work")
    with pytest.raises(DrError, match="not empty"):
        run(photographs, "mine")
    listed = {path.name for path in photographs.parent.iterdir()}
    assert listed == {"photographs", "labels.csv", "out", "out.private", "mine"}


def test_a_shared_private_folder_loses_nothing(photographs):
    """Two data sets with one salt: the rejected photographs of both stand in it, each with its
    prepared folder.
    """
    second = write_photographs(photographs.parent / "second" / "photographs", 20)
    for folder in (photographs, second):
        (folder / "maria_00_left.png").write_bytes(b"damaged")
    private = photographs.parent / "private"
    for folder, out in ((photographs, "one"), (second, "two"), (photographs, "one")):
        run(folder, out, private=private)
    rejected = pd.read_csv(private / "rejected.csv")
    assert [Path(folder).name for folder in rejected["data_dir"]] == ["two", "one"]
    assert [Path(image).parents[1].name for image in rejected["image"]] == [
        "second",
        photographs.parent.name,
    ]


def test_names_join_image_ids_and_files(photographs):
    """For every photograph of the table, cropped or not, in files of the owner's alone; a cell that
    a spreadsheet would compute is text.
    """
    (photographs / "maria_00_left.png").write_bytes(b"damaged")
    (photographs / "maria_01_left.png").rename(photographs / "=1+2.png")
    labels = photographs.parent / "labels.csv"
    table = pd.read_csv(labels)
    table.loc[1, "image"] = "maria_00_left.png"
    table.loc[3, ["image", "patient"]] = ["=1+2.png", ""]
    table.loc[4, "patient"] = "@7"
    table.to_csv(labels, index=False)
    private = photographs.parent / "out.private"
    private.mkdir(mode=0o755)
    run(photographs)
    names = pd.read_csv(private / "names.csv", keep_default_na=False)
    assert list(names) == ["image_id", "file", "patient", "data_dir"] and len(names) == 40
    assert names["patient"].iloc[[0, 3, 4]].tolist() == ["maria silva 0", "", "'@7"]
    assert names["file"].iloc[[0, 3]].tolist() == ["maria_00_right.png", "'=1+2.png"]
    known = {*Prepared(photographs.parent / "out").photographs["image_id"]}
    assert len(known) == 39 and known < {*names["image_id"]}
    modes = {stat.S_IMODE(path.stat().st_mode) for path in private.glob("*.csv")}
    assert modes == {0o600} and len([*private.glob("*.csv")]) == 5


def test_a_name_that_is_not_utf8_is_listed(photographs):
    """As `predict` writes it, of a photograph with a label and of one without; also by a second
    call.
    """
    labels = photographs.parent / "labels.csv"
    (photographs / "maria_00_left.png").rename(photographs / "Jo\udc82_left.png")
    (photographs / "Ana\udc82.png").write_bytes(b"no label")
    text = labels.read_text().replace("maria_00_left", r"Jo\udc82_left")
    labels.write_text(text)
    for _ in range(2):
        run(photographs)
    private = photographs.parent / "out.private"
    assert r"Jo\udc82_left.png" in set(pd.read_csv(private / "names.csv")["file"])
    rejected = pd.read_csv(private / "rejected.csv")
    assert rejected["image"].tolist() == [str(photographs / r"Ana\udc82.png")]


def test_a_link_to_nothing_is_named_by_its_row(photographs):
    """A photograph that is not to be seen stops the preparation with its row, and no name is
    printed.
    """
    (photographs / "maria_03_left.png").unlink()
    (photographs / "maria_03_left.png").symlink_to("nowhere.png")
    with pytest.raises(DrError, match=r"row \d+ cannot be read") as caught:
        run(photographs)
    assert "maria" not in str(caught.value)


def test_the_salt_of_the_sample_is_for_the_sample_alone(photographs, small_sample, tmp_path):
    """It is public: whoever knows it could find out from a record whose photograph it is."""
    (tmp_path / "private").mkdir()
    salt = (small_sample.with_name("records.private") / "salt").read_bytes()
    (tmp_path / "private" / "salt").write_bytes(salt)
    with pytest.raises(DrError, match="salt, which is public: choose another --private"):
        run(photographs, private=tmp_path / "private")


def test_nothing_usable_is_an_error(photographs):
    """Where no photograph shows a disc there is no data set, and rejected.csv says why."""
    for number, path in enumerate(sorted(photographs.iterdir())):
        cv2.imwrite(str(path), np.full((200, 240, 3), number, np.uint8))
    with pytest.raises(DrError, match="no photograph is usable: .*rejected.csv"):
        run(photographs)
    assert len(pd.read_csv(photographs.parent / "out.private" / "rejected.csv")) == 40


def test_what_was_rejected_is_said_where_the_rest_cannot_be_divided(photographs):
    """All referable eyes are HEIC, as an iPhone saves them: the label table has them, the folder
    has not.
    """
    labels = photographs.parent / "labels.csv"
    table = pd.read_csv(labels)
    for name in table.loc[table["grade"] >= 2, "image"]:
        (photographs / name).rename(photographs / f"{name[:-4]}.HEIC").write_bytes(
            b"\0\0\0\x18ftypheic"
        )
    table["image"] = table["image"].where(table["grade"] < 2, table["image"].str[:-4] + ".HEIC")
    table.to_csv(labels, index=False)
    with pytest.raises(
        LabelTableError, match="0 referable photographs .* of 16: .*; 24 labelled .* rejected"
    ) as error:
        run(photographs)
    assert str(error.value).endswith(f"{photographs.parent / 'out.private' / 'rejected.csv'}")


def test_a_disk_that_fills_up_loses_nothing(photographs, tmp_path):
    """A write that fails ends in an error that says what to do; started again with room, it
    completes.
    """
    code = (
        "import resource, sys; from pathlib import Path; from dr_lib.data.prepared.prepare"
        " import prepare; "
    )
    code += "resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000)); import signal; "
    code += "signal.signal(signal.SIGXFSZ, signal.SIG_IGN); "
    code += (
        "prepare(Path(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3]), shard_size=40,"
        " workers=1)"
    )
    arguments = [str(photographs), str(tmp_path / "labels.csv"), str(tmp_path / "out")]
    result = subprocess.run(
        [sys.executable, "-c", code, *arguments], cwd=ROOT, capture_output=True, text=True
    )
    assert "Choose another --out, or free some space" in result.stderr
    assert (
        not list((tmp_path / "out").glob("*.tmp"))
        and not (tmp_path / "out" / "manifest.json").exists()
    )
    run(photographs, shard_size=40)
    assert verify(tmp_path / "out")


@pytest.mark.parametrize("what", ["out", "private"])
def test_a_folder_that_cannot_be_written_is_named(photographs, tmp_path, what):
    """A path below a file, as good as a read-only disk for any user, is refused with what to do."""
    (tmp_path / "file").write_text("")
    places = {"out": tmp_path / "out", "private": tmp_path / "p"} | {
        what: tmp_path / "file" / "x"
    }
    with pytest.raises(DrError, match=f"Choose another --{what}"):
        prepare(
            photographs,
            tmp_path / "labels.csv",
            places["out"],
            private=places["private"],
            workers=1,
        )


def test_a_damaged_salt_is_named(photographs, tmp_path):
    """Half a salt would give other pseudonyms: refused."""
    (tmp_path / "p").mkdir()
    (tmp_path / "p" / "salt").write_bytes(b"short")
    with pytest.raises(DrError, match="32 bytes"):
        run(photographs, private=tmp_path / "p")


def test_crops_that_are_not_ok_are_counted_and_named(photographs):
    """Each word of a status counts; the private folder names the files, and no others."""
    for number, size in ((1, (720, 600)), (3, (720, 480))):  # the second is squashed
        large = cv2.resize(draw_eye(number), size, interpolation=cv2.INTER_CUBIC)
        cv2.imwrite(str(photographs / f"maria_0{number // 2}_left.png"), large)
    command = ["prepare", "--images", str(photographs), "--workers", "1"]
    command += ["--labels", str(photographs.parent / "labels.csv")]
    out = photographs.parent / "out"
    said = CliRunner().invoke(main, [*command, "--out", str(out)])
    statuses = Prepared(out).photographs["status"]
    words = Counter(word for status in statuses for word in status.split("+"))
    del words["ok"]
    assert said.exit_code == 0 and {"enlarged", "ellipse"} <= set(words)
    counted = ", ".join(f"{number} {word}" for word, number in words.most_common())
    assert f"explains the words): {counted}\n" in said.output
    named = pd.read_csv(out.with_name("out.private") / "statuses.csv")
    assert sorted(named["status"]) == sorted(statuses[statuses != "ok"])
    assert all(Path(image).exists() for image in named["image"])


@pytest.mark.slow
def test_the_command_line_shows_photographs_a_second(photographs, tmp_path):
    """A bar with the rate, then what was used of what came in; stopped from the keyboard it ends
    without an error.
    """
    command = [
        sys.executable,
        "-m",
        "dr_lib",
        "prepare",
        "--images",
        str(photographs),
        "--workers",
        "1",
    ]
    command += ["--labels", str(tmp_path / "labels.csv"), "--out"]
    result = subprocess.run(
        [*command, str(tmp_path / "o")], cwd=ROOT, capture_output=True, text=True
    )
    assert (
        result.returncode == 0 and "photographs/s" in result.stderr and "40/40" in result.stderr
    )
    assert "40 photographs in, 0 rejected" in result.stdout
    # what is started in the background ignores it
    heed = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    stopped = [*command, str(tmp_path / "p")]
    process = subprocess.Popen(
        stopped, cwd=ROOT, stderr=subprocess.PIPE, text=True, preexec_fn=heed
    )
    while not (tmp_path / "p" / "crops.json").exists():
        assert process.poll() is None
        time.sleep(0.002)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=20)
    assert process.returncode in (0, 130) and "Error" not in errors


def test_files_of_one_length_that_swap_names_are_noticed(photographs):
    """Uncompressed pictures of a camera are all as long: their content tells."""
    table = pd.read_csv(photographs.parent / "labels.csv")
    for path in list(photographs.iterdir()):
        cv2.imwrite(str(path.with_suffix(".bmp")), cv2.imread(str(path)))
        path.unlink()
    table.assign(image=table["image"].str.replace(".png", ".bmp")).to_csv(
        photographs.parent / "labels.csv", index=False
    )
    run(photographs)
    one = photographs / "maria_00_right.bmp"
    other = photographs / "maria_02_left.bmp"
    one.rename(photographs / "aside"), other.rename(one), (photographs / "aside").rename(other)
    with pytest.raises(
        DrError, match=r"2 photographs were changed after they were cropped \(rows 2, 7\)"
    ):
        run(photographs)


def test_a_rejected_photograph_that_was_mended_is_cropped(photographs):
    """The other shards stay."""
    good = (photographs / "maria_00_left.png").read_bytes()
    (photographs / "maria_00_left.png").write_bytes(b"damaged")
    assert run(photographs)["num_rejected"] == 1
    before = list_written(photographs.parent / "out")
    (photographs / "maria_00_left.png").write_bytes(good)
    assert run(photographs)["num_rejected"] == 0
    after = list_written(photographs.parent / "out")
    assert len(after) == len(before) + 1 and before.items() <= after.items()
    assert len(Prepared(photographs.parent / "out").photographs) == 40 and verify(
        photographs.parent / "out"
    )
