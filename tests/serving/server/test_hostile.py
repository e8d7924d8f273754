"""Bodies that would fill the memory of the server, which is measured in its process."""

import base64
import json
import shutil
from concurrent.futures import ThreadPoolExecutor

import cv2
import numpy as np
import pytest

from dr_lib.training.model_folder import read_folder, write_folder
from tests.serving.driver import (
    LIMIT,
    claim_size,
    draw_photograph,
    encode,
    post,
    run_process,
)

JSON = "application/json"
WHOLE = (  # progressive, and all colours at full size
    cv2.IMWRITE_JPEG_PROGRESSIVE,
    1,
    cv2.IMWRITE_JPEG_SAMPLING_FACTOR,
    cv2.IMWRITE_JPEG_SAMPLING_FACTOR_444,
)


@pytest.fixture
def server(served_folder, tmp_path):
    """A server in a process of its own."""
    with run_process(served_folder, tmp_path / "log", "--threads", "2") as server:
        yield server


def draw_square(side, suffix, how):
    """A file as large as a body may be, of a retina."""
    drawn = draw_photograph(0, 1000, 1000)
    picture = cv2.resize(drawn, (side, side), interpolation=cv2.INTER_NEAREST)
    return cv2.imencode(suffix, picture, how)[1].tobytes().ljust(LIMIT, b"\0")


def flood(server, bodies, num_clients):
    """The statuses of so many clients at once, and the most memory of the server [MiB]."""
    with ThreadPoolExecutor(num_clients) as clients:
        answers = clients.map(lambda body: post(server.port, *body).status_code, bodies)
        return set(answers), server.measure_peak_mb() * 1e6 / 2**20


def test_a_png_of_400_million_pixels_costs_nothing(server):
    """A file that decodes to 1.2 GB is refused from its header, before a tenth of its rows is
    read: within 50 MB.
    """
    before_mb = server.measure_peak_mb()
    rows = encode(np.zeros((2_000, 20_000, 3), np.uint8), ".png")
    assert post(server.port, claim_size(rows, 20_000, 20_000), "image/png").status_code == 400
    assert server.measure_peak_mb() - before_mb < 50


@pytest.mark.slow
def test_a_flood_of_the_largest_bodies_stays_below_400_mib(server, jpeg):
    """Whole files, JSON bombs and base64, each of 6 MB, from 96 clients at once."""
    packed = json.dumps({"image": base64.b64encode(jpeg.ljust(4_700_000, b"\0")).decode()})
    bomb = '{"image": [' + "[]," * 2_000_000 + "1]}"
    bodies = [(jpeg.ljust(LIMIT, b"\0"), "image/jpeg"), (bomb, JSON), (packed, JSON)]
    statuses, peak_mib = flood(server, bodies * 64, 96)
    assert {200, 400} < statuses <= {200, 400, 503} and peak_mib < 400


@pytest.mark.slow
@pytest.mark.parametrize(
    ("side", "suffix", "how", "method"),
    [
        (8_660, ".jpg", (), "robust"),
        (4_330, ".jpg", WHOLE, "robust"),
        (4_330, ".png", (), "robust"),
        (4_330, ".jpg", (), "voets"),
    ],
)
def test_twelve_of_the_largest_pictures_stay_below_400_mib(
    served_folder, tmp_path, side, suffix, how, method
):
    """Sent at once to two threads; a larger one is refused from its header."""
    served = shutil.copytree(served_folder, tmp_path / "served")
    facts = read_folder(served).facts
    write_folder(served, facts["artifact"], facts | {"crop_method": method})
    bodies = [(draw_square(side, suffix, how), "image/jpeg")] * 12
    with run_process(served, tmp_path / "log", "--threads", "2") as server:
        statuses, peak_mib = flood(server, bodies, 12)
        assert 200 in statuses <= {200, 503} and peak_mib < 400
        larger = draw_square(side + 10, suffix, how)
        assert "too many pixels" in post(server.port, larger).json()["error"]
