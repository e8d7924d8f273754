"""Masks of lesions in the layouts of IDRiD and DDR, cropped beside their photographs."""

import shutil

import cv2
import numpy as np
import pytest

from dr_lib.data.photograph.crop import Circle
from dr_lib.data.prepared.folder import Prepared
from dr_lib.data.synthetic import draw_eye, draw_look
from dr_lib.errors import DrError
from dr_lib.explain.lesions import crop_mask, draw_lesions, find_masks, load_masked

IDRID = "A. Segmentation/{}/a. Training Set/{}"
TRUTH = "2. All Segmentation Groundtruths"


@pytest.mark.parametrize(
    ("photograph", "masks", "other"),
    [
        (
            IDRID.format("1. Original Images", "IDRiD_01.jpg"),
            [
                IDRID.format(TRUTH, f"{n}/IDRiD_01_{m}.tif")
                for n, m in (("1. Microaneurysms", "MA"), ("3. Hard", "EX"))
            ],
            IDRID.format(TRUTH, "5. Optic Disc/IDRiD_01_OD.tif"),
        ),
        (
            "train/image/007-1.jpg",
            [f"train/label/{m}/007-1.tif" for m in ("EX", "MA")],
            "train/image/008-2.jpg",
        ),
    ],
)
def test_finds_and_crops_the_masks_of_a_photograph(tmp_path, photograph, masks, other):
    """Two kinds of lesions are one mask, which covers of the crop what it covers of the field of
    view.
    """
    rng = np.random.default_rng(3)
    image, circle, lesions = draw_eye(3, "right", draw_look(rng)._replace(coverage=0.9), rng)
    halves = [
        lesions & (np.arange(lesions.shape[1]) < circle.x),
        lesions & (np.arange(lesions.shape[1]) >= circle.x),
    ]
    for name, picture in (
        (photograph, image[..., ::-1]),
        *zip(masks, halves, strict=True),
        (other, ~lesions),
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        assert cv2.imwrite(
            str(tmp_path / name),
            picture if picture.ndim == 3 else 76 * picture.astype(np.uint8),
        )
    assert find_masks(tmp_path) == {
        tmp_path / photograph: sorted(tmp_path / mask for mask in masks)
    }
    images, cropped = load_masked(tmp_path, 96)
    assert images.shape == (1, 96, 96, 3) and cropped.shape == (1, 96, 96)
    expected = lesions.sum() / (2 * circle.radius) ** 2
    assert cropped.mean() == pytest.approx(expected, rel=0.05)
    assert cropped[0] == pytest.approx(crop_mask(lesions, circle, 96), abs=0.5)


def test_the_lesions_of_the_sample_are_where_they_were_drawn(small_sample, tmp_path):
    """Those of a photograph cover bright or dark spots of its crop alone, a healthy eye has none;
    of a prepared folder elsewhere nothing is known.
    """
    prepared = Prepared(small_sample)
    healthy, ill = (prepared.photographs.query(where) for where in ("grade == 0", "grade > 1"))
    assert not draw_lesions(prepared, healthy["image_id"][:2], 96).any()
    drawn = draw_lesions(prepared, ill["image_id"], 96)
    crops = prepared.open_crops(ill, 96)[:].astype(float).mean(axis=-1)
    for mask, crop in zip(drawn, crops, strict=True):
        others = crop[(mask == 0) & (crop > 40)]
        assert abs(crop[mask > 0.5] - np.median(others)).mean() > others.std()
    shutil.copytree(small_sample, tmp_path / "records")
    assert draw_lesions(Prepared(tmp_path / "records"), ill["image_id"], 96) is None


def test_a_lesion_keeps_its_place_and_its_area():
    """A square of 8 px in a circle of radius 40 px, cropped to half of its side: 4 px, to the
    pixel.
    """
    mask = np.zeros((100, 120), bool)
    mask[30:38, 50:58] = True
    cropped = crop_mask(mask, Circle(59.5, 49.5, 40), 40)
    expected = np.zeros((40, 40))
    expected[10:14, 15:19] = 1
    assert cropped == pytest.approx(expected, abs=0.01)


def test_a_folder_without_masks_is_refused(tmp_path):
    """One sentence says how masks are named."""
    with pytest.raises(DrError, match="no photograph here has masks such as NAME_MA.tif"):
        find_masks(tmp_path)
