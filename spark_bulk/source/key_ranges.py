"""Ranges of keys, and what Spark's filters say about them. Pure.

    key = k          the range [k, k + \\0)
    key >= k         [k, …)                 key > k     [k + \\0, …)
    key < k          […, k)                 key <= k    […, k + \\0)
    key LIKE 'p%'    [p, the next prefix)   for text; bytes in a column of text are ordered as UTF-8, as ours are

Filters are joined by AND. What is no filter on the key is left to Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple

__all__ = ["ALL_KEYS", "KeyRange", "prefix_range", "range_of_filters"]


class KeyRange(NamedTuple):
    """Keys from `start` up to, and without, `end`; None: no end."""

    start: bytes = b""
    end: bytes | None = None

    @property
    def is_all(self) -> bool:
        """Does it hold every key?"""
        return not self.start and self.end is None

    @property
    def is_empty(self) -> bool:
        """Can no key be in it?"""
        return self.end is not None and self.start >= self.end

    @property
    def single(self) -> bytes | None:
        """The one key that it can hold, if it is one."""
        return self.start if self.start and self.end == self.start + b"\x00" else None

    def both(self, other: KeyRange) -> KeyRange:
        """The keys that are in this one and in the other."""
        ends = [end for end in (self.end, other.end) if end is not None]
        return KeyRange(max(self.start, other.start), min(ends, default=None))


ALL_KEYS: Final = KeyRange()


def prefix_range(prefix: bytes) -> KeyRange:
    """The keys that begin with `prefix`."""
    stem = prefix.rstrip(b"\xff")
    return KeyRange(prefix, stem[:-1] + bytes([stem[-1] + 1]) if stem else None)


_RANGES: Final[dict[str, Callable[[bytes], KeyRange]]] = {
    "EqualTo": lambda key: KeyRange(key, key + b"\x00"),
    "EqualNullSafe": lambda key: KeyRange(key, key + b"\x00"),
    "GreaterThan": lambda key: KeyRange(key + b"\x00", None),
    "GreaterThanOrEqual": lambda key: KeyRange(key, None),
    "LessThan": lambda key: KeyRange(b"", key),
    "LessThanOrEqual": lambda key: KeyRange(b"", key + b"\x00"),
    "StringStartsWith": prefix_range,
}


def _range_of_filter(found: Any) -> KeyRange | None:
    """The range that one of `pyspark.sql.datasource`'s filters asks for; None where it asks for something else."""
    name = type(found).__name__
    if getattr(found, "attribute", None) != ("key",):
        return None
    if name == "IsNotNull":
        return ALL_KEYS
    value = getattr(found, "value", None)
    if isinstance(value, str):
        value = value.encode()
    if name not in _RANGES or not isinstance(value, bytes | bytearray):
        return None
    return _RANGES[name](bytes(value))


def range_of_filters(filters: Iterable[Any]) -> tuple[KeyRange, list[Any]]:
    """The keys that all filters let through, and the filters that Spark has to look at itself."""
    keys, left = ALL_KEYS, []
    for each in filters:
        found = _range_of_filter(each)
        if found is None:
            left.append(each)
        else:
            keys = keys.both(found)
    return keys, left
