"""From the body of a request to an answer: unpack, crop, shrink, predict."""

import base64
import json
import re
import zlib
from itertools import islice
from queue import SimpleQueue
from time import perf_counter
from typing import Any

import cv2
import numpy as np

from dr_lib.data.labels.grades import sum_referable
from dr_lib.data.photograph.crop import UnreadableImageError, crop_fundus
from dr_lib.data.photograph.decode import MAX_SIDE
from dr_lib.data.photograph.headers import JPEG_SIGNATURE, PNG_SIGNATURE, read_header
from dr_lib.data.photograph.pixels import decode_jpeg, encode_jpeg
from dr_lib.serving.grader.folder import ModelFolder, ModelFolderError
from dr_lib.serving.grader.litert import LiteRT, LiteRTError

MAX_BODY_BYTES = 6_291_456  # of SageMaker's endpoints, packed and unpacked
MEDIA_TYPES = ("image/jpeg", "image/png", "application/json")
CONTENT_ENCODINGS = ("", "identity", "gzip")
SCAN = re.compile(rb"\xff\xda")  # the marker; the expression finds it three times as fast as bytes.count
PACKED_BYTES = 12 * 2**20  # of artifacts that interpreters may pack, each its own copy
MAX_SCANS = 100  # of a progressive JPEG; encoders write 10, and each costs the decoder 4 ms at the most pixels allowed


class UnsupportedError(ValueError):
    """The body is of a kind that is not served."""


class TooLargeError(ValueError):
    """The body, unpacked, has too many bytes or pixels."""


class MalformedError(ValueError):
    """The body cannot be unpacked."""


def check_media_type(media_type: str, content_encoding: str) -> None:
    """Raise UnsupportedError unless a body of this Content-Type and Content-Encoding can be unpacked."""
    if media_type not in MEDIA_TYPES:
        raise UnsupportedError(
            f"send a photograph as {', '.join(MEDIA_TYPES[:2])}, or {MEDIA_TYPES[2]} with it in base64"
        )
    if content_encoding not in CONTENT_ENCODINGS:
        raise UnsupportedError("send the body as it is, or with Content-Encoding: gzip")


def unpack(body: bytes, media_type: str, content_encoding: str = "") -> bytes:
    """Unpack the file of a photograph from the body of a request.

    Args:
        body: as it was sent.
        media_type: one of MEDIA_TYPES; JSON is an object whose `image` holds the file in base64.
        content_encoding: one of CONTENT_ENCODINGS.

    Raises:
        TooLargeError: it has over MAX_BODY_BYTES, unpacked.
        MalformedError: it is damaged, or not what it says it is.
    """
    if content_encoding == "gzip":
        body = _gunzip(body)
    return _read_json(body) if media_type == "application/json" else body


