"""Read the header of a picture file, and decode it at a fraction of its size.

A picture is decoded as it is stored: turning it upright is left to the caller.
"""

import io
import re
import stat
import struct
import zlib
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import cv2
import numpy as np
import simplejpeg
from PIL import Image

from dr_lib.command import write_install
from dr_lib.data.photograph.colour import find_depth, reduce_depth
from dr_lib.data.photograph.errors import UnreadableImageError
from dr_lib.data.photograph.pixels import halve

MAX_PIXELS = 75_000_000  # of a JPEG; what other formats may have follows from MAX_MEMORY
MAX_SIDE = 30_000  # px; OpenCV's remap counts in 16 bits
# bytes for a file and what decoding it takes; Python and OpenCV take another 50 MB
MAX_MEMORY = 250_000_000
# px times scans of a JPEG: two seconds; a progressive one has ten scans as a rule
MAX_SCANNED = 1_500_000_000
MAX_PARTS = 10_000  # segments, chunks or reads: more are there to keep the reader busy
PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"
TIFF_SIGNATURES = (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")
FORMATS = ("JPEG", "BMP", "WEBP", "GIF", "PPM")  # as Pillow names them
# where the preamble lacks
DICOM_STARTS = (b"\x02\0\0\0UL", b"\x08\0\0\0", b"\x08\0\x05\0", b"\x08\0\x08\0")
# brands of HEIC, behind its first box's length
HEIC_START = re.compile(rb".{4}ftyp(hei[cxms]|hev[cxms]|mif1|msf1)", re.DOTALL)
ORIENTATION_TAG = 0x0112  # of EXIF
MAX_PROFILE = 2**22  # bytes of a colour profile
# of a JPEG's segment; the others are padding or stand alone
MARKER = re.compile(rb"\xff[^\x00\x01\xff\xd0-\xd8]")
# of a frame: baseline, extended or progressive, by Huffman's code or arithmetic. Of a lossless one
# simplejpeg overruns its memory
JPEG_FRAMES = (b"\xff\xc0", b"\xff\xc1", b"\xff\xc2", b"\xff\xc9", b"\xff\xca")
NO_FRAMES = (b"\xff\xc4", b"\xff\xc8", b"\xff\xcc")  # of these markers: tables
JPEG_END = b"\xff\xd9"
JPEG_SCAN = b"\xff\xda"
BLOCK = 8  # px of a JPEG's component that are coded together
# grey level with which a JPEG's decoder fills missing rows, and by how much it may be off
FILLING = 128
FILLING_TOLERANCE = 2
# How many times as much the first line of blocks may differ from the line above as the lines beside
# do, where one border in ten has as much: 620 real photographs have 1.2 at most, 1,224 copies of 30
# to 95 % quality and 224 to 1,024 px 2.0. Of 137 damages that spoil a crop libjpeg notices 110, and
# both together 124.
MAX_SEAM = 2.1
SEAM_COLUMNS = 128  # that are looked at; smaller pictures show too little
MAX_JUMP = 16  # grey levels; beyond it, as at the edge of a letter, a pixel counts no more
MIN_LIGHT = 10  # grey levels of what is no background


class Picture(NamedTuple):
    """A picture file whose header was read."""

    encoded: bytes
    width: int  # px, before the orientation is applied
    height: int
    format: str  # jpeg, png, or another as Pillow names it, in lower case
    orientation: int  # EXIF's 1-8, still to be applied; 1 where there is none that is valid
    bits: int = 8  # per sample, as it is stored
    has_alpha: bool = False  # whether it has transparency, or as a WebP may have it
    num_scans: int = 0  # of a JPEG; 0 where there is but one
    # per pixel, that the decoder of a JPEG's scans keeps until the last, or all that a TIFF's needs
    kept_bytes: float = 0
    truncated: bool = False  # whether a JPEG was cut short
    num_colours: int = 3  # of a JPEG
    block: int = BLOCK  # lines of a JPEG that are coded together
    depth: int = 0  # bits of a sample that carry light, where the file says it
    profile: bytes = b""  # of its colours, ICC
    page: Any = None  # as the library of a TIFF, DICOM or HEIC reads it


class Parts(io.BytesIO):
    """The bytes of a file, readable in a limited number of parts: Pillow alone may take minutes."""

    num_read = 0

    def read(self, size: int | None = -1) -> bytes:
        """Read the next part."""
        self.num_read += 1
        if self.num_read > MAX_PARTS:
            raise UnreadableImageError("the picture is damaged or has too many parts")
        return super().read(size)


def open_picture(source: str | Path | bytes) -> Picture:
    """Read a picture file and its header.

    Of a JPEG that was cut short the rows that are there can be used: it is given the end marker
    without which OpenCV decodes nothing. Of other formats that are cut short OpenCV decodes nothing
    either, and they are unreadable.

    Raises:
        UnreadableImageError: the file is missing, empty, damaged or no picture. Whether it can be
            decoded is not known yet.
    """
    encoded = source if isinstance(source, bytes) else _read_file(Path(source))
    if not encoded:
        raise UnreadableImageError("the file is empty")
    try:
        if is_dicom(encoded):
            return load_reader("dicom").read_dicom(encoded)
        if HEIC_START.match(encoded):
            return load_reader("heic").read_heic(encoded)
        if encoded.startswith(PNG_SIGNATURE):
            return _read_png(encoded)
        if encoded.startswith(TIFF_SIGNATURES):
            return load_reader("tiff").read_tiff(encoded)
        with Image.open(Parts(encoded), formats=FORMATS) as opened:
            return _read_header(encoded, opened)
    except UnreadableImageError:
        raise
    except Image.DecompressionBombError as error:
        raise UnreadableImageError(
            "the header states too many pixels for a photograph"
        ) from error
    except Exception as error:  # Pillow's readers raise whatever the damage leads them to
        raise UnreadableImageError(
            "not a picture in a supported format, or damaged: export it as a JPEG"
        ) from error


def is_dicom(encoded: bytes) -> bool:
    """Whether a file's first bytes, 132 or more, are those of DICOM."""
    return encoded[128:132] == b"DICM" or encoded.startswith(DICOM_STARTS)


def load_reader(kind: str) -> ModuleType:
    """Load the module that reads TIFF, DICOM or HEIC; the packages of the latter are extras.

    Raises:
        UnreadableImageError: they are not installed.
    """
    try:
        return import_module(f"dr_lib.data.photograph.{kind}")
    except ImportError as error:
        install = write_install("-e", f".[{kind}]")
        raise UnreadableImageError(
            f"a {kind.upper()} file, and what reads it is not installed: {install}"
        ) from error


def _read_file(path: Path) -> bytes:
    try:
        facts = path.stat()
        if not stat.S_ISREG(facts.st_mode):  # a pipe would keep its reader waiting
            raise OSError(0, "not a file, but a folder or a device")
        if facts.st_size > MAX_MEMORY:
            raise OSError(0, f"the file is larger than {MAX_MEMORY // 10**6} MB")
        return path.read_bytes()
    except (OSError, ValueError) as error:  # a name with a zero in it is a ValueError
        reason = getattr(error, "strerror", error)
        raise UnreadableImageError(f"the file cannot be read: {reason}") from error


def _read_header(encoded: bytes, opened: Image.Image) -> Picture:
    kind = opened.format.lower()
    exif = opened.info.get("exif", b"")
    profile = (opened.info.get("icc_profile") or b"")[:MAX_PROFILE]
    if kind in ("jpeg", "mpo"):  # MPO: with further pictures behind the first
        return _read_jpeg(encoded, opened, exif, profile)
    return Picture(
        encoded,
        *opened.size,
        kind,
        _read_orientation(exif),
        has_alpha=kind == "webp",
        profile=profile,
    )


def _read_orientation(block: bytes) -> int:
    """Find the orientation in an EXIF block; 1 if it is damaged or missing."""
    exif = Image.Exif()
    try:
        exif.load(block)
        orientation = exif.get(ORIENTATION_TAG)
    except Exception:  # the photograph is there all the same
        return 1
    return orientation if orientation in range(1, 9) else 1


def _read_jpeg(encoded: bytes, opened: Image.Image, exif: bytes, profile: bytes) -> Picture:
    areas = [across * down for _, across, down, _ in opened.layer]  # samples of each component
    is_progressive = "progressive" in opened.info
    num_scans, truncated = _walk_jpeg(encoded, len(areas), is_progressive=is_progressive)
    if truncated:
        encoded = encoded.rstrip(b"\0") + JPEG_END  # an interrupted copy may end in zeros
    return Picture(
        encoded,
        *opened.size,
        "jpeg",
        _read_orientation(exif),
        num_scans=num_scans,
        kept_bytes=2 * sum(areas) / max(areas) if num_scans else 0,
        truncated=truncated,
        num_colours=len(areas),
        block=BLOCK * max(down for _, _, down, _ in opened.layer) if len(areas) > 1 else BLOCK,
        profile=profile,
    )


def _walk_jpeg(
    encoded: bytes, num_components: int, *, is_progressive: bool
) -> tuple[int, bool]:
    """Walk through a JPEG past its first pixels, where Pillow stops, to count scans and see cuts.

    Scans are 0 where one has all components. Bytes behind the end marker do not count, nor does the
    end of a thumbnail.
    """
    has_end = encoded.endswith(JPEG_END)
    num_scans = 0
    num_seen = 0  # scans; behind the first, damage may look like a frame
    at = 2
    for _ in range(MAX_PARTS):
        marker = MARKER.search(encoded, at)
        if marker is None:
            break
        if marker[0] == JPEG_END:
            has_end = True
            break
        at = marker.end()
        is_frame = marker[0][1] >> 4 == 0xC and marker[0] not in NO_FRAMES
        if is_frame and not num_seen and marker[0] not in JPEG_FRAMES:
            raise UnreadableImageError(
                "the JPEG is a lossless or hierarchical one, which is not read: export it as a"
                " usual JPEG or as a PNG"
            )
        if marker[0] == JPEG_SCAN:
            num_seen += 1
            if is_progressive or encoded[at + 2 : at + 3] != bytes([num_components]):
                num_scans += 1
            elif has_end:
                break
        at += int.from_bytes(encoded[at : at + 2])
    else:
        raise UnreadableImageError("the JPEG has too many parts")
    return num_scans, not has_end


def _read_png(encoded: bytes) -> Picture:
    """Walk through a PNG to its end; its orientation may come before or after the pixels.

    Pillow would refuse a photograph for a damaged comment, and OpenCV makes room for what a chunk
    claims, be it 2 GB.
    """
    kind, width, height, bits, colour = struct.unpack_from(">4s2I2B", encoded, 12)
    if kind != b"IHDR" or not width or not height:
        raise UnreadableImageError("the PNG has a damaged header")
    at = 8
    exif = b""
    depth = 0
    profile = b""
    for _ in range(MAX_PARTS):
        end = at + 12 + int.from_bytes(encoded[at : at + 4])
        kind = encoded[at + 4 : at + 8]
        if end > len(encoded):
            raise UnreadableImageError("the picture is damaged or cut short")
        if kind == b"eXIf":
            exif = encoded[at + 8 : end - 4]
        if kind == b"sBIT" and bits == 16:
            depth = min(16, max(encoded[at + 8 : end - 4], default=0))
        if kind == b"iCCP":
            profile = _unpack_profile(encoded[at + 8 : end - 4])
        if kind == b"IEND":
            return Picture(
                encoded,
                width,
                height,
                "png",
                _read_orientation(exif),
                max(8, bits),
                has_alpha=colour in (4, 6),
                depth=depth,
                profile=profile,
            )
        at = end
    raise UnreadableImageError("the PNG has too many parts")


def _unpack_profile(content: bytes) -> bytes:
    """Unpack the colour profile of a PNG's chunk: its name, a zero, the method, what is packed."""
    try:
        packed = content.partition(b"\0")[2][1:]
        return zlib.decompressobj().decompress(packed, MAX_PROFILE)
    except zlib.error:
        return b""


def count_bytes(picture: Picture, reduction: int) -> int:
    """Estimate the bytes for a file and its decoding; only a JPEG shrinks while it is decoded."""
    is_plain = picture.format in ("png", "bmp")
    if picture.format == "jpeg":
        per_pixel = 6 / reduction**2 + picture.kept_bytes
    elif picture.page:
        per_pixel = picture.kept_bytes
    else:
        per_pixel = picture.bits / 8 * (6 if is_plain and not picture.has_alpha else 8)
    copies = 1 if is_plain or picture.format == "jpeg" else 2  # of the file
    return copies * len(picture.encoded) + int(picture.width * picture.height * per_pixel)


def decode(picture: Picture, reduction: int) -> tuple[np.ndarray, bool]:
    """Decode as stored, shrunk by exactly that factor, which saves time for a JPEG.

    Returns:
        (height, width, 3) uint8 RGB, black where it is transparent, samples of more than eight bits
        scaled from the depth that they need; and whether what it shows is doubtful: a JPEG is
        damaged inside, or a depth is uncertain.

    Raises:
        UnreadableImageError: it would take too much memory or time, or is not read.
    """
    _check_size(picture, reduction)
    if picture.format == "jpeg":
        return _decode_jpeg(picture, reduction)
    if picture.page:
        reader = load_reader(picture.format)
        try:
            image = reader.read_samples(picture)
        except (MemoryError, UnreadableImageError):
            raise
        except Exception as error:  # decoders raise whatever the damage leads them to
            raise UnreadableImageError(
                f"the {picture.format.upper()} is damaged, or stored in a way that is not read"
            ) from error
    else:
        unchanged = cv2.IMREAD_UNCHANGED
        image = _decode_with_opencv(
            picture, unchanged if picture.has_alpha else cv2.IMREAD_COLOR | cv2.IMREAD_ANYDEPTH
        )
    is_uncertain = False
    depth = picture.depth or 8
    if image.dtype == np.uint16:
        depth, is_uncertain = find_depth(image, picture.depth)
    while reduction > 1:
        image = halve(image)
        reduction //= 2
    image = reduce_depth(image, depth)
    if picture.page:
        return reader.to_rgb(image, picture.page), is_uncertain
    return cv2.cvtColor(image, cv2.COLOR_BGR2RGB), is_uncertain


def _decode_jpeg(picture: Picture, reduction: int) -> tuple[np.ndarray, bool]:
    """Decode a JPEG; its pixels are OpenCV's to the bit, which stays silent about damage."""
    is_cmyk = picture.num_colours == 4
    is_damaged = False
    if not picture.truncated:
        try:
            image = simplejpeg.decode_jpeg(
                picture.encoded,
                "CMYK" if is_cmyk else "RGB",
                min_factor=reduction,
                min_height=-(-picture.height // reduction),
                min_width=-(-picture.width // reduction),
            )
            if not is_cmyk:
                return image, not picture.num_scans and _has_seam(
                    image, picture.block // reduction
                )
            del image  # OpenCV converts it
        except ValueError as error:  # of subsampling it knows the common ways
            is_damaged = "subsampling" not in str(error)
    flags = getattr(cv2, f"IMREAD_REDUCED_GRAYSCALE_{reduction}", 0) | cv2.IMREAD_COLOR_RGB
    return _decode_with_opencv(picture, flags), is_damaged


def _decode_with_opencv(picture: Picture, flags: int) -> np.ndarray:
    """Decode with OpenCV: uint8 or uint16, as the flags say."""
    buffer = np.frombuffer(picture.encoded, np.uint8)
    image = cv2.imdecode(buffer, flags | cv2.IMREAD_IGNORE_ORIENTATION)
    if image is None or image.size == 0:
        raise UnreadableImageError(
            "the picture is damaged, cut short or in a format that OpenCV does not read"
        )
    if image.ndim == 3 and image.shape[2] == 4:
        return hide_transparent(cv2.cvtColor(image, cv2.COLOR_BGRA2BGR), image[..., 3])
    return image


def hide_transparent(image: np.ndarray, alpha: np.ndarray) -> np.ndarray:
    """Blacken, in place, what is half or more transparent: its colour is left to chance."""
    is_hidden = (alpha <= alpha.max() // 2).view(np.uint8)
    # NumPy's indices took 20 bytes per pixel
    return cv2.bitwise_xor(image, image, dst=image, mask=is_hidden)


def _has_seam(image: np.ndarray, block: int) -> bool:
    """Whether a line of blocks begins with a jump: from the damage on, all is brighter or shifted.

    Args:
        image: (height, width, 3) uint8.
        block: lines that were coded together.
    """
    step = min(image.shape[:2]) // SEAM_COLUMNS
    if not step:
        return False
    grey = np.ascontiguousarray(cv2.cvtColor(image, cv2.COLOR_RGB2GRAY)[:, ::step])
    jumps = cv2.absdiff(grey[1:], grey[:-1])
    darker = cv2.min(grey[1:], grey[:-1])
    # what falls by more than a half is the edge of the field of view
    is_retina = ((darker > MIN_LIGHT) & (jumps < darker)).view(np.uint8)
    counts, sums = (
        cv2.reduce(values, 1, cv2.REDUCE_SUM, dtype=cv2.CV_32S)[:, 0]
        for values in (is_retina, cv2.min(jumps, MAX_JUMP) * is_retina)
    )
    means = sums / np.maximum(counts, grey.shape[1] / 8)
    beside = np.maximum(means[:-2], means[2:])
    ratios = np.sort((means[1:-1] / (beside + 1))[max(0, block - 2) :: max(1, block)])
    # where a picture is packed hard all blocks have borders
    return bool(ratios[-1] > MAX_SEAM * max(1, ratios[9 * len(ratios) // 10 - 1]))


def _check_size(picture: Picture, reduction: int) -> None:
    """Refuse, by its header alone, a picture that would take too much memory or time to decode."""
    size = f"{picture.width} x {picture.height} px as {picture.format.upper()}"
    num_pixels = picture.width * picture.height
    is_long = max(picture.width, picture.height) > MAX_SIDE
    if is_long or num_pixels > MAX_PIXELS or count_bytes(picture, reduction) > MAX_MEMORY:
        raise UnreadableImageError(
            f"{size} has too many pixels: export the photograph as a smaller JPEG"
        )
    if picture.num_scans * num_pixels > MAX_SCANNED:
        raise UnreadableImageError("the JPEG has too many scans")


def count_rows_decoded(image: np.ndarray, reduction: int) -> int:
    """Count the rows of a JPEG before the grey that its decoder fills in for missing rows.

    The last row of blocks, of which a part may be grey, does not count.
    """
    if not _is_filling(image[-1:])[0]:
        return len(image)
    decoded = np.flatnonzero(~_is_filling(image))
    return max(1, max(decoded, default=-1) + 1 - 2 * BLOCK // reduction)


def _is_filling(rows: np.ndarray) -> np.ndarray:
    """Tell which rows of an image are filled in: (n,) bool."""
    difference = np.abs(rows.reshape(len(rows), -1).astype(np.int16) - FILLING)
    return difference.max(axis=1) <= FILLING_TOLERANCE
