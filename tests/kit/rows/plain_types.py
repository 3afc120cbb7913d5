"""Plain types of rows, and values that fit them and that do not."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any, Final

__all__ = ["FITTING", "ODD", "key_kind", "type_of"]

Values = list[Any]

OTHER_ZONE: Final = timezone(timedelta(hours=-7))
INTS: Final[Values] = [0, 1, -1, 63, 64, -64, -65, 8191, 8192, 100_000, (1 << 31) - 1, -(1 << 31)]
LONGS: Final[Values] = [*INTS, 1 << 31, (1 << 48) - 1, 1 << 55, (1 << 63) - 1, -(1 << 63)]
TEXTS: Final[Values] = ["", "UA", "\0", "a\0b", "Zürich", "x" * 63, "x" * 64, "é" * 40, "x" * 9000]
TIMES: Final[Values] = [
    datetime(1970, 1, 1),
    datetime(1969, 12, 31, 23, 59, 59, 999_999),
    datetime(1978, 12, 2, 19, 29, 36, 710_655),
    datetime(1978, 12, 2, 19, 29, 36, 710_656),
    datetime(2026, 11, 28, 1, 2, 3, 4),
    datetime(2, 1, 1),
    datetime(9998, 12, 31, 23, 59, 59, 999_999),
]
FITTING: Final[dict[str, Values]] = {
    "boolean": [True, False],
    "int": INTS,
    "long": LONGS,
    "float": [0.0, -0.0, 1.5, -(2.0**127)],
    "double": [0.0, -0.0, 1.5, float("inf"), float("nan"), 5e-324],
    "string": TEXTS,
    "bytes": [b"", b"\0\xff", b"x" * 63, b"x" * 64, b"x" * 20_000],
    "date": [date(1, 1, 1), date(1970, 1, 1), date(2026, 11, 28), date(9999, 12, 31)],
    "timestamp-micros": [each.replace(tzinfo=zone) for each in TIMES for zone in (UTC, OTHER_ZONE)],
    "local-timestamp-micros": [*TIMES, datetime(1, 1, 1), datetime(9999, 12, 31)],
}
LOGICAL: Final = {"date": "int", "timestamp-micros": "long", "local-timestamp-micros": "long"}


class Text(str):
    """What is no str by its type."""


ODD: Final[Values] = [
    *(None, True, 7, 1 << 31, 1 << 63, -(1 << 63) - 1, 1 << 60, 2.0, 3.5e38, float("inf"), float("nan")),
    *("text", "\ud800", Text("text"), b"bytes", bytearray(b"b"), memoryview(b"m"), [], {}, object, date(1970, 1, 2)),
    *(datetime(1, 1, 1, tzinfo=UTC), datetime(2026, 1, 1), datetime(2026, 1, 1, tzinfo=OTHER_ZONE)),
]


def type_of(kind: str) -> Any:
    return {"type": LOGICAL[kind], "logicalType": kind} if kind in LOGICAL else kind


def key_kind(kind: str) -> Any:
    named = {"boolean": "bool", "long": "int", "double": "float", "float": "float", "string": "str"}
    return named.get(kind, "datetime" if "timestamp" in kind else kind)
