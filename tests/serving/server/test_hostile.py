"""Bodies that would fill the memory of the server."""

import base64
import json
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from tests.serving.driver import (
    LIMIT,
    claim_size,
    encode,
    post,
    run_process,
)

JSON = "application/json"


@pytest.fixture(scope="module")
def server(served_folder, tmp_path_factory):
    """A server in a process of its own."""
    log = tmp_path_factory.mktemp("hostile") / "log"
    with run_process(served_folder, log, "--threads", "2") as server:
        yield server


def test_a_png_of_400_million_pixels_costs_nothing(server):
    """A file that decodes to 1.2 GB is refused from its header, before a tenth of its rows is
    read: within 50 MB.
    """
    before_mb = server.measure_peak_mb()
    rows = encode(np.zeros((2_000, 20_000, 3), np.uint8), ".png")
    assert post(server.port, claim_size(rows, 20_000, 20_000), "image/png").status == 400
    assert server.measure_peak_mb() - before_mb < 50


@pytest.mark.slow
def test_a_flood_of_the_largest_bodies_stays_below_400_mib(server, jpeg):
    """Whole files, JSON bombs and base64, each of 6 MB, from 96 clients at once."""
    packed = json.dumps({"image": base64.b64encode(jpeg.ljust(4_700_000, b"\0")).decode()})
    bomb = '{"image": [' + "[]," * 2_000_000 + "1]}"
    bodies = [(jpeg.ljust(LIMIT, b"\0"), "image/jpeg"), (bomb, JSON), (packed, JSON)]
    with ThreadPoolExecutor(96) as clients:
        answers = clients.map(lambda body: post(server.port, *body).status, bodies * 64)
        assert {200, 400} < set(answers) <= {200, 400, 503}
    assert server.measure_peak_mb() < 400 * 2**20 / 1e6
