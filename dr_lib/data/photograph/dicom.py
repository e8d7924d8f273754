"""Read a photograph out of a DICOM file, and what the file says of its eye, patient and day.

No other element leaves the file. pydicom and OpenJPEG come with the extra `dicom`.
"""

import io
import logging
import re
import warnings
import zlib

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
READ = (*uid.UncompressedTransferSyntaxes, *JPEG, *JPEG_2000, uid.RLELossless)
PALETTE = "PALETTE COLOR"
WHITE_IS_ZERO = "MONOCHROME1"
YBR = ("YBR_FULL", "YBR_FULL_422")
GREY = ("MONOCHROME2", WHITE_IS_ZERO, PALETTE)
COLOURS = ("RGB", "YBR_ICT", "YBR_RCT", *YBR)
# a JPEG's colours are as the file says, where it would be taken for YCbCr
AS_STORED = b"\xff\xee\0\x0eAdobe\0\x64\0\0\0\0\0"
EYES = {"L": "left", "R": "right"}
DATES = ("AcquisitionDateTime", "AcquisitionDate", "StudyDate", "ContentDate")
MAX_INFLATED = MAX_MEMORY // 4  # bytes


class _Parts(Parts):
    def read(self, size: int | None = -1) -> bytes:
        """Read the next part; all that is left is deflated, and pydicom would inflate a bomb."""
        content = super().read(size)
        if size < 0:
            inflater = zlib.decompressobj(-zlib.MAX_WBITS)
            if len(inflater.decompress(content, MAX_INFLATED)) == MAX_INFLATED:
                raise UnreadableImageError("the DICOM is too large: export it as a JPEG")
        return content


def read_stated(path: str) -> tuple[str, str, str]:
    """Read the PatientID, the eye (left or right) and the day (20240531) of a DICOM file; empty
    where it says nothing, or is damaged.
    """
    names = ["PatientID", "ImageLaterality", "Laterality", *DATES]
    try:
        with open(path, "rb") as file:
            found = _read(file, stop_before_pixels=True, specific_tags=names)
        side = found.get("ImageLaterality") or found.get("Laterality")
        days = " ".join(str(found.get(name)) for name in DATES)
        day = re.search(r"\b[12]\d{7}", days)
        return str(found.get("PatientID", "")), EYES.get(side, ""), day[0] if day else ""
    except Exception:  # pydicom raises whatever the damage leads it to
        return "", "", ""


def read_dicom(encoded: bytes) -> Picture:
    """Read the header of a DICOM file; one of JPEG is then that JPEG.

    Raises:
        UnreadableImageError: it holds no single photograph, or stores what is not read.
    """
    parts = _Parts(encoded)
    parts.num_read = -(len(encoded) // 4096)  # pixels are read in pieces
    found = _read(parts)
    syntax = found.file_meta.get("TransferSyntaxUID")
    colours = found.get("PhotometricInterpretation")
    bits = found.get("BitsStored", 0)
    is_jpeg = syntax in JPEG
    refused = {
        "is a video: export one photograph": syntax in uid.MPEGTransferSyntaxes,
        "holds no picture, as a report does, or is cut short": "PixelData" not in found,
        "does not name its transfer syntax: export it again": syntax is None,
        "is a scan by OCT: export the fundus photograph": "OPT" in str(found.get("Modality")),
        "has several frames: export one photograph": int(found.get("NumberOfFrames") or 1) > 1,
        "is compressed in another way than JPEG, JPEG 2000 and RLE: export it uncompressed": (
            syntax not in READ
        ),
        "stores its colours in a way that is not read: export it as RGB": (
            colours not in (GREY if found.get("SamplesPerPixel") == 1 else COLOURS)
        ),
        "has samples with a sign, or of other than 8 to 16 bits: export it with 8 bits": (
            not 8 <= bits <= found.HighBit + 1 <= found.BitsAllocated <= 16
            or found.get("PixelRepresentation")
            or (is_jpeg and bits > 8)
        ),
    }
    for reason, holds in refused.items():
        if holds:
            raise UnreadableImageError(f"the DICOM {reason}")
    profile = (found.get("ICCProfile") or b"")[:MAX_PROFILE]
    if is_jpeg:
        frame = get_frame(found.PixelData, 0, number_of_frames=1)
        if not frame.startswith(b"\xff\xd8\xff"):
            raise UnreadableImageError("the DICOM is damaged")
        is_marked = b"JFIF" in frame[:32] or b"Adobe\0" in frame[:4096]
        if colours == "RGB" and not is_marked:
            frame = frame[:2] + AS_STORED + frame[2:]
        picture = open_picture(frame)._replace(orientation=1, profile=profile)
        if colours not in (WHITE_IS_ZERO, PALETTE):
            return picture
    is_stated = found.HighBit < 15 and colours != PALETTE  # how many bits carry light
    return Picture(
        encoded,
        int(found.Columns),  # damaged it may be several
        int(found.Rows),
        "dicom",
        1,
        bits=found.BitsAllocated,
        kept_bytes=max(9, found.SamplesPerPixel * found.BitsAllocated // 4 + 3),
        depth=is_stated * (found.HighBit + 2) // 2 * 2,
        profile=profile,
        page=found,
    )


def read_samples(picture: Picture) -> np.ndarray:
    """Decode the samples: (height, width, colours) uint8 or uint16, black being 0."""
    found = picture.page
    if found.file_meta.TransferSyntaxUID in JPEG_2000:
        frame = get_frame(found.PixelData, 0, number_of_frames=1)
        header = openjpeg.get_parameters(frame)
        size = (header["columns"], header["rows"], header["samples_per_pixel"])
        if size != (picture.width, picture.height, found.SamplesPerPixel):
            raise UnreadableImageError("the DICOM has a damaged header")
        samples = openjpeg.decode(frame)
    else:
        samples = pixel_array(found, index=0, raw=True, correct_unused_bits=False)
    if found.PhotometricInterpretation == PALETTE:
        samples = apply_color_lut(samples, found)[..., :3]
        samples = (samples >> 8 * (samples.max() > 255)).astype(np.uint8)
    elif found.PhotometricInterpretation == WHITE_IS_ZERO:
        samples = ~samples
    if samples.dtype == np.uint16:
        mask = (2 << found.HighBit) - 1
        samples = (samples & mask) << (~found.HighBit & 1)
    return samples.reshape(picture.height, picture.width, -1)


def to_rgb(samples: np.ndarray, found: pydicom.Dataset) -> np.ndarray:
    """Convert samples, (height, width, colours) uint8, to (height, width, 3) RGB."""
    if found.PhotometricInterpretation in YBR:
        return cv2.cvtColor(samples[..., [0, 2, 1]], cv2.COLOR_YCrCb2RGB)
    return samples if samples.shape[-1] == 3 else cv2.cvtColor(samples, cv2.COLOR_GRAY2RGB)


def _read(file: io.BufferedIOBase, **options) -> pydicom.FileDataset:
    """Read a data set without a word: pydicom's warnings and its log quote what it finds."""
    logging.getLogger("pydicom").setLevel(logging.CRITICAL)
    warnings.filterwarnings("ignore", module="pydicom")
    return pydicom.dcmread(file, force=True, **options)
