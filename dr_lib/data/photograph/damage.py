"""Mend a picture file that was cut short: keep the rows that its bytes hold, so that a decoder takes it.

OpenCV gives nothing of a cut file. A JPEG lacks but its end marker, perhaps behind zeros that an interrupted copy left.
Of a PNG, BMP or TIFF whose directory stands in front the whole rows are counted, and its header is made to promise no
more. Of a cut WebP nothing can be had.
"""

import struct
import zlib

from dr_lib.data.photograph.headers import (
    JPEG_END_MARKER,
    Header,
    UnreadableImageError,
    read_chunks,
    read_entries,
    read_segments,
)

JPEG_END = b"\xff\xd9"
PNG_END = b"\0\0\0\0IEND\xaeB`\x82"
KIND = 254  # tag of a TIFF: 1 is a thumbnail
LENGTH, STARTS, ROWS, SIZES = 257, 273, 278, 279  # tags of a TIFF: rows of the picture; strips, their rows, their bytes
ZEROS = bytes(64)  # at the end of a packed picture: an interrupted copy left them
MAX_BYTES_PER_PIXEL = 16  # four samples of 32 bits: a longer strip is a damaged number
PNG_CHANNELS = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}  # colour type -> samples per pixel


def mend(encoded: bytes, header: Header) -> tuple[bytes, Header, bool]:
    """Mend a file if it was cut short.

    Args:
        encoded: the bytes of the file.
        header: what `read_header` found in them.

    Returns:
        The file, or one that holds its first rows; its header, whose size is the whole picture's, and whose
        orientation is another where the rows are in another order now; and whether rows are missing. Of a JPEG that
        is not known before it is decoded: one without its end counts as cut.

    Raises:
        UnreadableImageError: the file is cut short and no row of it can be had.
    """
    if header.format == "jpeg" and is_cut_short(encoded):
        return encoded.rstrip(b"\0") + JPEG_END, header, True
    mended, num_rows, orientation = encoded, header.height, header.orientation
    try:
        if header.format == "png" and not _is_whole_png(encoded):
            mended, num_rows = _mend_png(encoded)
        elif header.format == "bmp":
            mended, num_rows, orientation = _mend_bmp(encoded, header)
        elif header.format == "tiff":
            mended, num_rows = _mend_tiff(encoded, header)
    except struct.error as error:  # a number that lies past the end
        raise UnreadableImageError("the file is cut short before its pixels") from error
    if num_rows < 1:
        raise UnreadableImageError("the file is cut short and no row of the picture can be had")
    return mended, header._replace(orientation=orientation), num_rows < header.height


def is_cut_short(encoded: bytes) -> bool:
    """Whether a JPEG lacks its end marker; bytes behind that do not count, nor does the end of a thumbnail."""
    return not encoded.endswith(JPEG_END) and all(marker != JPEG_END_MARKER for marker, _, _ in read_segments(encoded))


def _is_whole_png(encoded: bytes) -> bool:
    """Whether each chunk ends before the file does: OpenCV makes room for whatever length one claims, be it 2 GB.

    Raises:
        UnreadableImageError: there is far more behind the pixels than pixels, to keep the reader unpacking.
    """
    num_packed = 0
    for kind, at, length in read_chunks(encoded):
        num_packed += length * (kind == b"IDAT")
        if kind == b"IEND" and at + length + 4 <= len(encoded):
            width, height, depth = struct.unpack_from(">2IB", encoded, 16)
            if num_packed > height * (width * depth + 8) + 10_000:  # 8 samples per pixel: twice what there can be
                raise UnreadableImageError("a PNG with far more in it than its pixels")
            return True
    return False


