"""Read a photograph out of a DICOM file, and what the file says of its eye, patient and day.

No other element leaves the file. pydicom and OpenJPEG come with the extra `dicom`.
"""

import io
import logging
import re
import warnings
import zlib
from typing import NamedTuple

import cv2
import numpy as np
import openjpeg
import pydicom
from pydicom import uid
from pydicom.encaps import get_frame
from pydicom.pixels import apply_color_lut, pixel_array

from dr_lib.data.photograph.decode import (
    MAX_MEMORY,
    MAX_PROFILE,
    Parts,
    Picture,
    open_picture,
)
from dr_lib.data.photograph.errors import UnreadableImageError

JPEG = (uid.JPEGBaseline8Bit, uid.JPEGExtended12Bit)
JPEG_2000 = (uid.JPEG2000Lossless, uid.JPEG2000)
PLAIN = (uid.ImplicitVRLittleEndian, uid.ExplicitVRLittleEndian, uid.ExplicitVRBigEndian)
VIDEO = "1.2.840.10008.1.2.4.10"  # how the names of its transfer syntaxes begin
DEFLATED = uid.DeflatedExplicitVRLittleEndian.encode()
META_LENGTH = b"\2\0\0\0UL\4\0"
PALETTE = "PALETTE COLOR"
GREY = ("MONOCHROME1", "MONOCHROME2", PALETTE)
YBR = ("YBR_FULL", "YBR_FULL_422")
COLOURS = ("RGB", "YBR_ICT", "YBR_RCT", *YBR)
# a JPEG's colours are as the file says, where it would be taken for YCbCr
AS_STORED = b"\xff\xee\0\x0eAdobe\0\x64\0\0\0\0\0"
EYES = {"L": "left", "R": "right"}
DATES = ("AcquisitionDateTime", "AcquisitionDate", "StudyDate", "ContentDate")


class _Parts(Parts):
    def read(self, size: int | None = -1) -> bytes:
        """Read the next part, never all that is left, which pydicom would inflate."""
        if size < 0:
            raise UnreadableImageError("the DICOM is damaged")
        return super().read(size)


class Stated(NamedTuple):
    """What a DICOM file says of a photograph; empty where it says nothing."""

    patient: str = ""  # PatientID
    eye: str = ""  # left or right
    visit: str = ""  # the day, as 20240531


def read_stated(path: str) -> Stated:
    """Read of whom, of which eye and of what day a DICOM file is; nothing is known of a damaged
    one.
    """
    names = ["PatientID", "ImageLaterality", "Laterality", *DATES]
    try:
        with open(path, "rb") as file:
            found = _read(file, stop_before_pixels=True, specific_tags=names)
        sides = (found.get("ImageLaterality"), found.get("Laterality"))
        days = [re.match(r"\d{8}", str(found.get(name))) for name in DATES]
        return Stated(
            str(found.get("PatientID") or ""),
            next((EYES[side] for side in sides if side in EYES), ""),
            next((day[0] for day in days if day), ""),
        )
    except Exception:  # pydicom raises whatever the damage leads it to
        return Stated()


