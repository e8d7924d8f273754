"""Read a photograph out of a DICOM file, and what the file says of its eye, patient and day.

No other element leaves the file. pydicom comes with the extra `dicom`.
"""

import io
import logging
import re
import warnings

import pydicom
from pydicom import uid
from pydicom.encaps import get_frame
from pydicom.pixels import pixel_array

from dr_lib.data.photograph.decode import (
    JPEG_START,
    Parts,
    Picture,
    check_size,
    read_with_pillow,
    refuse,
    to_rgb,
)

# the colours that are read of JPEG and JPEG 2000, by their first bytes, and of what is neither
COLOURS = {
    JPEG_START: ("RGB", "MONOCHROME2", "YBR_FULL", "YBR_FULL_422"),
    b"\xff\x4f": ("RGB", "MONOCHROME2", "YBR_ICT", "YBR_RCT"),
    b"": ("RGB", "MONOCHROME2"),
}
EYES = {"L": "left", "R": "right"}
BEFORE_PIXELS = 16_000_000  # bytes, at most
DATES = ("AcquisitionDateTime", "AcquisitionDate", "StudyDate", "ContentDate")


class _Parts(Parts):
    def read(self, size: int | None = -1) -> bytes:
        """Read the next part; all that is left is deflated, and pydicom would inflate a bomb."""
        refuse("DICOM", {"is deflated: export it uncompressed": size < 0})
        return super().read(size)


def read_stated(path: str) -> tuple[str, str, str]:
    """Read the PatientID, the eye (left or right) and the day (20240531) of a DICOM file; empty
    where it says nothing, or is damaged.
    """
    names = ["PatientID", "ImageLaterality", "Laterality", *DATES]
    try:
        with open(path, "rb") as file:
            start = _Parts(file.read(BEFORE_PIXELS))
        found = _read(start, stop_before_pixels=True, specific_tags=names)
        side = found.get("ImageLaterality") or found.get("Laterality")
        days = " ".join(str(found.get(name)) for name in DATES)
        day = re.search(r"\b[12]\d{7}", days)
        return str(found.get("PatientID", "")), EYES.get(str(side), ""), day[0] if day else ""
    except Exception:  # pydicom raises whatever the damage leads it to
        return "", "", ""


def read_dicom(encoded: bytes) -> Picture:
    """Read a DICOM file; one of JPEG is then that JPEG.

    Raises:
        UnreadableImageError: it holds no single photograph, stores what is not read, or is damaged.
    """
    found = _read(_Parts(encoded))
    reasons = {
        "holds no picture, as a report does, or is cut short": "PixelData" not in found,
        "is a scan by OCT: export the fundus photograph": "OPT" in str(found.get("Modality")),
        "has several frames: export one photograph": int(found.get("NumberOfFrames") or 1) > 1,
    }
    refuse("DICOM", reasons)
    syntax = found.file_meta.TransferSyntaxUID
    is_packed = syntax.is_encapsulated and syntax != uid.RLELossless
    frame = get_frame(found.PixelData, 0, number_of_frames=1) if is_packed else b""
    known = COLOURS.get(frame[:2], ())
    colours = found.get("PhotometricInterpretation")
    is_marked = b"JFIF" in frame[:32] or b"Adobe\0" in frame[:4096]
    reasons = {
        "is compressed in another way than JPEG, JPEG 2000 and RLE: export it uncompressed": (
            not known
        ),
        "stores its colours in a way that is not read: export it as RGB": (
            # a JPEG without a mark would be taken for YCbCr
            colours not in known
            or colours == "RGB"
            and frame.startswith(JPEG_START)
            and not is_marked
        ),
        "has other samples than whole numbers of 8 bits: export it with 8 bits": (
            (found.BitsAllocated, found.HighBit, found.PixelRepresentation) != (8, 7, 0)
        ),
    }
    refuse("DICOM", reasons)
    profile = found.get("ICCProfile", b"")
    if frame:
        return read_with_pillow(frame)._replace(orientation=1, profile=profile)
    width = found.Columns
    height = found.Rows
    check_size(encoded, width, height, 3 * found.SamplesPerPixel)
    pixels = to_rgb(pixel_array(found, index=0, raw=True))
    return Picture(width, height, profile=profile, pixels=pixels)


def _read(file: io.BufferedIOBase, **options) -> pydicom.FileDataset:
    """Read a data set without a word: pydicom's warnings and its log quote what it finds."""
    logging.getLogger("pydicom").setLevel(logging.CRITICAL)
    warnings.filterwarnings("ignore", module="pydicom")
    return pydicom.dcmread(file, force=True, **options)
