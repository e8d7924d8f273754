"""The endpoint, over real sockets, against predictions made in this process, the wording of
SageMaker's contract and the API's document.
"""

import base64
import contextlib
import io
import json
import socket
import threading
from concurrent.futures import ThreadPoolExecutor

import cv2
import jsonschema
import numpy as np
import pytest
from PIL import Image

from dr_lib.data.photograph.crop import crop_fundus
from dr_lib.data.photograph.pixels import decode_jpeg, encode_jpeg
from dr_lib.hardware import probe
from dr_lib.serving.grader.models import LiteRT
from dr_lib.serving.grader.predict import Predictor
from dr_lib.serving.server.app import OPENAPI
from tests.processes import wait_until
from tests.serving.driver import (
    LIMIT,
    call,
    claim_size,
    draw_photograph,
    encode,
    head,
    open_service,
    post,
    read_facts,
    run_in_thread,
    send_raw,
)

APP = "dr_lib.serving.server.app"
DOCUMENT = json.loads(OPENAPI.read_bytes())
JPEG = encode(draw_photograph())
PNG = encode(draw_photograph(), ".png")
JSON = "application/json"


def pack_json(encoded):
    """The JSON that holds a photograph, in lines, as MIME has it."""
    return json.dumps({"image": base64.encodebytes(encoded).decode(), "id": 7}).encode()


def chunk(body, size=65536):
    """Pieces of a body, which the client sends as chunks."""
    return (body[at : at + size] for at in range(0, len(body), size))


def check(answer, path="/invocations", method="post"):
    """Hold an answer against the document; return its JSON."""
    responses = DOCUMENT["paths"][path][method]["responses"]
    schema = responses[str(answer.status_code)]["content"][JSON]["schema"]
    jsonschema.validate(answer.json(), {**schema, **DOCUMENT})
    return answer.json()


def test_the_answer_says_what_the_contract_promises(port, served_folder):
    """Grade, probabilities, threshold, model, fundus and timings, computed here step by step
    from the library.
    """
    body = check(post(port, JPEG))
    crop = crop_fundus(JPEG)
    image = decode_jpeg(encode_jpeg(crop.image), 32)
    probabilities = LiteRT(served_folder / "model.tflite", 1)(image[None])[0]
    assert min(body.pop("timings_ms").values()) > 0
    assert body.pop("machine")["cpu"] == probe().cpu
    sha256 = json.loads((served_folder / "manifest.json").read_text())["sha256"]
    circle = {name: pytest.approx(v, abs=0.01) for name, v in crop.circle._asdict().items()}
    assert body == {
        "most_probable_grade": int(np.argmax(probabilities)),
        "probabilities": probabilities.tolist(),
        "probability_referable": pytest.approx(probabilities[2:].sum(), abs=1e-6),
        "referable_at_threshold": bool(probabilities[2:].sum() >= 0.5),
        "threshold": 0.5,
        "model": "small_cnn",
        "model_version": sha256[:12],
        "warning": "The model is untrained: its answers mean nothing.",
        "fundus": {"status": crop.status, **circle},
    }
    assert check(call(port), "/ping", "get")["model_version"] == body["model_version"]
    assert call(port, "/openapi.json").json() == DOCUMENT


def test_photographs_come_as_jpeg_png_json_and_in_chunks(port):
    """However the same file is packed, the answer is the same; so it is for a PNG as for its
    pixels.
    """
    wanted = read_facts(post(port, JPEG))
    for body, media_type in (
        (JPEG, "image/jpg; name=x"),
        (JPEG, None),
        (pack_json(JPEG), JSON),
        (chunk(JPEG, 1000), "image/jpeg"),
    ):
        assert read_facts(post(port, body, media_type)) == wanted
    png = encode(cv2.imdecode(np.frombuffer(JPEG, np.uint8), 1), ".png")
    found = read_facts(post(port, png, "image/png"))["probabilities"]
    assert found == pytest.approx(wanted["probabilities"], abs=0.01)


def test_a_telephones_jpeg_of_two_pictures_is_one_of_its_first(port):
    """It is no larger than it says, here 20 million pixels, which fit as those of any JPEG do."""
    drawn = cv2.resize(draw_photograph(), (5200, 3900), interpolation=cv2.INTER_NEAREST)
    picture = Image.fromarray(drawn[..., ::-1])
    packed = io.BytesIO()
    picture.save(packed, "MPO", save_all=True, append_images=[picture.resize((50, 40))])
    found, wanted = (read_facts(post(port, body)) for body in (packed.getvalue(), JPEG))
    assert found["fundus"]["status"] == wanted["fundus"]["status"]