def read_dicom(encoded: bytes) -> Picture:
    """Read the header of a DICOM file; one of JPEG is then that JPEG.

    Raises:
        UnreadableImageError: it holds no single photograph, or stores what is not read.
    """
    parts = _Parts(_inflate(encoded))
    parts.num_read = -(len(encoded) // 4096)  # pixels are read in pieces
    found = _read(parts)
    syntax = found.file_meta.get("TransferSyntaxUID")
    if syntax is None:
        syntax = PLAIN[not found.original_encoding[0]]
        found.file_meta.TransferSyntaxUID = syntax
    bits = found.get("BitsAllocated")
    colours = found.get("PhotometricInterpretation")
    is_jpeg = syntax in JPEG
    refused = {
        "is a video: export one photograph": syntax.startswith(VIDEO),
        "holds no picture, as a report does, or is cut short": "PixelData" not in found,
        "is a scan by OCT: export the fundus photograph": (
            str(found.get("Modality")).startswith("OPT")
        ),
        "has several frames: export one photograph": int(found.get("NumberOfFrames") or 1) > 1,
        "is compressed in another way than JPEG, JPEG 2000 and RLE: export it uncompressed": (
            syntax not in (*PLAIN, *JPEG, *JPEG_2000, uid.RLELossless)
        ),
        "stores its colours in a way that is not read: export it as RGB": (
            found.get("SamplesPerPixel") != (1 if colours in GREY else 3)
            or colours not in GREY + COLOURS
        ),
        "has samples with a sign, or of other than 8 to 16 bits: export it with 8 bits": (
            bits not in (8, 16)
            or not 8 <= found.BitsStored <= found.HighBit + 1 <= bits
            or found.get("PixelRepresentation", 0) != 0
            or (is_jpeg and found.BitsStored > 8)
        ),
    }
    for reason, holds in refused.items():
        if holds:
            raise UnreadableImageError(f"the DICOM {reason}")
    profile = bytes(found.get("ICCProfile") or b"")[:MAX_PROFILE]
    if is_jpeg and colours not in ("MONOCHROME1", PALETTE):
        frame = get_frame(found.PixelData, 0, number_of_frames=1)
        if not frame.startswith(b"\xff\xd8\xff"):
            raise UnreadableImageError("the DICOM is damaged")
        is_marked = b"JFIF" in frame[:32] or b"Adobe\0" in frame[:4096]
        if colours == "RGB" and not is_marked:
            frame = frame[:2] + AS_STORED + frame[2:]
        return open_picture(frame)._replace(orientation=1, profile=profile)
    return Picture(
        encoded,
        found.Columns,
        found.Rows,
        "dicom",
        1,
        bits=bits,
        kept_bytes=max(9, found.SamplesPerPixel * bits // 4 + 3),
        # of 16 bits the file does not say how many carry light
        depth=0 if found.HighBit == 15 or colours == PALETTE else (found.HighBit + 2) // 2 * 2,
        profile=profile,
        page=found,
    )


def read_samples(picture: Picture) -> np.ndarray:
    """Decode the samples: (height, width, colours) uint8 or uint16, black being 0.

    Raises:
        UnreadableImageError: it is damaged.
    """
    try:
        return _decode(picture)
    except (MemoryError, UnreadableImageError):
        raise
    except Exception as error:  # pydicom and OpenJPEG raise whatever the damage leads them to
        raise UnreadableImageError("the DICOM is damaged or cut short") from error


def to_rgb(samples: np.ndarray, found: pydicom.Dataset) -> np.ndarray:
    """Convert samples, (height, width, colours) uint8, to (height, width, 3) RGB."""
    if found.PhotometricInterpretation in YBR:
        return cv2.cvtColor(samples[..., [0, 2, 1]], cv2.COLOR_YCrCb2RGB)
    return samples if samples.ndim == 3 else cv2.cvtColor(samples, cv2.COLOR_GRAY2RGB)


def _read(file: io.BufferedIOBase, **options) -> pydicom.FileDataset:
    """Read a data set without a word: pydicom's warnings and its log quote what it finds."""
    logging.getLogger("pydicom").setLevel(logging.CRITICAL)
    warnings.filterwarnings("ignore", module="pydicom")
    return pydicom.dcmread(file, force=True, **options)


def _inflate(encoded: bytes) -> bytes:
    """Inflate a deflated data set, up to a size and in parts, as pydicom does not."""
    start = encoded.find(META_LENGTH, 0, 140) + 8
    end = start + 4 + int.from_bytes(encoded[start : start + 4], "little")
    if DEFLATED not in encoded[:end]:
        return encoded
    plain = uid.ExplicitVRLittleEndian.encode().ljust(len(DEFLATED), b"\0")
    inflated = zlib.decompressobj(-zlib.MAX_WBITS).decompress(encoded[end:], MAX_MEMORY // 2)
    return encoded[:end].replace(DEFLATED, plain) + inflated


def _decode(picture: Picture) -> np.ndarray:
    found = picture.page
    syntax = found.file_meta.TransferSyntaxUID
    if syntax in JPEG_2000:
        frame = get_frame(found.PixelData, 0, number_of_frames=1)
        header = openjpeg.get_parameters(frame)
        size = (header["columns"], header["rows"], header["samples_per_pixel"])
        is_deep = header["precision"] > 8
        if (*size, is_deep) != (
            picture.width,
            picture.height,
            found.SamplesPerPixel,
            found.BitsStored > 8,
        ):
            raise UnreadableImageError("the DICOM has a damaged header")
        samples = openjpeg.decode(frame)
    else:
        samples = pixel_array(found, raw=True, correct_unused_bits=False)
    if found.PhotometricInterpretation == PALETTE:
        samples = apply_color_lut(samples, found)[..., :3]
        if samples.dtype == np.uint16:
            samples = (samples >> (8 if samples.max() > 255 else 0)).astype(np.uint8)
        return samples
    mask = (2 << found.HighBit) - 1
    if found.PhotometricInterpretation == "MONOCHROME1":
        samples = samples ^ mask
    return samples if samples.dtype == np.uint8 else (samples & mask) << (~found.HighBit & 1)
