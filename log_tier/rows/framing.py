"""A value of a row table: Confluent's framing. A zero, the schema's number as a big-endian u32, then Avro's binary."""

from __future__ import annotations

import struct
from typing import Final

from log_tier.model.errors import InvalidValue

__all__ = ["FRAME_BYTES", "frame", "framed", "schema_number"]

FRAME_BYTES: Final = 5

_NUMBER: Final = struct.Struct(">I")


def frame(number: int, body: bytes) -> bytes:
    """The value of a row: `body` is Avro's binary of the schema `number`."""
    return number.to_bytes(FRAME_BYTES) + body


def framed(value: bytes) -> tuple[int, bytes]:
    """The number of a value's schema, and Avro's binary. Raises `InvalidValue` where there is no framing."""
    if len(value) < FRAME_BYTES or value[0]:
        raise InvalidValue(
            f"the value {value[:8]!r}… is no row: a row begins with a zero and the number of its schema in four bytes"
        )
    return int.from_bytes(value[1:FRAME_BYTES]), value[FRAME_BYTES:]


def schema_number(value: bytes, at: int = 0) -> int:
    """The number of the schema of a row whose frame begins at `at`."""
    return int(_NUMBER.unpack_from(value, at + 1)[0])
