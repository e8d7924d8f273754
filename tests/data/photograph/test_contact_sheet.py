"""Contact sheets: every status and grade is shown, circles lie on the retina, no name appears;
methods compared.
"""

import cv2
import numpy as np
import pandas as pd
import pytest
from matplotlib.text import Text
from PIL import Image, ImageOps

from dr_lib.data.labels.tables import read_labels
from dr_lib.data.photograph import contact_sheet as sheet
from dr_lib.data.synthetic import draw_odd_files
from tests.data.photograph.pictures import draw_fov, to_file


@pytest.fixture
def images(tmp_path) -> list[str]:
    """A field of view on black, the same on grey, one too small for Voets et al., and a black
    picture.
    """
    pictures = [
        draw_fov(radius=150.0),
        draw_fov(radius=150.0, background=60),
        draw_fov(radius=70.0),
    ]
    for name, picture in zip("abcd", [*pictures, np.zeros((480, 640, 3), np.uint8)], strict=True):
        (tmp_path / f"maria_{name}.png").write_bytes(to_file(picture))
    return [str(path) for path in sorted(tmp_path.iterdir())]


def read_words(figure) -> list[str]:
    """All that is written on a figure."""
    return [text.get_text().replace("\n", " ") for text in figure.findobj(Text) if text.get_text()]


def test_each_record_gets_its_own_photograph(small_sample):
    """The salt leads from a record to its row: the radius is the one that row was drawn with,
    the grade the table's.
    """
    folder = small_sample.with_name("photographs")
    table = read_labels(folder, folder / "labels.csv").table
    matched = sheet.match_crops(
        table, folder, small_sample, small_sample.with_name("records.private")
    )
    truth = pd.read_csv(folder / "circles.csv")
    assert (
        matched[["row", "image", "grade"]].values.tolist()
        == table[["row", "image", "grade"]].values.tolist()
    )
    assert np.allclose(matched["radius"], truth["radius"], rtol=0.01)


@pytest.mark.parametrize("wrong", ["salt", "photographs"])
def test_refuses_photographs_that_are_not_the_records(wrong, small_sample, tmp_path):
    """With another salt, or without one of the photographs, it says so."""
    folder = small_sample.with_name("photographs")
    private = small_sample.with_name("records.private")
    table = read_labels(folder, folder / "labels.csv").table
    if wrong == "salt":
        (private := tmp_path).joinpath("salt").write_bytes(bytes(32))
    with pytest.raises(ValueError, match="not prepared from these photographs"):
        sheet.match_crops(
            table[: -1 if wrong == "photographs" else None], folder, small_sample, private
        )


def test_what_is_rare_is_shown():
    """Of 60 photographs three are chosen: among them the only clipped one and the only grade 4;
    the seed chooses.
    """
    table = pd.DataFrame({"row": range(2, 62), "grade": 0, "status": "ok"})
    table.loc[7, "status"], table.loc[19, "grade"] = "clipped+truncated", 4
    chosen = sheet.choose_photographs(table, 3)
    assert (
        len(chosen) == 3
        and {9, 21} < set(chosen["row"])
        and chosen["grade"].is_monotonic_increasing
    )
    first, again, other = (
        set(sheet.choose_photographs(table, 12, seed)["row"]) for seed in (0, 0, 1)
    )
    assert first == again != other and len(first) == 12
    assert sheet.choose_photographs(table[:5], 12)["row"].tolist() == [2, 3, 4, 5, 6]


