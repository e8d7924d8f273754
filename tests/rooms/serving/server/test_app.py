"""The endpoint, over real sockets, against predictions made in this process and the wording of
SageMaker's contract.
"""

import base64
import gzip
import json
import resource
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import cv2
import numpy as np
import psutil
import pytest

from dr_lib.data.photograph.crop import crop_fundus
from dr_lib.data.photograph.pixels import decode_jpeg, encode_jpeg
from dr_lib.data.synthetic import draw_eye, draw_look
from dr_lib.hardware import probe
from dr_lib.rooms.serving.grader.litert import LiteRT
from dr_lib.rooms.serving.grader.predict import Predictor
from dr_lib.training.model_folder import read_folder
from tests.rooms.serving.driver import (
    call,
    draw_photograph,
    encode,
    get,
    head,
    open_service,
    pack_png,
    post,
    run_in_thread,
    wait_until,
)

LIMIT = 6_291_456  # bytes of a body, from SageMaker's contract


class GatedPredictor(Predictor):
    """A real one that lets nothing through until its gate is open, to see what the endpoint does
    meanwhile.
    """

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.gate = threading.Event()

    def grade(self, encoded):
        assert self.gate.wait(60)
        return super().grade(encoded)


@pytest.fixture(scope="module")
def predictor(served_folder):
    """The model in this process, for as many threads as the server has."""
    return Predictor(read_folder(served_folder), 2)


def pack_json(encoded):
    """The JSON that holds a photograph."""
    return json.dumps({"image": base64.b64encode(encoded).decode()}).encode()


def chunk(body, size=65536):
    """Pieces of a body, which the client sends as chunks."""
    return (body[at : at + size] for at in range(0, len(body), size))


def test_the_answer_says_what_the_contract_promises(port, served_folder, jpeg):
    """Grade, probabilities, threshold, model, fundus and timings, computed here step by step
    from the library.
    """
    answer = post(port, jpeg)
    crop = crop_fundus(jpeg)
    image = decode_jpeg(encode_jpeg(crop.image), 32)
    probabilities = LiteRT(served_folder / "model.tflite")(image[None])[0]
    body = json.loads(answer.body)
    timings_ms = body.pop("timings_ms")
    machine = body.pop("machine")
    assert (
        machine["cpu"] == probe().cpu
        and 1 <= machine["threads"]
        and machine["num_cpus"] == probe().num_cpus
    )
    assert answer.status == 200 and answer.headers["Content-Type"] == "application/json"
    assert body == {
        "most_probable_grade": int(np.argmax(probabilities)),
        "probabilities": probabilities.tolist(),
        "probability_referable": pytest.approx(probabilities[2:].sum(), abs=1e-6),
        "referable_at_threshold": bool(probabilities[2:].sum() >= 0.5),
        "threshold": 0.5,
        "model": "small_cnn",
        "model_version": json.loads((served_folder / "manifest.json").read_text())["sha256"][
            :12
        ],
        "warning": "The model is untrained: its answers mean nothing.",
        "fundus": (
            {"status": crop.status}
            | {k: pytest.approx(v, abs=0.01) for k, v in crop.circle._asdict().items()}
        ),
    }
    assert timings_ms["decode"] > 0 and timings_ms["predict"] > 0 and len(timings_ms) == 2


def test_photographs_come_as_jpeg_png_json_and_in_chunks(port, predictor, jpeg):
    """However the same file is packed, the answer is the same; so it is for a PNG as for its
    pixels.
    """
    wanted = predictor(jpeg)
    del wanted["timings_ms"], wanted["machine"]
    png = encode(cv2.imdecode(np.frombuffer(jpeg, np.uint8), 1), ".png")
    answers = [
        post(port, jpeg),
        post(port, jpeg, "image/jpeg; name=x"),
        post(port, jpeg, "IMAGE/JPEG"),
        post(port, png, "image/png"),
        post(port, pack_json(jpeg), "application/json"),
        post(port, chunk(jpeg, 1000)),
        post(port, jpeg, "image/jpg"),
    ]
    assert [answer.status for answer in answers] == [200] * len(answers)
    assert all(answer.facts == wanted for answer in (*answers[:3], *answers[4:]))
    assert answers[3].facts["probabilities"] == pytest.approx(wanted["probabilities"], abs=0.01)