def _mend_png(encoded: bytes) -> tuple[bytes, int]:
    """Unpack what is there of the pixels, and pack the whole rows of it anew."""
    width, height, depth, colour, _, _, interlaced = struct.unpack_from(">2I5B", encoded, 16)
    if interlaced or colour not in PNG_CHANNELS:
        raise UnreadableImageError("a PNG that is cut short, and whose rows are not in order")
    before, pixels = [], []
    for kind, at, length in read_chunks(encoded):
        if kind == b"IDAT":
            pixels.append(encoded[at : at + length])
        elif kind in (b"PLTE", b"tRNS"):
            before.append(encoded[at - 8 : at + length + 4])
    stride = 1 + (width * depth * PNG_CHANNELS[colour] + 7) // 8
    try:
        raw = zlib.decompressobj().decompress(b"".join(pixels), stride * height)
    except zlib.error as error:
        raise UnreadableImageError("a PNG that is cut short, and damaged besides") from error
    num_rows = len(raw) // stride
    size = struct.pack(">2I5B", width, num_rows, depth, colour, 0, 0, 0)
    packed = zlib.compress(memoryview(raw)[: num_rows * stride], 1)
    whole = encoded[:8], _chunk(b"IHDR", size), *before, _chunk(b"IDAT", packed), PNG_END
    return b"".join(whole), num_rows


def _chunk(kind: bytes, content: bytes) -> bytes:
    crc = zlib.crc32(content, zlib.crc32(kind))
    return b"".join((struct.pack(">I", len(content)), kind, content, struct.pack(">I", crc)))


def _mend_bmp(encoded: bytes, header: Header) -> tuple[bytes, int, int]:
    """The rows of a BMP stand upside down as a rule: kept that way, the missing ones are the last."""
    start, head = struct.unpack_from("<2I", encoded, 10)
    if head < 40:  # of OS/2, with another layout
        return encoded, header.height, header.orientation
    height, _, depth, packing = struct.unpack_from("<i2HI", encoded, 22)
    stride = (header.width * depth + 31) // 32 * 4
    num_rows = (len(encoded) - start) // stride if stride else 0
    if packing not in (0, 3) or num_rows >= header.height:  # run lengths are left to the decoder
        return encoded, header.height, header.orientation
    mended = encoded[:22] + struct.pack("<i", -max(num_rows, 0)) + encoded[26:]
    return mended, num_rows, 4 if height > 0 else 1


def _mend_tiff(encoded: bytes, header: Header) -> tuple[bytes, int]:
    """Count the rows of the strips that are there; without a compression, of the one that is cut too."""
    entries = read_entries(encoded)
    if KIND in entries and entries[KIND].values[0] & 1:
        raise UnreadableImageError("a TIFF that begins with a thumbnail: export the photograph alone")
    if not entries.keys() >= {LENGTH, STARTS, ROWS, SIZES}:  # tiles: the decoder takes all or nothing
        return encoded, header.height
    compression, orientation, planes = (entries[tag].values[0] if tag in entries else 1 for tag in (259, 274, 284))
    strips = list(zip(entries[STARTS].values, entries[SIZES].values, strict=False))
    is_packed = compression != 1
    there = len(encoded.rstrip(b"\0") if is_packed and encoded.endswith(ZEROS) else encoded)
    num_whole = next((i for i, (start, size) in enumerate(strips) if start + size > there), len(strips))
    if num_whole == len(strips):
        return encoded, header.height
    rows_per_strip = min(entries[ROWS].values[0], header.height)
    num_rows, (start, size) = num_whole * rows_per_strip, strips[num_whole]
    in_strip = min(rows_per_strip, header.height - num_rows)
    padding = b""
    if not is_packed and start < len(encoded) and size <= header.width * in_strip * MAX_BYTES_PER_PIXEL:
        num_rows += (len(encoded) - start) * in_strip // size
        padding = bytes(start + size - len(encoded))
    if orientation != 1 or planes != 1 or not 0 < num_rows < header.height:  # the decoder turns it, or rows come twice
        return encoded, 0
    at, code = entries[LENGTH].at, entries[LENGTH].code
    height = struct.pack(code, num_rows)
    return encoded[:at] + height + encoded[at + len(height) :] + padding, num_rows
