"""How many fields a message has, counted before it is parsed.

A field of two bytes becomes an object of a hundred. A message of the largest size with nothing but empty fields takes
the parser 1.6 s and 2 GB, and the parser lets no other thread run meanwhile. This walk is slower for each field, but
other threads run meanwhile, and it ends at a limit: its time grows with the fields and not with the bytes.
"""

from __future__ import annotations

from typing import Any, Final

__all__ = ["count_fields"]

_VARINT: Final = 0
_FIXED_64: Final = 1
_BYTES: Final = 2
_FIXED_32: Final = 5

_SKIPPED: Final = {_FIXED_64: 8, _FIXED_32: 4}


def count_fields(raw: bytes, descriptor: Any, most: int) -> int:
    """The fields of a message and of those inside it, which are all of `descriptor`'s type or named by it; where they
    are more than `most`, some number above it. Packed numbers count as one for each byte. 0.3 µs a field.

    A message that does not parse is counted up to where that shows.
    """
    count = 0
    inside: list[tuple[int, int, Any]] = [(0, len(raw), descriptor)]
    try:
        while inside and count <= most:
            at, end, kind = inside.pop()
            fields = kind.fields_by_number
            while at < end and count <= most:
                count += 1
                tag, at = _varint(raw, at)
                wire = tag & 7
                if wire == _VARINT:
                    _, at = _varint(raw, at)
                elif wire == _BYTES:
                    size, at = _varint(raw, at)
                    if at + size > end:
                        return count
                    field = fields.get(tag >> 3)
                    if field is not None and field.message_type is not None:
                        inside.append((at, at + size, field.message_type))
                    elif field is not None and field.type not in (field.TYPE_STRING, field.TYPE_BYTES):
                        count += size
                    at += size
                else:
                    at += _SKIPPED.get(wire, 0)  # the begin and the end of a group are their tags alone
    except IndexError:
        pass  # the message ends in the middle of a number
    return count


def _varint(raw: bytes, at: int) -> tuple[int, int]:
    """A number of the wire, and where it ends. Raises `IndexError`."""
    byte = raw[at]
    at += 1
    if byte < 128:
        return byte, at
    value, shift = byte & 127, 7
    while shift < 70:
        byte = raw[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            break
        shift += 7
    return value, at