CURL = "curl --data-binary @eye.jpg -H 'Content-Type: image/jpeg'"
KEY = '{"image": BASE64}'
REFUSED = {
    "as curl -F sends it": (415, b"--x", "multipart/form-data; boundary=x", CURL),
    "nothing": (400, b"", "image/jpeg", "the body is empty"),
    "a pickle in JSON": (415, pack_json(b"\x80\x04K\x01."), JSON, "neither a JPEG nor"),
    "half a PNG": (400, PNG[:900], "image/png", "damaged"),
    "too long a side": (400, claim_size(PNG, 40_000, 10), "image/png", "40000"),
    "too many pixels": (400, claim_size(PNG, 5_000, 5_000), "image/png", "too many pixels"),
    "a list": (400, b"[1]", JSON, KEY),
    "a photograph in a list": (400, json.dumps([base64.b64encode(JPEG).decode()]), JSON, KEY),
    "a number of 5,000 digits": (400, b"9" * 5000, JSON, KEY),
    "a path": (400, b'{"image": "/data/eye.jpg"}', JSON, KEY),
    "two photographs": (400, b'{"image": "QUFB",' + pack_json(JPEG)[1:], JSON, KEY),
    "spaces": (400, b'{"image": "/9j/ 4AAQ"}', JSON, KEY),
    "a JSON bomb": (400, b'{"image": [' + b"[]," * 2_000_000 + b"1]}", JSON, "hold little"),
    "black": (422, encode(np.zeros((480, 640, 3), np.uint8)), "image/jpeg", "field of view"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_predicted_is_refused_with_a_sentence(port, name):
    """Each kind of wrong body has its status, and the JSON says what is wrong."""
    status, body, media_type, message = REFUSED[name]
    answer = post(port, body, media_type)
    assert answer.status_code == status, answer.text
    assert message in check(answer)["error"]


def test_the_largest_body_is_the_contracts(port):
    """Exactly 6,291,456 bytes are served and one more is not, in chunks."""
    assert post(port, chunk(JPEG.ljust(LIMIT, b"\0"))).status_code == 200
    assert post(port, chunk(bytes(LIMIT + 1))).status_code == 413


def test_other_paths_and_methods_are_refused(port):
    """In JSON that names the paths; nothing is sent elsewhere."""
    for path, method, status in (
        ("/nowhere", "GET", 404),
        ("/ping/", "GET", 404),
        ("/ping", "POST", 405),
        ("/invocations", "GET", 405),
    ):
        wrong = call(port, path, method, allow_redirects=False)
        assert wrong.status_code == status and "GET /ping" in wrong.json()["error"]
    assert wrong.headers["Allow"] == "POST"
    assert b" 404 " in send_raw(port, b"GET /../ping HTTP/1.1\r\nConnection: close\r\n\r\n")


def test_busy_is_503(served_folder, monkeypatch):
    """Two predict, one waits, and the fourth is sent away at once, to come again."""
    gate = threading.Event()
    grade = Predictor.grade
    monkeypatch.setattr(Predictor, "grade", lambda *given: gate.wait(60) and grade(*given))
    monkeypatch.setattr(f"{APP}.NUM_WAITING", 1)
    service = open_service(served_folder)
    with run_in_thread(service) as port, ThreadPoolExecutor(3) as clients:
        accepted = [clients.submit(post, port, JPEG) for _ in range(3)]
        wait_until(lambda: service.num_accepted == 3)
        refused = post(port, JPEG)  # answered while the gate is closed
        assert refused.status_code == 503 and int(refused.headers["Retry-After"]) >= 1
        assert call(port).status_code == 200 and not any(answer.done() for answer in accepted)
        gate.set()
        assert [answer.result().status_code for answer in accepted] == [200] * 3
        assert service.num_accepted == service.pending_bytes == 0


def test_bodies_on_their_way_are_counted(served_folder, monkeypatch):
    """Bodies on their way have a limit in all, and what clients took of it is given back."""
    service = open_service(served_folder, max_body=1_000_000)
    monkeypatch.setattr(f"{APP}.NUM_PENDING", 1)
    with run_in_thread(service) as port, contextlib.ExitStack() as stack:
        address = "127.0.0.1", port
        clients = [stack.enter_context(socket.create_connection(address)) for _ in range(2)]
        for client in clients:  # both are let in while nothing has come
            client.sendall(head(800_000) + b"1")
        wait_until(lambda: service.pending_bytes == 2)
        clients[0].sendall(bytes(700_000))
        wait_until(lambda: service.pending_bytes == 700_002)
        clients[1].sendall(bytes(700_000))
        assert b" 503 " in clients[1].recv(4096)
        clients[0].close()
        wait_until(lambda: service.pending_bytes == 0)
        assert post(port, JPEG).status_code == 200


def test_a_fault_of_ours_is_500(port, caplog, monkeypatch):
    """The log names the kind and the place of the error, not its message; the server goes on."""

    def fail(*_):
        raise ZeroDivisionError("SECRET")

    with monkeypatch.context() as patch:
        patch.setattr(Predictor, "grade", fail)
        failed = post(port, JPEG)
    assert failed.status_code == 500 and "SECRET" not in check(failed)["error"]
    assert post(port, JPEG).status_code == 200
    assert "ZeroDivisionError in " in caplog.text and "SECRET" not in caplog.text
