"""Answer a request from its body: unpack, crop, shrink, predict."""

import binascii
import json
from contextlib import nullcontext
from queue import SimpleQueue
from threading import Lock
from time import perf_counter
from typing import Any

import cv2
import numpy as np
from PIL.JpegImagePlugin import JpegImageFile
from PIL.PngImagePlugin import PngImageFile
from starlette.exceptions import HTTPException

from dr_lib.data.labels.grades import sum_referable
from dr_lib.data.photograph.crop import crop_fundus
from dr_lib.data.photograph.decode import JPEG_SCAN, JPEG_START, Parts, is_dicom
from dr_lib.data.photograph.errors import NoFundusError, UnreadableImageError
from dr_lib.data.photograph.pixels import decode_jpeg, encode_jpeg
from dr_lib.hardware.cpus import count_cpus, find_cpu_model
from dr_lib.hardware.facts import read_version
from dr_lib.serving.grader.models import Predict, open_model
from dr_lib.training.model_folder import EXPORT, ModelFolder, ModelFolderError

# bytes that decoding may take beside others, and of one large photograph at a time
MAX_BESIDE = 80_000_000
MAX_ALONE = 150_000_000


class Predictor:
    """A served model, for a fixed number of threads that may call it at once."""

    def __init__(self, folder: ModelFolder, num_threads: int):
        """Load the model.

        A small model gets an interpreter for each thread. Of a larger one fewer interpreters share
        the threads, and photographs wait for each other: each interpreter packs the weights again,
        which multiplies the memory. A SavedModel is there once, for all threads.

        Raises:
            ModelFolderError: the folder holds another kind of model than LiteRT and SavedModel.
        """
        self.path = folder.path
        self.facts = folder.facts
        self.version = folder.version
        is_litert = folder.facts["format"] != "savedmodel"
        runtime = "ai_edge_litert" if is_litert else "tensorflow"
        self.machine = {
            "cpu": find_cpu_model(),
            "num_cpus": count_cpus(),
            "threads": num_threads,
            runtime: read_version(runtime),
        }
        self._decoding = Lock()  # of a large photograph
        self._idle: SimpleQueue[Predict] = SimpleQueue()
        for model in _open(folder, num_threads):
            self._idle.put(model)

    def warm_up(self) -> None:
        """Run a synthetic photograph through every interpreter.

        Raises:
            ModelFolderError: no probabilities come out, one for each grade.
        """
        photograph = np.zeros((480, 640, 3), np.uint8)
        cv2.circle(photograph, (320, 240), 200, (190, 100, 50), -1)
        body = encode_jpeg(photograph)
        for _ in range(self._idle.qsize()):  # the queue gives each in turn
            probabilities = self.grade(body)["probabilities"]
            is_whole = len(probabilities) == len(self.facts["grades"])
            if not is_whole or not abs(sum(probabilities) - 1) < 0.02:
                raise ModelFolderError(f"{probabilities} are no probabilities: export it again")

    def predict(self, images: np.ndarray) -> np.ndarray:
        """Predict (n, grades) probabilities from (n, side, side, 3) uint8 crops of the model's
        size.

        Raises:
            ModelFolderError: the model takes another size than its manifest says.
        """
        model = self._idle.get()
        try:
            return model(images)
        except Exception as error:  # TensorFlow's derive from nothing else
            reason = str(error).partition("\n")[0]
            raise ModelFolderError(
                f"{self.path}: the model cannot predict: {reason}: export it again"
            ) from error
        finally:
            self._idle.put(model)

    def __call__(self, body: bytes | bytearray, is_json: bool = False) -> dict[str, Any]:
        """Answer a request as the endpoint does, with its JSON as a dictionary.

        Args:
            body: as it was sent: a file.
            is_json: it is an object whose `image` holds the file in base64.

        Raises:
            HTTPException: what came is no JPEG, PNG or DICOM that fits, is damaged, or shows no
                field of view.
        """
        if not body:
            raise HTTPException(400, "the body is empty: send a JPEG, PNG or DICOM file")
        encoded = _read_json(body) if is_json else bytes(body)
        is_picture = encoded.startswith((b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n"))
        if not is_picture and not is_dicom(encoded):
            raise HTTPException(
                415,
                "the body is neither a JPEG nor a PNG nor DICOM: send the file itself, not a form: "
                "curl --data-binary @eye.jpg -H 'Content-Type: image/jpeg', or in base64 as "
                "application/json",
            )
        try:
            return self.grade(encoded)
        except NoFundusError as error:
            raise HTTPException(422, str(error)) from error
        except UnreadableImageError as error:
            raise HTTPException(400, str(error)) from error

    def grade(self, encoded: bytes) -> dict[str, Any]:
        """Grade a file's bytes, cropped as in `prepare` and read as in training.

        Only `referable_at_threshold` depends on the threshold.

        Raises:
            UnreadableImageError, NoFundusError: as `crop_fundus` raises them.
        """
        start = perf_counter()
        num_bytes = _weigh(encoded, self.facts["crop_method"])
        if num_bytes > MAX_ALONE:
            raise UnreadableImageError(
                "too many pixels: export the photograph as a smaller JPEG"
            )
        with self._decoding if num_bytes > MAX_BESIDE else nullcontext():
            crop = crop_fundus(
                encoded, self.facts["crop_size"], method=self.facts["crop_method"]
            )
        image = decode_jpeg(encode_jpeg(crop.image), self.facts["image_size"])
        decoded = perf_counter()
        probabilities = self.predict(image[None])[0]
        predicted = perf_counter()
        referable = float(sum_referable(probabilities))
        circle = {name: round(px, 2) for name, px in crop.circle._asdict().items()}
        return {
            "most_probable_grade": int(probabilities.argmax()),
            "probabilities": probabilities.tolist(),
            "probability_referable": referable,
            "referable_at_threshold": referable >= self.facts["threshold"],
            "threshold": self.facts["threshold"],
            "model": self.facts["model"],
            "model_version": self.version,
            "warning": self.facts.get("warning", ""),
            "machine": self.machine,
            "fundus": {"status": crop.status, **circle},
            "timings_ms": {
                "decode": round(1000 * (decoded - start), 3),
                "predict": round(1000 * (predicted - decoded), 3),
            },
        }


def _weigh(encoded: bytes, crop_method: str) -> int:
    """Estimate the bytes that decoding takes at the worst, by the header of a JPEG or a PNG; what
    is neither may be of any size, and is decoded alone.
    """
    try:
        # itself: Image.open goes on to the second picture of a telephone's JPEG
        reader = JpegImageFile if encoded.startswith(JPEG_START) else PngImageFile
        opened = reader(Parts(encoded))
    except Exception:  # DICOM, or damaged
        return MAX_ALONE
    num_bands = len(opened.getbands())
    scan = encoded[: opened.fp.tell()].rpartition(JPEG_SCAN)[2]
    # one scan with all colours: of others all samples are kept
    is_plain = scan[2:3] == bytes([num_bands]) and "progressive" not in opened.info
    per_pixel = 2 + 6 * (not is_plain) + 6 * (crop_method == "voets")  # which shrinks nothing
    return opened.width * opened.height * per_pixel


def _open(folder: ModelFolder, num_threads: int) -> list[Predict]:
    """Open the models that the threads take in turn."""
    kind = folder.facts["format"]
    if kind == "savedmodel":
        return [open_model(kind, folder.artifact, 0)] * num_threads
    if not kind.startswith("litert_"):
        raise ModelFolderError(
            f"{folder.path}: {kind} cannot be served; export the trained model first: {EXPORT}"
        )
    # interpreters may pack 12 MiB of artifacts, each its own copy
    count = max(1, min(num_threads, 12 * 2**20 // max(1, folder.facts["bytes"])))
    return [open_model(kind, folder.artifact, num_threads // count) for _ in range(count)]


def _read_json(body: bytes) -> bytes:
    """Read the file in the `image` of a JSON object, in base64 (RFC 4648) with or without lines."""
    # base64 has none of them; 6 MB of them would become 200 MB of objects
    if sum(map(body.count, b"[{,")) > 100:
        raise HTTPException(400, 'the JSON may hold little besides "image", the file in base64')
    try:
        # line ends may stand within a text
        facts = json.loads(body, strict=False, object_pairs_hook=_list_images)
        (text,) = facts["image"]
        text = text.translate({9: None, 10: None, 13: None})
        return binascii.a2b_base64(text, strict_mode=True)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise HTTPException(
            400, 'send JSON such as {"image": BASE64}: one file for each request, in base64'
        ) from error


def _list_images(pairs: list[tuple[str, Any]]) -> dict[str, list]:
    """List all that an object has under `image`, for a dictionary would keep the last alone."""
    return {"image": [value for name, value in pairs if name == "image"]}