class Predictor:
    """A served model; as many threads as it was made for may call it at once."""

    def __init__(self, folder: ModelFolder, num_threads: int, *, max_pixels: int):
        """Load the model.

        A small model gets an interpreter for each thread. Of a larger one fewer interpreters share the threads, and
        photographs wait for each other: each interpreter packs the weights anew, which takes as many times the memory.

        Args:
            folder: of a LiteRT model, as `read_folder` found it.
            num_threads: that will predict.
            max_pixels: of a photograph; larger ones are refused before a pixel is decoded.

        Raises:
            ModelFolderError: the folder holds another kind of model, or one that does not fit its manifest.
        """
        if not folder.facts["format"].startswith("litert_"):
            raise ModelFolderError(f"{folder.path}: {folder.facts['format']} is not served, export it as LiteRT first")
        self.facts, self.version, self.max_pixels = folder.facts, folder.version, max_pixels
        self._idle: SimpleQueue[LiteRT] = SimpleQueue()
        count = max(1, min(num_threads, PACKED_BYTES // folder.facts["bytes"]))
        try:
            interpreters = [LiteRT(folder.artifact, num_threads=num_threads // count) for _ in range(count)]
        except LiteRTError as error:
            raise ModelFolderError(f"{folder.path}: {error}") from error
        for interpreter in interpreters:
            if interpreter.image_size != folder.facts["image_size"]:
                raise ModelFolderError(
                    f"{folder.path}: the model takes {interpreter.image_size} px, its manifest differs"
                )
            self._idle.put(interpreter)

    def warm_up(self) -> None:
        """Take a drawn photograph through every interpreter.

        Raises:
            ModelFolderError: what comes out is no five probabilities.
        """
        photograph = np.zeros((480, 640, 3), np.uint8)
        cv2.circle(photograph, (320, 240), 200, (190, 100, 50), -1)
        body = encode_jpeg(photograph)
        for _ in range(self._idle.qsize()):  # the queue gives each in turn
            probabilities = self(body)["probabilities"]
            if len(probabilities) != len(self.facts["grades"]) or not abs(sum(probabilities) - 1) < 0.02:
                raise ModelFolderError(f"the model gives {probabilities} instead of probabilities")

    def __call__(self, body: bytes, media_type: str = "image/jpeg", content_encoding: str = "") -> dict[str, Any]:
        """Answer a request.

        Args:
            body: as it was sent.
            media_type: one of MEDIA_TYPES.
            content_encoding: one of CONTENT_ENCODINGS.

        Returns:
            What the endpoint answers, as JSON writes it.

        Raises:
            UnsupportedError, TooLargeError, MalformedError: what came is no JPEG or PNG that fits.
            UnreadableImageError: the picture is damaged.
            NoFundusError: the picture shows no retina.
        """
        start = perf_counter()
        encoded = unpack(body, media_type, content_encoding)
        check_photograph(encoded, self.max_pixels)
        try:
            crop = crop_fundus(encoded)
        except cv2.error as error:  # OpenCV's own limits
            raise UnreadableImageError("the picture is damaged") from error
        image = decode_jpeg(encode_jpeg(crop.image), self.facts["image_size"])  # as training stores and reads it
        decoded = perf_counter()
        probabilities = self._predict(image)
        predicted = perf_counter()
        referable, threshold = float(sum_referable(probabilities)), self.facts["threshold"]
        return {
            "grade": int(probabilities.argmax()),
            "probabilities": probabilities.tolist(),
            "probability_referable": referable,
            "referable": referable >= threshold,
            "threshold": threshold,
            "model": self.facts["model"],
            "model_version": self.version,
            "fundus": {"status": crop.status, **{name: round(px, 2) for name, px in crop.circle._asdict().items()}},
            "timings_ms": {
                "decode": round(1000 * (decoded - start), 3),
                "predict": round(1000 * (predicted - decoded), 3),
            },
        }

    def _predict(self, image: np.ndarray) -> np.ndarray:
        interpreter = self._idle.get()
        try:
            return interpreter(image[None])[0]
        finally:
            self._idle.put(interpreter)


def check_photograph(encoded: bytes, max_pixels: int) -> None:
    """Let nothing reach a decoder but a JPEG or PNG whose header promises a decent size.

    Raises:
        UnsupportedError: it is neither.
        TooLargeError: too many pixels.
        UnreadableImageError: the header is damaged, or a JPEG of so many scans that it was made to keep decoders busy.
    """
    if not encoded.startswith((JPEG_SIGNATURE, PNG_SIGNATURE)):
        raise UnsupportedError("the body is neither a JPEG nor a PNG")
    width, height = read_header(encoded)[:2]  # a thousandth of the time that the crop takes, which reads it again
    if width * height > max_pixels or max(width, height) > MAX_SIDE:
        raise TooLargeError(f"{width} x {height} px are too many: send at most {max_pixels // 10**6} million")
    if encoded.startswith(JPEG_SIGNATURE) and next(islice(SCAN.finditer(encoded), MAX_SCANS, None), None):
        raise UnreadableImageError("a JPEG of too many scans")


def _gunzip(body: bytes) -> bytes:
    unpacking = zlib.decompressobj(wbits=31)
    try:
        unpacked = unpacking.decompress(body, MAX_BODY_BYTES + 1)
    except zlib.error as error:
        raise MalformedError("the body is not gzip, or damaged") from error
    if len(unpacked) > MAX_BODY_BYTES:
        raise TooLargeError(f"unpacked, the body has over {MAX_BODY_BYTES} bytes")
    if not unpacking.eof or unpacking.unused_data:
        raise MalformedError("the gzip body is cut short, or goes on after its end")
    return unpacked


def _read_json(body: bytes) -> bytes:
    if sum(map(body.count, b"[{,")) > 100:  # base64 has none of them; 6 MB of them would become 200 MB of objects
        raise MalformedError("the JSON has to hold little else than the image")
    try:
        encoded = json.loads(body)["image"]
        return base64.b64decode(encoded, validate=True)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise MalformedError('send JSON as {"image": the file in base64}') from error
