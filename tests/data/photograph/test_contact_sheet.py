"""Contact sheets: every status, grade and look is on them, circles lie where the retina is, and no name appears."""

import io
import shutil

import cv2
import numpy as np
import pandas as pd
import pytest
from matplotlib.text import Text
from PIL import Image, ImageOps

from dr_lib.data.labels.privacy import open_private
from dr_lib.data.labels.tables import read_labels
from dr_lib.data.photograph import contact_sheet as sheet
from dr_lib.data.photograph.crop import Circle
from dr_lib.data.photograph.pixels import encode_jpeg
from dr_lib.data.shards.records import SPLITS, Record, ShardError, read_split, to_example, write_shard
from dr_lib.data.shards.tfrecord import frame
from dr_lib.data.synthetic import draw_odd_files


@pytest.fixture
def described(tmp_path) -> pd.DataFrame:
    """Brown crops that hardly differ; one is nearly black, one has a rare status, one a rare grade."""
    rng = np.random.default_rng(0)
    colours = np.array([150, 80, 30]) + rng.integers(-3, 4, (60, 3))
    colours[41] = 8, 4, 2
    encoded = [encode_jpeg(np.tile(colour.astype(np.uint8), (299, 299, 1))) for colour in colours]
    records = [Record(crop, 0, "", str(i), "", 99.0, 99.0, 90.0, "ok") for i, crop in enumerate(encoded)]
    shards = [tmp_path / "train-0.tfrecord", tmp_path / "test-0.tfrecord"]
    for i, shard in enumerate(shards):
        write_shard(shard, [frame(to_example(record)) for record in records[i::2]])
    table = pd.DataFrame({"row": range(2, 62), "image": "maria.jpg", "grade": 0, "status": "ok"})
    table = table.assign(image_id=[str(i) for i in range(60)], shard=[str(shard) for shard in shards] * 30)
    table.loc[7, "status"], table.loc[19, "grade"] = "clipped+truncated", 4
    return table.assign(x=99.0, y=99.0, radius=90.0)


def words(figure) -> list[str]:
    """All that is written on a figure."""
    return [text.get_text() for text in figure.findobj(Text) if text.get_text()]


def test_what_is_rare_is_shown(described):
    """Of 60 photographs four are chosen: among them the only clipped one, the only grade 4 and the only dark one."""
    chosen = sheet.choose_looks(described, 4)
    assert len(chosen) == 4 and {9, 21, 43} <= set(chosen["row"])
    assert chosen["grade"].is_monotonic_increasing


def test_the_seed_chooses(described):
    """The same seed chooses the same photographs, another one others; never more than there are, none twice."""
    first, again, other = (set(sheet.choose_looks(described, 12, seed)["row"]) for seed in (0, 0, 1))
    assert first == again != other and len(first) == 12
    assert sorted(sheet.choose_looks(described[:5], 12)["row"]) == [2, 3, 4, 5, 6]


def test_each_record_gets_its_own_photograph(small_sample):
    """The salt leads from a record to its row: the circle is the one that row was drawn with, the grade the table's."""
    folder = small_sample.with_name("photographs")
    table = read_labels(folder, folder / "labels.csv").table
    matched = sheet.match_records(table, folder, small_sample, small_sample.with_name("records.private"))
    truth = pd.read_csv(folder / "circles.csv")
    assert matched["row"].tolist() == table["row"].tolist() and matched["image"].tolist() == table["image"].tolist()
    assert matched["grade"].tolist() == table["grade"].tolist()
    assert np.allclose(matched["radius"], truth["radius"], rtol=0.01) and np.allclose(matched["x"], truth["x"], atol=5)


def test_each_photograph_shown_has_its_own_crop(small_sample):
    """The JPEG is the record's of that pseudonym; what is not shown has none in memory."""
    folder = small_sample.with_name("photographs")
    table = read_labels(folder, folder / "labels.csv").table
    matched = sheet.match_records(table, folder, small_sample, small_sample.with_name("records.private"))
    assert "encoded" not in matched
    stored = {r.image_id: r.encoded for split in SPLITS for r in read_split(small_sample, split)}
    shown = sheet.choose_looks(matched, 6)
    assert [stored[image_id] for image_id in shown["image_id"]] == shown["encoded"].tolist()


def test_refuses_a_private_folder_that_is_not_the_records(small_sample, tmp_path):
    """Without a salt, or with another one, the message names folder and photographs; nothing is written."""
    folder = small_sample.with_name("photographs")
    table = read_labels(folder, folder / "labels.csv").table
    with pytest.raises(sheet.ContactSheetError, match="has no salt.*photographs.*and the private folder"):
        sheet.match_records(table, folder, small_sample, tmp_path / "private")
    assert not (tmp_path / "private").exists()
    open_private(tmp_path / "private")
    with pytest.raises(sheet.ContactSheetError, match="the salt or the photographs.*and the private folder"):
        sheet.match_records(table, folder, small_sample, tmp_path / "private")


def test_refuses_records_that_are_damaged(small_sample, tmp_path):
    """A shard of which a byte was altered is named."""
    shutil.copytree(small_sample, tmp_path / "records")
    shard = next((tmp_path / "records").glob("test-*.tfrecord"))
    shard.write_bytes(shard.read_bytes()[:-9] + bytes(9))
    folder = small_sample.with_name("photographs")
    table = read_labels(folder, folder / "labels.csv").table
    with pytest.raises(ShardError, match=f"{shard.name}: altered"):
        sheet.match_records(table, folder, tmp_path / "records", small_sample.with_name("records.private"))


