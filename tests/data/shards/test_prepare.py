"""Preparing a data set: nothing lost, nothing private let out, the same bytes each time, and clear errors first."""

import hashlib
import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import cv2
import numpy as np
import pandas as pd
import pytest

from dr_lib.data.labels.privacy import PrivateFolderError
from dr_lib.data.shards.prepare import PrepareError, prepare
from dr_lib.data.shards.records import SPLITS, ShardError, read_split, verify
from dr_lib.data.shards.workers import WorkerError

ROOT = Path(__file__).resolve().parents[3]


def draw_eye(number: int) -> np.ndarray:
    """A disc on black with lighter and darker blots that no other number has."""
    image = np.zeros((200, 240, 3), np.uint8)
    cv2.circle(image, (120, 100), 80, (60, 110, 190), -1, cv2.LINE_AA)
    for x, y, size, share in np.random.default_rng(number).integers((70, 50, 4, 65), (170, 150, 20, 125), (12, 4)):
        colour = tuple(int(share) * value // 100 for value in (60, 110, 190))
        cv2.circle(image, (int(x), int(y)), int(size), colour, -1, cv2.LINE_AA)
    return image


def write_photographs(folder: Path, num: int = 40) -> Path:
    """Draw photographs of patients, two each, named like people, with a label table beside their folder."""
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
    """Prepare into a folder beside the photographs, by one worker into two shards unless told otherwise."""
    options = {"num_shards": 2, "workers": 1} | options
    labels = options.pop("labels", photographs.parent / "labels.csv")
    return prepare(photographs, labels, photographs.parent / out, **options)


def digests(folder: Path) -> dict[str, str]:
    """SHA-256 of every file in a folder."""
    return {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in sorted(folder.iterdir())}


def test_photographs_in_are_records_plus_rejected(photographs):
    """What has no label, no file, no disc or no picture in it is a row of rejected.csv; all the rest is a record."""
    cv2.imwrite(str(photographs / "maria_98_left.png"), draw_eye(98))  # no label
    (photographs / "maria_00_left.png").write_bytes(b"damaged")
    cv2.imwrite(str(photographs / "maria_01_left.png"), np.zeros((200, 240, 3), np.uint8))
    (photographs / "maria_02_left.png").unlink()
    manifest = run(photographs)
    rejected = pd.read_csv(photographs.parent / "out.private" / "rejected.csv")
    records = [record for split in SPLITS for record in read_split(photographs.parent / "out", split)]
    assert manifest["num_photographs"] == 41 == len(records) + len(rejected) and len(rejected) == 4
    reasons = dict(zip(rejected["image"].map(lambda path: Path(path).name), rejected["reason"], strict=True))
    assert "no label" in reasons["maria_98_left.png"] and "no such file" in reasons["maria_02_left.png"]
    assert "not a picture" in reasons["maria_00_left.png"] and "no field of view" in reasons["maria_01_left.png"]


def test_what_is_published_names_nobody(photographs):
    """split.csv: a row per record, patients on one side, the shares promised; names in the private folder alone."""
    run(photographs)
    out, private = photographs.parent / "out", photographs.parent / "out.private"
    table = pd.read_csv(out / "split.csv")
    assert len(table) == 40 and table.groupby("patient_id")["split"].nunique().max() == 1
    assert 10 <= (table["split"] == "test").sum() <= 14  # 30 % of 40, give or take a patient
    assert (table["referable"] == (table["grade"] >= 2)).all() and table["image_id"].is_unique
    assert not any(b"maria" in path.read_bytes().lower() for path in out.iterdir())
    assert stat.S_IMODE(private.stat().st_mode) == 0o700 and len((private / "salt").read_bytes()) == 32


def test_the_same_input_and_salt_give_the_same_bytes(photographs):
    """1 or 3 workers, files in another order, a shuffled table, any hash seed: the same bytes. Another salt: others."""
    folder, other, private = photographs.parent, photographs.parent / "other", photographs.parent / "private"
    run(photographs, "one", private=private)
    other.mkdir()
    for path in sorted(photographs.iterdir(), reverse=True):
        (other / path.name).write_bytes(path.read_bytes())
    pd.read_csv(folder / "labels.csv").sample(frac=1, random_state=2).to_csv(folder / "shuffled.csv", index=False)
    options = {"images": other, "labels": folder / "shuffled.csv", "out": folder / "two", "private": private}
    options |= {"workers": 3, "shards": 2}
    command = [sys.executable, "-m", "dr_lib", "prepare", *(f"--{name}={value}" for name, value in options.items())]
    subprocess.run(command, cwd=ROOT, env=os.environ | {"PYTHONHASHSEED": "12345"}, check=True)
    assert digests(folder / "one") == digests(folder / "two") and len(digests(folder / "one")) == 8
    run(photographs, "salted")
    assert digests(folder / "salted") != digests(folder / "one")


def test_nearly_the_same_picture_in_two_splits(photographs):
    """It is an error that names rows, and a private table names the files; with one patient for both it is none."""
    table = pd.read_csv(photographs.parent / "labels.csv")
    copies = table.head(10).assign(image=[f"maria_copy_{number}.jpg" for number in range(10)])
    for name, copy in zip(table["image"], copies["image"], strict=False):
        cv2.imwrite(str(photographs / copy), cv2.imread(str(photographs / name)))
    unaware = copies.assign(patient=[f"Ana {number}" for number in range(10)])
    pd.concat([table, unaware]).to_csv(photographs.parent / "labels.csv", index=False)
    with pytest.raises(PrepareError, match="pairs of photographs in two splits .* such as rows") as caught:
        run(photographs)
    assert "maria" not in str(caught.value).lower() and not (photographs.parent / "out" / "manifest.json").exists()
    private = photographs.parent / "out.private"
    pairs = pd.read_csv(private / "near_duplicates.csv")
    assert list(pairs.columns) == ["row", "image", "split", "row_2", "image_2", "split_2", "distance"] and len(pairs)
    assert (abs(pairs["row"] - pairs["row_2"]) == 40).all() and (pairs["split"] != pairs["split_2"]).all()
    pd.concat([table, copies]).to_csv(photographs.parent / "labels.csv", index=False)
    assert run(photographs, "aware", private=private)["num_photographs"] == 50
    assert not (private / "near_duplicates.csv").exists()


def test_a_complete_folder_is_verified_and_kept(photographs):
    """The same command again changes nothing; a damaged shard is then named."""
    first = run(photographs)
    out = photographs.parent / "out"
    before = digests(out)
    assert run(photographs) == first and digests(out) == before
    shard = next(out.glob("train-*.tfrecord"))
    shard.write_bytes(shard.read_bytes()[:-20])
    with pytest.raises(ShardError, match=shard.name):
        run(photographs)


def test_another_run_does_not_overwrite_a_folder(photographs):
    """Other parameters, other photographs or somebody else's files in the folder are an error, and nothing is lost."""
    run(photographs)
    before = digests(photographs.parent / "out")
    with pytest.raises(PrepareError, match="holds another run \\(other seed\\)"):
        run(photographs, seed=5)
    cv2.imwrite(str(photographs / "maria_00_left.png"), np.pad(draw_eye(1), ((2, 2), (0, 0), (0, 0))))
    with pytest.raises(PrepareError, match="other input_sha256"):
        run(photographs)
    assert digests(photographs.parent / "out") == before
    (photographs.parent / "mine").mkdir()
    (photographs.parent / "mine" / "thesis.docx").write_text("years of work")
    with pytest.raises(PrepareError, match="not empty"):
        run(photographs, "mine")


def test_the_same_photograph_twice(photographs):
    """Under a second name it is rejected, and counted."""
    table = pd.read_csv(photographs.parent / "labels.csv")
    (photographs / "maria_copy_left.png").write_bytes((photographs / "maria_00_right.png").read_bytes())
    row = table.iloc[0].to_dict() | {"image": "maria_copy_left.png"}
    pd.concat([table, pd.DataFrame([row])]).to_csv(photographs.parent / "labels.csv", index=False)
    assert run(photographs)["num_rejected"] == 1
    assert "same photograph as row" in (photographs.parent / "out.private" / "rejected.csv").read_text()


def test_a_link_to_nothing_is_named_by_its_row(photographs):
    """A photograph that is not to be seen stops the preparation with its row, and no name is printed."""
    (photographs / "maria_03_left.png").unlink()
    (photographs / "maria_03_left.png").symlink_to("nowhere.png")
    with pytest.raises(WorkerError, match=r"row \d+ is not to be seen") as caught:
        run(photographs)
    assert "maria" not in str(caught.value)


def test_few_photographs_get_fewer_shards(photographs):
    """By default as many as the smallest split has photographs; more than that is refused to those who ask for it."""
    with pytest.raises(PrepareError, match="validation has 6 photographs for 8 shards: pass --shards 6 or fewer"):
        run(photographs, num_shards=8)
    assert not (photographs.parent / "out").exists()
    assert len(run(photographs, num_shards=None)["shards"]) == 3 * 6


def test_the_salt_of_the_sample_is_for_the_sample_alone(photographs, small_sample, tmp_path):
    """It is public: whoever knows it could find out from a record whose photograph it is."""
    (tmp_path / "private").mkdir()
    salt = (small_sample.with_name("records.private") / "salt").read_bytes()
    (tmp_path / "private" / "salt").write_bytes(salt)
    with pytest.raises(PrivateFolderError, match="salt, which is public: choose another --private"):
        run(photographs, private=tmp_path / "private")


def test_nothing_usable_is_an_error(photographs):
    """Where no photograph shows a disc there is no data set, and rejected.csv says why."""
    for number, path in enumerate(sorted(photographs.iterdir())):
        cv2.imwrite(str(path), np.full((200, 240, 3), number, np.uint8))
    with pytest.raises(PrepareError, match="no usable photograph left"):
        run(photographs)
    assert len(pd.read_csv(photographs.parent / "out.private" / "rejected.csv")) == 40


def test_a_full_disk_stops_it_before_time_is_spent(photographs, monkeypatch):
    """Too little room is said at once, with what is needed."""
    usage = type("usage", (), {"free": 2**18})
    monkeypatch.setattr("shutil.disk_usage", lambda path: usage)
    with pytest.raises(PrepareError, match="MiB free, 40 records need"):
        run(photographs)


def test_a_disk_that_fills_up_loses_nothing(photographs, tmp_path):
    """A write that fails ends in an error that says what to do; started again with room, it completes."""
    code = "import resource, sys; from pathlib import Path; from dr_lib.data.shards.prepare import prepare; "
    code += "resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000)); import signal; "
    code += "signal.signal(signal.SIGXFSZ, signal.SIG_IGN); "
    code += "prepare(Path(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3]), num_shards=1, workers=1)"
    arguments = [str(photographs), str(tmp_path / "labels.csv"), str(tmp_path / "out")]
    result = subprocess.run([sys.executable, "-c", code, *arguments], cwd=ROOT, capture_output=True, text=True)
    assert "Choose another --out, or make room" in result.stderr
    assert not list((tmp_path / "out").glob("*.tmp")) and not (tmp_path / "out" / "manifest.json").exists()
    run(photographs, num_shards=1)
    assert verify(tmp_path / "out")


@pytest.mark.parametrize("what", ["out", "private"])
def test_a_folder_that_cannot_be_written_is_named(photographs, tmp_path, what):
    """A path below a file, as good as a read-only disk for any user, is refused with what to do."""
    (tmp_path / "file").write_text("")
    places = {"out": tmp_path / "out", "private": tmp_path / "p"} | {what: tmp_path / "file" / "x"}
    with pytest.raises((PrepareError, PrivateFolderError), match=f"Choose another --{what}"):
        prepare(photographs, tmp_path / "labels.csv", places["out"], private=places["private"], num_shards=2, workers=1)


def test_a_damaged_salt_is_named(photographs, tmp_path):
    """Half a salt would give other pseudonyms: refused."""
    (tmp_path / "p").mkdir()
    (tmp_path / "p" / "salt").write_bytes(b"short")
    with pytest.raises(PrivateFolderError, match="32 bytes"):
        run(photographs, private=tmp_path / "p")


def test_the_command_line_says_what_is_wrong(photographs, tmp_path):
    """A mistake ends with one line on what to do and a status that is not zero, not with a traceback."""
    options = ["--images", str(tmp_path / "none"), "--out", str(tmp_path / "o")]
    command = [sys.executable, "-m", "dr_lib", "prepare", *options]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert result.returncode == 1 and "there is no folder" in result.stderr and "Traceback" not in result.stderr


@pytest.mark.slow
def test_the_command_line_shows_photographs_a_second(photographs, tmp_path):
    """A bar with the rate, then what was used of what came in; stopped from the keyboard it ends without an error."""
    command = [sys.executable, "-m", "dr_lib", "prepare", "--images", str(photographs), "--workers", "1"]
    command += ["--labels", str(tmp_path / "labels.csv"), "--shards", "2", "--out"]
    result = subprocess.run([*command, str(tmp_path / "o")], cwd=ROOT, capture_output=True, text=True)
    assert result.returncode == 0 and "photographs/s" in result.stderr and "40/40" in result.stderr
    assert "40 photographs in, 0 rejected" in result.stdout
    process = subprocess.Popen([*command, str(tmp_path / "p")], cwd=ROOT, stderr=subprocess.PIPE, text=True)
    while not (tmp_path / "p" / "preparing.json").exists():
        assert process.poll() is None
        time.sleep(0.002)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=20)
    assert process.returncode in (0, 130) and "Error" not in errors
