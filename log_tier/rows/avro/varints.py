"""Avro's integers: seven bits in each byte, the lowest first; then zigzag, so that the lowest bit is the sign."""

from __future__ import annotations

from typing import Final

__all__ = ["Misfit", "int_value", "long_value", "skip_int", "skip_long", "unzigzag"]

_INT_BYTES_MAX: Final = 5
_LONG_BYTES_MAX: Final = 10


class Misfit(Exception):
    """The bytes are not of the type. `reason` is for people; `path` is where, the innermost part first."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.path: list[str] = []

    @property
    def place(self) -> str:
        """`gates[2].name`: fields, and places in arrays and maps."""
        place = ""
        for part in reversed(self.path):
            place += part if part.startswith("[") or not place else f".{part}"
        return place


def long_value(data: bytes, first: int, at: int) -> tuple[int, int]:
    """The value, still zigzag, whose first byte says that others follow, from `at` on; and where it ends. Raises
    `Misfit` for more than 64 bits or 10 bytes, and `IndexError` where its end is missing.
    """
    return _value(data, first, at, _LONG_BYTES_MAX, 64)


def int_value(data: bytes, first: int, at: int) -> tuple[int, int]:
    """As `long_value`, of 32 bits and 5 bytes."""
    return _value(data, first, at, _INT_BYTES_MAX, 32)


def _value(data: bytes, first: int, at: int, bytes_max: int, bits: int) -> tuple[int, int]:
    second = data[at]
    if second < 128:
        return first & 0x7F | second << 7, at + 1
    third = data[at + 1]
    value = first & 0x7F | (second & 0x7F) << 7 | (third & 0x7F) << 14
    if third < 128:
        return value, at + 2
    at += 2
    shift = 21
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 128:
            if value >> bits:
                raise Misfit(f"an integer is beyond {bits} bits")
            return value, at
        shift += 7
        if shift == 7 * bytes_max:
            raise Misfit(f"an integer of {bits} bits has at most {bytes_max} bytes")


def skip_long(data: bytes, at: int) -> int:
    """Where an integer ends whose first byte says that others follow, from `at` on. Raises what `long_value` does."""
    # Each in a line of its own: twice as fast as a loop, and timestamps have 8 bytes.
    if data[at] < 128:
        return at + 1
    if data[at + 1] < 128:
        return at + 2
    if data[at + 2] < 128:
        return at + 3
    if data[at + 3] < 128:
        return at + 4
    if data[at + 4] < 128:
        return at + 5
    if data[at + 5] < 128:
        return at + 6
    if data[at + 6] < 128:
        return at + 7
    if data[at + 7] < 128:
        return at + 8
    if data[at + 8] < 2:  # of the tenth byte one bit is within 64
        return at + 9
    return long_value(data, data[at - 1], at)[1]


def skip_int(data: bytes, at: int) -> int:
    """As `skip_long`, of 32 bits and 5 bytes."""
    if data[at] < 128:
        return at + 1
    if data[at + 1] < 128:
        return at + 2
    if data[at + 2] < 128:
        return at + 3
    return int_value(data, data[at - 1], at)[1]


def unzigzag(value: int) -> int:
    """The integer: 0, 1, 2, 3 are 0, -1, 1, -2."""
    return (value >> 1) ^ -(value & 1)
