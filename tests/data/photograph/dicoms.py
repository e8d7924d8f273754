"""DICOM files of a picture, as cameras, archives and converters write them."""

import io

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
JPEG_2000 = uid.JPEG2000
JPEG_2000_LOSSLESS = uid.JPEG2000Lossless
RLE = uid.RLELossless
CANARY = "CaNaRy7Q"
TEXTS = ("LO", "LT", "PN", "SH", "ST", "UC", "UT")
OPHTHALMIC_PHOTOGRAPHY = "1.2.840.10008.5.1.4.1.1.77.1.5.1"


def write_dicom(
    samples: np.ndarray,
    colours: str = "RGB",
    syntax: str = EXPLICIT,
    *,
    frame: bytes = b"",
    **elements,
) -> bytes:
    """Write a photograph.

    Args:
        samples: (height, width) or (height, width, 3), uint8 or uint16; of YBR_FULL_422 their
            bytes in its order are `frame`.
        colours: photometric interpretation.
        syntax: transfer syntax.
        frame: what is stored instead of the samples.
        elements: further ones, or others, by keyword; None removes one.
    """
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
    found.BitsStored = found.BitsAllocated
    found.HighBit = found.BitsStored - 1
    found.PixelRepresentation = 0
    if samples.ndim == 3:
        found.PlanarConfiguration = 0
    is_big = syntax == BIG
    is_packed = bool(frame) and syntax not in (IMPLICIT, EXPLICIT, BIG)
    content = (
        frame or samples.astype(samples.dtype.newbyteorder(">" if is_big else "<")).tobytes()
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
    if syntax == RLE:
        found.file_meta.TransferSyntaxUID = EXPLICIT
        found.compress(syntax, generate_instance_uid=False)
    buffer = io.BytesIO()
    pydicom.dcmwrite(buffer, found, enforce_file_format=True)
    return buffer.getvalue()


def to_codestream(samples: np.ndarray, **options) -> bytes:
    """Encode as a bare codestream, as DICOM holds it."""
    buffer = io.BytesIO()
    Image.fromarray(samples).save(buffer, "JPEG2000", no_jp2=True, **options)
    return buffer.getvalue()


def add_canaries(encoded: bytes, canary: str = CANARY) -> bytes:
    """Write the canary into every element of free text that the standard knows in the first
    groups, within a sequence, into private ones and into the header.
    """
    found = pydicom.dcmread(io.BytesIO(encoded))
    block = found.private_block(9, canary, create=True)
    block.add_new(1, "LO", canary)
    block.add_new(2, "OB", canary.encode())
    inner = pydicom.Dataset()
    for tag, (kind, *_) in pydicom.datadict.DicomDictionary.items():
        if kind in TEXTS and tag not in found and 8 <= tag >> 16 <= 0x40:
            inner.add_new(tag, kind, canary)
    found.update(inner)
    found.ReferencedStudySequence = [inner]
    found.file_meta.SourceApplicationEntityTitle = canary
    found.preamble = canary.encode().ljust(128, b".")
    buffer = io.BytesIO()
    found.save_as(buffer)
    return buffer.getvalue()
