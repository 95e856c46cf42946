"""Files that end in `.Z`: the `compress` of old Unix, in which UCI still keeps Musk, and which Python cannot read."""

from ahop.errors import FileFormatError

MAGIC = b"\x1f\x9d"
CLEAR = 256


def unpack_z(packed: bytes, limit: int, where: str) -> bytes:
    """Codes of growing width name strings seen before; each code but the first adds one string to the table.

    Eight codes make a group of as many bytes as a code has bits. When the width changes, the rest of a group is left
    unused: a habit of the first program, kept by all others.
    """
    if len(packed) < 3 or packed[:2] != MAGIC or not 10 <= packed[2] & 31 <= 16:
        raise FileFormatError(f"`{where}` does not begin as a `.Z` file does.")
    widest, clears = packed[2] & 31, bool(packed[2] & 128)
    fresh = [bytes([byte]) for byte in range(256)] + ([b""] if clears else [])
    table, width, at = list(fresh), 9, 3
    unpacked, previous = bytearray(), b""
    while at < len(packed):
        group, next_width = int.from_bytes(packed[at : at + width], "little"), width
        for code in _codes(group, width, min(width, len(packed) - at)):
            if clears and code == CLEAR:
                table, next_width, previous = list(fresh), 9, b""
                break
            if code > len(table) or (code == len(table) and not previous):
                raise FileFormatError(f"`{where}` is damaged: at byte {at} a code that nothing stands for.")
            string = table[code] if code < len(table) else previous + previous[:1]
            if previous and len(table) < 1 << widest:
                table.append(previous + string[:1])
            previous = string
            unpacked += string
            if len(unpacked) > limit:
                raise FileFormatError(f"`{where}` unpacks to more than {limit} bytes.")
            if len(table) == 1 << width and width < widest:
                next_width = width + 1
                break
        at += width
        width = next_width
    return bytes(unpacked)


def _codes(group: int, width: int, size: int) -> list[int]:
    """The codes of one group, of which the last of a file may be short."""
    return [group >> shift & (1 << width) - 1 for shift in range(0, size * 8 - width + 1, width)]