def test_circles_lie_on_the_photographs_and_no_name_is_written(images):
    """Photograph on top, both crops beneath; circles in its pixels; captions and reasons are all
    the words.
    """
    panels = [sheet.Panel(f"row {row}", image) for row, image in enumerate(images, 2)]
    figure = sheet.plot_contact_sheet(panels, "synthetic", num_columns=2)
    rings = [ring for ax in figure.axes for ring in ax.patches]
    assert sorted(round(ring.radius, -1) for ring in rings)[:3] == [70, 150, 150]
    assert all(ring.center == pytest.approx((320, 240), abs=3) for ring in rings)
    assert list(figure.axes[0].images[0].get_extent()) == [-0.5, 639.5, 479.5, -0.5]
    words = read_words(figure)
    assert {"row 2", "row 5", "no field of view stands out from the background"} < set(words)
    assert not any("maria" in text or "png" in text for text in words)


@pytest.mark.parametrize("orientation", [1, 5, 8])
def test_photographs_are_shown_upright(orientation, tmp_path):
    """As Pillow turns them by the EXIF orientation, in the size of the whole."""
    picture = np.zeros((300, 800, 3), np.uint8)
    picture[:150, :400], picture[150:, :400] = (200, 0, 0), (0, 200, 0)
    exif = Image.Exif()
    exif[0x0112] = orientation
    (tmp_path / "eye.jpg").write_bytes(to_file(picture, ".jpg", exif=exif, quality=95))
    figure = sheet.plot_contact_sheet([sheet.Panel("row 2", tmp_path / "eye.jpg", "none")], "real")
    shown = figure.axes[0].images[0]
    upright = ImageOps.exif_transpose(Image.open(tmp_path / "eye.jpg"))
    assert tuple(shown.get_extent()) == (-0.5, upright.width - 0.5, upright.height - 0.5, -0.5)
    expected = cv2.resize(
        np.asarray(upright), shown.get_array().shape[1::-1], interpolation=cv2.INTER_AREA
    )
    assert np.abs(shown.get_array() - expected.astype(float)).mean() < 3


def test_a_reason_stands_for_the_crops(images):
    """A rejected photograph is shown with its reason and is not cropped; what is no picture says
    so.
    """
    panels = [
        sheet.Panel("row 2", images[0], "same photograph as row 4"),
        sheet.Panel("row 3", "joana.png", "gone"),
    ]
    figure = sheet.plot_contact_sheet(panels, "real")
    assert sorted(read_words(figure)) == [
        "gone",
        "no picture",
        "real",
        "row 2",
        "row 3",
        "same photograph as row 4",
    ]
    assert not any(ax.patches for ax in figure.axes)


def test_a_dollar_begins_no_formula(images):
    """In a caption and in a reason, with what no formula may hold."""
    panel = sheet.Panel(r"$ $\no{", images[0], r"$ $\no{")
    sheet.plot_contact_sheet([panel], "").draw_without_rendering()


def test_methods_are_compared_with_the_truth_or_with_robust(images):
    """On black both find it; on grey voets takes all for retina; it refuses the small one, and
    both the black one.
    """
    compared = sheet.compare_methods(
        images, np.array([(320.0, 240.0, radius) for radius in (150, 150, 70, 70)])
    )
    assert compared.loc["robust"].tolist()[:2] == [4, 1] and compared.loc["voets"].tolist()[:2] == [
        4,
        2,
    ]
    assert compared.loc["robust"].iloc[3] < 1 and compared.loc["voets"].iloc[3] > 50
    beside_robust = sheet.compare_methods(images[:1])
    assert beside_robust.loc["robust"].iloc[2] == 0 and 0 < beside_robust.loc["voets"].iloc[2] < 2


def test_odd_files_show_what_can_become_of_one():
    """Half of them are used, each with the status that its name says; half are refused with a
    reason.
    """
    statuses = {name: sheet.crop_or_explain(encoded) for name, encoded in draw_odd_files().items()}
    used = {name: crop.status for name, crop in statuses.items() if not isinstance(crop, str)}
    expected = {"white around it": "ok", "squashed": "ellipse", "a part, enlarged": "full_frame"}
    assert used == expected | {"cut short late": "clipped+truncated"}
    assert set(statuses) - set(used) == {
        "a closed shutter",
        "a page",
        "cut short early",
        "a text file",
    }