def test_an_eye_that_looks_doubtful_is_graded_and_called_so(port):
    """A dark shadow over a drawn eye, as a haemorrhage into the vitreous throws: its answer says
    doubtful.
    """
    rng = np.random.default_rng(1)
    eye, circle, _ = draw_eye(2, "right", draw_look(rng), rng)
    shadow = np.zeros(eye.shape[:2], np.float32)
    cv2.circle(shadow, (int(circle.x), int(circle.y)), int(0.22 * circle.radius), 0.9, -1)
    shadow = cv2.GaussianBlur(shadow, (0, 0), 0.03 * circle.radius)[..., None]
    plain, shaded = (
        post(port, encode(picture[..., ::-1]))
        for picture in (eye, (eye * (1 - shadow)).astype(np.uint8))
    )
    assert plain.status == shaded.status == 200 and "most_probable_grade" in shaded.facts
    assert (
        "doubtful" in shaded.facts["fundus"]["status"]
        and "doubtful" not in plain.facts["fundus"]["status"]
    )


def draw_black():
    """A photograph whose shutter stayed closed."""
    return encode(np.zeros((480, 640, 3), np.uint8))


REFUSED = {
    "no type": (400, b"\xff\xd8\xff", None),
    "no type, and text": (415, b"hello", None),
    "another type": (415, b"\xff\xd8\xff", "application/x-image"),
    "a form, as curl -F sends it": (415, b"--x", "multipart/form-data; boundary=x"),
    "text as JPEG": (415, b"hello", "image/jpeg"),
    "nothing": (400, b"", "image/jpeg"),
    "no JSON at all": (400, b"", "application/json"),
    "a BMP": (415, encode(draw_photograph(), ".bmp"), "image/png"),
    "the TIFF": (415, encode(draw_photograph(), ".tiff"), "image/jpeg"),
    "a pickle in JSON": (415, pack_json(b"\x80\x04K\x01."), "application/json"),
    "a JPEG's first bytes": (400, b"\xff\xd8\xff\xe0", "image/jpeg"),
    "half a PNG": (400, encode(draw_photograph(), ".png")[:900], "image/png"),
    "no JSON": (400, b'{"image": "', "application/json"),
    "JSON without an image": (400, b'{"picture": ""}', "application/json"),
    "a list": (400, b"[1]", "application/json"),
    "a number": (400, b'{"image": 1}', "application/json"),
    "bad base64": (400, b'{"image": "!!!!"}', "application/json"),
    "a number that no JSON has": (400, b'{"image": NaN}', "application/json"),
    "a number of 5,000 digits": (400, b"9" * 5000, "application/json"),
    "a path": (400, b'{"image": "/data/eye.jpg"}', "application/json"),
    "a plus that became a blank": (400, b'{"image": "/9j/4A AQSkZJ"}', "application/json"),
    "nested JSON": (400, b"[" * 90 + b"{" * 9, "application/json"),
    "a JSON bomb": (400, b'{"image": [' + b"[]," * 2_000_000 + b"1]}", "application/json"),
    "UTF-16": (400, '{"image": "ÿ"}'.encode("utf-16"), "application/json"),
    "black": (422, draw_black(), "image/jpeg"),
    "tiny": (422, encode(draw_photograph(0, 60, 50)), "image/jpeg"),
    "too long a side": (400, pack_png(40_000, 10, 10), "image/png"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_predicted_is_refused_with_a_sentence(port, name):
    """Each kind of wrong body has its status, and the JSON says what is wrong."""
    status, body, media_type = REFUSED[name]
    answer = post(port, body, media_type)
    assert answer.status == status, answer.body
    assert list(json.loads(answer.body)) == ["error"] and json.loads(answer.body)["error"]


def test_base64_comes_as_people_write_it(port, jpeg):
    """White space, padding and a type carry nothing; RFC 4648 has two alphabets."""
    wrapped = base64.encodebytes(
        jpeg
    ).decode()  # lines of 76 characters, as base64 and MIME write
    plain = wrapped.replace("\n", "")
    unpadded = base64.urlsafe_b64encode(jpeg + bytes(-len(jpeg) % 3 + 1)).decode().rstrip("=")
    texts = [
        plain,
        wrapped,
        wrapped.replace("\n", "\r\n"),
        f" {plain}\n",
        f"data:image/jpeg;base64,{plain}",
        base64.urlsafe_b64encode(jpeg).decode(),
        unpadded,
    ]
    bodies = [json.dumps({"image": text, "id": 7}).encode() for text in texts]
    bodies.append(f'{{"image": "{wrapped}"}}'.encode())  # a shell's "$(base64 eye.jpg)"
    bodies += [b"\xef\xbb\xbf" + bodies[0], bodies[0].decode().encode("utf-16")]
    expected = post(port, jpeg).facts
    for body in bodies:
        answer = post(port, body, "application/json; charset=utf-8")
        assert answer.status == 200 and answer.facts == expected, body[:80]


@pytest.mark.parametrize(
    "make",
    [
        lambda text: text,
        lambda text: [text],
        lambda text: {"data": text},
        lambda text: {"Image": text},
        lambda text: {"image": [text, text]},
        lambda text: {"image": {"b64": text}},
        lambda text: {"instances": [{"b64": text}]},
        lambda text: {"inputs": {"image": {"b64": text}}},
        lambda text: {"image": f"b'{text}'"},
        lambda text: {"image": text + "=" + text},
        lambda text: {"image": text[:-3]},
    ],
)
def test_other_json_names_the_key(port, jpeg, make):
    """Of TensorFlow Serving and others: the answer says under which key the file has to be."""
    text = base64.b64encode(jpeg[: len(jpeg) // 3 * 3]).decode()
    answer = post(port, json.dumps(make(text)), "application/json")
    assert answer.status == 400 and '{"image": BASE64}' in json.loads(answer.body)["error"]
    twice = f'{{"image": "{text}", "image": "{text}"}}'
    assert post(port, twice, "application/json").status == 400


@pytest.mark.parametrize(
    "media_type", ["application/x-www-form-urlencoded", "multipart/form-data; boundary=x"]
)
def test_what_curl_sends_by_itself_names_the_options(port, jpeg, media_type):
    """-d drops bytes of a photograph and -F wraps them: the answer has the options that do not."""
    error = json.loads(post(port, jpeg, media_type).body)["error"]
    assert "curl --data-binary @eye.jpg -H 'Content-Type: image/jpeg'" in error


def test_a_packed_body_is_refused(port, jpeg):
    """The sentence says how to send it."""
    answer = post(port, gzip.compress(jpeg), Content_Encoding="gzip")
    assert answer.status == 415 and b"without Content-Encoding" in answer.body


def test_a_jpeg_made_of_scans_is_refused(port, jpeg):
    """Ten bytes a scan would keep a decoder busy for half an hour."""
    progressive = cv2.imencode(".jpg", draw_photograph(), [cv2.IMWRITE_JPEG_PROGRESSIVE, 1])[
        1
    ].tobytes()
    assert post(port, progressive).status == 200
    last = progressive.rfind(b"\xff\xda")
    scan = progressive[last : last + 10]
    assert post(port, progressive[:-2] + 500_000 * scan + progressive[-2:]).status == 400


def test_the_largest_body_is_the_contracts(port, jpeg):
    """Exactly 6,291,456 bytes are served and one more is not: with a length and in chunks."""
    fits = jpeg.ljust(LIMIT, b"\0")
    over = jpeg.ljust(LIMIT + 1, b"\0")
    assert [post(port, body).status for body in (fits, over)] == [200, 413]
    assert b"6.29 MB" in post(port, over).body
    assert [post(port, chunk(body)).status for body in (fits, over)] == [200, 413]


def test_custom_attributes_come_back(port, jpeg):
    """As they were sent, with answers and with refusals; only up to 1024 visible ASCII
    characters.
    """
    name = "X-Amzn-SageMaker-Custom-Attributes"
    longest = "trace=7; " + "~" * 1015
    sent = {"X_Amzn_SageMaker_Custom_Attributes": longest}
    assert post(port, jpeg, **sent).headers[name] == longest
    assert post(port, draw_black(), **sent).headers[name] == longest
    for bad in (longest + "~", "caf\xe9", "a\tb"):
        answer = post(port, jpeg, X_Amzn_SageMaker_Custom_Attributes=bad)
        assert answer.status == 400 and name not in answer.headers
    assert name not in post(port, jpeg).headers


def test_other_paths_and_methods_are_refused(port, jpeg):
    """404 and 405 are JSON as all errors are."""
    assert [get(port, path).status for path in ("/", "/ping/", "/../ping", "/%00")] == [404] * 4
    assert call(port, "POST", "/ping", jpeg).status == get(port, "/invocations").status == 405
    assert "error" in json.loads(get(port, "/").body)


def test_ping_waits_for_the_warm_up_and_busy_is_503(served_folder, predictor, jpeg):
    """503 before the warm-up; then one predicts, one waits, and the third is sent away at once,
    to come again.
    """
    service = open_service(served_folder, kind=GatedPredictor, threads=1, queue=1)
    with run_in_thread(service) as port, ThreadPoolExecutor(2) as clients:
        assert get(port).status == 503
        assert post(port, jpeg).status == 503
        service.predictor.gate.set()
        wait_until(lambda: get(port).status == 200)
        service.predictor.gate.clear()
        accepted = [clients.submit(post, port, jpeg) for _ in range(2)]
        wait_until(lambda: service.num_accepted == 2)
        refused = post(port, jpeg)  # answered while the gate is closed
        assert refused.status == 503 and int(refused.headers["Retry-After"]) >= 1
        assert get(port).status == 200 and not any(answer.done() for answer in accepted)
        service.predictor.gate.set()
        assert [answer.result().status for answer in accepted] == [200, 200]
        assert post(port, jpeg).facts["probabilities"] == predictor(jpeg)["probabilities"]
        assert service.num_accepted == service.pending_bytes == 0


def test_bodies_on_their_way_are_counted(served_folder, jpeg, monkeypatch):
    """Bodies on their way have a limit in all, and what slow clients took of it is given back."""
    service = open_service(served_folder, request_s=0.5, max_body=1_000_000)
    monkeypatch.setattr("dr_lib.rooms.serving.server.app.NUM_PENDING", 1)
    with run_in_thread(service) as port:
        wait_until(lambda: get(port).status == 200)
        clients = [socket.create_connection(("127.0.0.1", port)) for _ in range(4)]
        for client in clients:  # all are let in while nothing has come
            client.sendall(head(800_000) + b"1")
        wait_until(lambda: service.pending_bytes == 4)
        most = []
        for client in clients:
            client.sendall(bytes(700_000))
            time.sleep(0.05)
            most.append(service.pending_bytes)
        assert max(most) <= 1_000_000
        assert sum(b" 503 " in client.recv(4096) for client in clients) >= 3
        wait_until(lambda: service.pending_bytes == 0)
        for client in clients:
            client.close()
        assert post(port, jpeg).status == 200


class FailingPredictor(Predictor):
    """A real one with a fault in it."""

    def __call__(self, body, *args):
        if body == b"fail":
            raise ZeroDivisionError("SECRET")
        return super().__call__(body, *args)


def test_a_fault_of_ours_is_500_and_says_nothing(served_folder, jpeg, caplog):
    """The log names the kind and the place of the error, not its message; the server goes on."""
    with run_in_thread(open_service(served_folder, kind=FailingPredictor)) as port:
        wait_until(lambda: get(port).status == 200)
        failed = post(port, b"fail")
        assert failed.status == 500 and b"SECRET" not in failed.body
        assert post(port, jpeg).status == 200
    assert "ZeroDivisionError in " in caplog.text and "SECRET" not in caplog.text


class HungryPredictor(Predictor):
    """A real one that may take 10 MB more than the process has."""

    def __call__(self, *args):
        resource.setrlimit(
            resource.RLIMIT_AS,
            (psutil.Process().memory_info().vms + 10**7, resource.RLIM_INFINITY),
        )
        try:
            return super().__call__(*args)
        finally:
            resource.setrlimit(
                resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
            )


def test_too_little_memory_is_503(served_folder):
    """The photograph is right, so the client may send it again; to OpenCV it is damaged."""
    body = encode(draw_photograph(1, 4500, 4000), ".png")
    with run_in_thread(open_service(served_folder, kind=HungryPredictor)) as port:
        wait_until(lambda: get(port).status == 200)
        answer = post(port, body)
        assert (
            answer.status == 503
            and answer.headers["Retry-After"] == "1"
            and b"memory" in answer.body
        )
        assert post(port, body[: len(body) // 2]).status == 400