def test_refuses_records_of_other_photographs(small_sample):
    """A folder of other photographs does not explain the records, and the message says so."""
    folder = small_sample.with_name("photographs")
    table = read_labels(folder, folder / "labels.csv").table[:-1]
    with pytest.raises(sheet.ContactSheetError, match="prepared from"):
        sheet.match_records(table, folder, small_sample, small_sample.with_name("records.private"))


def test_the_circle_lies_on_the_photograph_and_no_name_is_written(described, tmp_path):
    """Photograph above, crop beneath; circle in pixels of the whole photograph; rows, grades and statuses as words."""
    path = tmp_path / "maria_silva.jpg"
    cv2.imwrite(str(path), np.zeros((900, 1200, 3), np.uint8))
    crops = [encode_jpeg(np.zeros((299, 299, 3), np.uint8))] * 3
    shown = described[6:9].assign(image=str(path), x=600.0, y=450.0, radius=400.0, encoded=crops)
    figure = sheet.plot_contact_sheet(sheet.lay_out_records(shown), "drawn", num_columns=2)
    rings = [ax.patches[0] for ax in figure.axes if ax.patches]
    assert [(ring.center, ring.radius) for ring in rings] == [((600, 450), 400)] * 3
    first = figure.axes[0]
    assert list(first.images[0].get_extent()) == [-0.5, 1199.5, 899.5, -0.5]
    assert max(first.images[0].get_array().shape) == 320  # px, of 1200
    said = words(figure)
    assert {"row 8, grade 0\nok", "row 9, grade 0\nclipped, truncated"} <= set(said)
    assert not any("maria" in text or "jpg" in text for text in said)


@pytest.mark.parametrize("orientation", range(1, 9))
def test_photographs_are_shown_upright(orientation):
    """As Pillow turns them, for every EXIF orientation; the circle lies in the upright photograph."""
    picture = np.zeros((300, 600, 3), np.uint8)
    picture[:150, :300], picture[150:, :300] = (200, 0, 0), (0, 200, 0)
    exif, file = Image.Exif(), io.BytesIO()
    exif[0x0112] = orientation
    Image.fromarray(picture).save(file, "jpeg", exif=exif, quality=95)
    panel = sheet.Panel("row 2", file.getvalue(), [Circle(9, 9, 9)], ["none"])
    shown = sheet.plot_contact_sheet([panel], "drawn").axes[0].images[0]
    upright = ImageOps.exif_transpose(Image.open(file))
    assert tuple(shown.get_extent()) == (-0.5, upright.width - 0.5, upright.height - 0.5, -0.5)
    expected = np.asarray(upright.resize(shown.get_array().shape[1::-1], Image.Resampling.BOX)).astype(float)
    assert np.abs(shown.get_array() - expected).mean() < 3


def test_every_reason_is_shown_before_any_twice(tmp_path):
    """Of many black photographs and one that is gone both reasons are seen; what is no picture says so."""
    path = tmp_path / "maria.png"
    cv2.imwrite(str(path), np.zeros((60, 80, 3), np.uint8))
    rows = [(n, str(path), "no disc stands out from the background") for n in range(2, 12)]
    rejected = pd.DataFrame([*rows, (12, "joana.png", "no such file")], columns=["row", "image", "reason"])
    panels = sheet.lay_out_rejected(rejected, 3)
    assert [panel.caption for panel in panels] == ["row 2", "row 12", "row 3"]
    said = words(sheet.plot_contact_sheet(panels, "real"))
    assert {"no picture", "no such file"} <= set(said) and not any("joana" in text for text in said)


def test_twins_are_one_kind_of_reason():
    """The row of a twin and the size of a picture do not make a kind; limits that are named in a reason stay."""
    twins = [(n, "a.png", f"same photograph as row {n - 1}") for n in range(2, 12)]
    large = [(n, "a.png", f"{n}000 x 9000 px as TIFF are too many") for n in range(12, 22)]
    named = [(22, "a.png", "export the picture with 8 or 16 bits")]
    rejected = pd.DataFrame(twins + large + named, columns=["row", "image", "reason"])
    assert [panel.caption for panel in sheet.lay_out_rejected(rejected, 4)] == ["row 2", "row 12", "row 22", "row 3"]
    kinds = ["same photograph as row ...", "... px as TIFF are too many", "export the picture with 8 or 16 bits"]
    assert sheet.name_kinds(rejected["reason"]).unique().tolist() == kinds
    assert sheet.lay_out_rejected(rejected[:0]) == []


def test_odd_files_show_what_can_become_of_one():
    """Half of the drawn files are used, each with the status that its name says; half are refused with a reason."""
    panels = {panel.caption.split("\n")[0]: panel for panel in sheet.lay_out_files(draw_odd_files())}
    status = {name: panel.caption.split("\n")[1] for name, panel in panels.items()}
    used = {"white around it": "ok", "squashed": "ellipse", "a part, enlarged": "full_frame"}
    used |= {"cut short late": "clipped+truncated"}
    assert status == used | dict.fromkeys(
        ["a closed shutter", "a page", "cut short early", "a text file"], "refused"
    ), status
    assert all(panel.crops[0] and not panel.circles for name, panel in panels.items() if name not in used)


def test_refuses_to_show_nothing():
    """An empty sheet is an error that says so."""
    with pytest.raises(sheet.ContactSheetError, match="no photographs"):
        sheet.plot_contact_sheet([], "none")
