"""DICOM files of a picture, as cameras, archives and converters write them."""

import io
import struct

import numpy as np
import pytest
from PIL import Image

pydicom = pytest.importorskip("pydicom")
encaps = pytest.importorskip("pydicom.encaps")
uid = pydicom.uid

IMPLICIT = uid.ImplicitVRLittleEndian
EXPLICIT = uid.ExplicitVRLittleEndian
BIG = uid.ExplicitVRBigEndian
DEFLATED = uid.DeflatedExplicitVRLittleEndian
JPEG = uid.JPEGBaseline8Bit
JPEG_12 = uid.JPEGExtended12Bit
JPEG_2000 = uid.JPEG2000
JPEG_2000_LOSSLESS = uid.JPEG2000Lossless
RLE = uid.RLELossless
CANARY = "CaNaRy7Q"
# what is used elsewhere, or must be right for the pixels
USED = (0x00080060, 0x00100020, 0x00200060, 0x00200062)
TEXTS = "AE AS CS DA DS DT IS LO LT PN SH ST TM UC UR UT UI".split()
OPHTHALMIC_PHOTOGRAPHY = "1.2.840.10008.5.1.4.1.1.77.1.5.1"


def write_dicom(
    samples: np.ndarray,
    colours: str = "RGB",
    syntax: str = EXPLICIT,
    *,
    frame: bytes = b"",
    bits: int = 0,
    planes: bool = False,
    **elements,
) -> bytes:
    """Write a photograph.

    Args:
        samples: (height, width) or (height, width, 3), uint8 or uint16; of YBR_FULL_422 their
            bytes in its order are `frame`.
        colours: photometric interpretation.
        syntax: transfer syntax.
        frame: what is stored instead of the samples.
        bits: stored; all by default.
        planes: whether each colour is stored for itself.
        elements: further ones, or others, by keyword; None removes one.
    """
    is_rle = syntax == RLE  # always by planes, whatever the header says
    found = pydicom.Dataset()
    found.file_meta = pydicom.dataset.FileMetaDataset()
    found.file_meta.TransferSyntaxUID = syntax
    found.file_meta.MediaStorageSOPInstanceUID = found.SOPInstanceUID = "1.2.3.4"
    found.file_meta.MediaStorageSOPClassUID = found.SOPClassUID = OPHTHALMIC_PHOTOGRAPHY
    found.Modality = "OP"
    found.PatientID = "12"
    found.Rows, found.Columns = samples.shape[:2]
    found.SamplesPerPixel = 3 if samples.ndim == 3 else 1
    found.PhotometricInterpretation = colours
    found.BitsAllocated = 8 * samples.itemsize
    found.BitsStored = bits or found.BitsAllocated
    found.HighBit = found.BitsStored - 1
    found.PixelRepresentation = 0
    if samples.ndim == 3:
        found.PlanarConfiguration = int(planes and not is_rle)
    is_big = syntax == BIG
    is_packed = bool(frame) and syntax not in (IMPLICIT, EXPLICIT, BIG)
    stored = np.moveaxis(samples, -1, 0) if planes and not is_rle else samples
    content = (
        frame or stored.astype(samples.dtype.newbyteorder(">" if is_big else "<")).tobytes()
    )
    if is_packed:
        content = encaps.encapsulate([frame])
    found.PixelData = content + bytes(len(content) % 2)
    found["PixelData"].VR = "OB" if samples.itemsize == 1 else "OW"
    found["PixelData"].is_undefined_length = is_packed
    for name, value in elements.items():
        if value is None:
            del found[name]
        else:
            setattr(found, name, value)
    if is_rle:
        found.file_meta.TransferSyntaxUID = EXPLICIT
        found.compress(syntax, generate_instance_uid=False)
        if samples.ndim == 3:
            found.PlanarConfiguration = int(planes)
    buffer = io.BytesIO()
    pydicom.dcmwrite(buffer, found, enforce_file_format=True)
    return buffer.getvalue()


def to_codestream(samples: np.ndarray, **options) -> bytes:
    """Encode as a bare codestream, as DICOM holds it."""
    buffer = io.BytesIO()
    Image.fromarray(samples).save(buffer, "JPEG2000", no_jp2=True, **options)
    return buffer.getvalue()


def add_canaries(encoded: bytes, canary: str = CANARY) -> bytes:
    """Write the canary, in explicit little endian, into every element of text and of bytes that
    the standard knows beside the pixels, within a sequence and into private ones; and into the
    header.
    """

    def write(tag: int, kind: str, value: bytes) -> bytes:
        start = struct.pack("<2H2s", tag >> 16, tag & 0xFFFF, kind.encode())
        is_long = kind in ("OB", "SQ", "UC", "UN", "UR", "UT")
        return start + struct.pack("<2xI" if is_long else "<H", len(value)) + value

    text = canary.encode()
    known = [
        write(tag, kind, text)
        for tag, (kind, *_) in pydicom.datadict.DicomDictionary.items()
        if kind in TEXTS and tag not in USED and 8 <= tag >> 16 <= 0x40 and tag >> 16 != 0x28
    ]
    private = write(0x00090010, "LO", text)
    private += b"".join(write(0x00091000 + i, kind, text) for i, kind in enumerate(TEXTS))
    private += write(0x000910F0, "UN", text) + write(0x000910F1, "OB", text)
    item = b"\xfe\xff\0\xe0" + struct.pack("<I", len(private)) + private
    header = write(0x00020016, "AE", text) + write(0x00020100, "UI", b"1.2.3.4\0")
    header += write(0x00020102, "OB", text)
    end = 144 + int.from_bytes(encoded[140:144], "little")
    length = (end - 144 + len(header)).to_bytes(4, "little")
    body = b"".join(known) + private + write(0x00081140, "SQ", item) + encoded[end:]
    preamble = text.ljust(128, b".")
    return preamble + encoded[128:140] + length + encoded[144:end] + header + body
