"""A column of whatever type of Arrow, as the type that a field has. Nothing is rounded, cut off or parsed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

__all__ = ["UnfitColumn", "cast_column", "first_unfit", "plain_column", "shown"]

_WIDEST: Final = 76
"""Digits of Arrow's widest decimal."""
_SHOWN_MAX: Final = 60
"""Characters of a value in a message."""


_VIEWS: Final = ((kinds.is_string_view, pa.string()), (kinds.is_binary_view, pa.binary()))


class UnfitColumn(Exception):
    """A value that is not of its field's type. `path`: the innermost part first."""

    def __init__(self, value: str, expected: str, fix: str = "") -> None:
        super().__init__(expected)
        self.value, self.expected, self.fix = value, expected, fix
        self.path: list[str] = []

    @property
    def place(self) -> str:
        """The dotted path of the field."""
        place = ""
        for part in reversed(self.path):
            place += part if part.startswith("[") or not place else f".{part}"
        return place


def _is_text(type_: pa.DataType) -> bool:
    return bool(kinds.is_string(type_) or kinds.is_large_string(type_) or kinds.is_string_view(type_))


def _is_binary(type_: pa.DataType) -> bool:
    return bool(
        kinds.is_binary(type_)
        or kinds.is_large_binary(type_)
        or kinds.is_binary_view(type_)
        or kinds.is_fixed_size_binary(type_)
    )


def _is_number(type_: pa.DataType) -> bool:
    return bool(kinds.is_integer(type_) or kinds.is_floating(type_))


def _is_zoned(type_: pa.DataType) -> bool:
    return kinds.is_timestamp(type_) and type_.tz is not None


def _is_local(type_: pa.DataType) -> bool:
    return kinds.is_timestamp(type_) and type_.tz is None


_TAKEN: Final[dict[str, tuple[Callable[[pa.DataType], bool], str]]] = {
    "boolean": (kinds.is_boolean, "give true or false"),
    "int": (_is_number, "cast the column to int32"),
    "long": (_is_number, "cast the column to int64"),
    "float": (_is_number, "cast the column to float"),
    "double": (_is_number, "cast the column to double"),
    "string": (_is_text, "cast the column to string"),
    "bytes": (_is_binary, "cast the column to binary"),
    "fixed": (_is_binary, "cast the column to binary"),
    "enum": (_is_text, "cast the column to string"),
    "uuid": (lambda type_: _is_text(type_) or _is_binary(type_), "give UUIDs as text or as 16 bytes"),
    "decimal": (lambda type_: kinds.is_decimal(type_) or kinds.is_integer(type_), "cast the column to a decimal"),
    "date": (lambda type_: kinds.is_date(type_) or _is_local(type_), "cast the column to date32"),
    "time-millis": (kinds.is_time, "cast the column to time32('ms')"),
    "time-micros": (kinds.is_time, "cast the column to time64('us')"),
    "timestamp-millis": (_is_zoned, "give it a time zone: cast the column to timestamp('ms', 'UTC')"),
    "timestamp-micros": (_is_zoned, "give it a time zone: cast the column to timestamp('us', 'UTC')"),
    "local-timestamp-millis": (_is_local, "cast the column to timestamp('ms'), without a time zone"),
    "local-timestamp-micros": (_is_local, "cast the column to timestamp('us'), without a time zone"),
}
"""Which types of Arrow a column may have for each type of Avro, and what to do about another."""


def plain_column(array: pa.Array) -> pa.Array:
    """The same column as a type that Arrow's functions take: a UUID's bytes, and texts in place of views of them."""
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    for is_view, plain in _VIEWS:
        if is_view(array.type):
            return array.cast(plain)
    return array


def cast_column(array: pa.Array, name: str, target: pa.DataType) -> pa.Array:
    """A column without nulls, as the type of a field that Avro calls `name`. Raises `UnfitColumn` with the first value
    that does not fit.
    """
    if kinds.is_dictionary(array.type):
        array = array.dictionary_decode()
    if array.type == target or not len(array):
        return array if array.type == target else pa.array([], target)
    takes, fix = _TAKEN[name]
    if kinds.is_string(target) and name == "decimal":  # more digits than Arrow has
        takes = _is_text
    if not takes(array.type):
        raise UnfitColumn(shown(array, 0), name, fix)
    try:
        return _exact(array, target)
    except (pa.ArrowException, ValueError):
        place = first_unfit(array, lambda each: _exact(each, target))
        raise UnfitColumn(shown(array, place), name, "the cast would change it, so round it first") from None


def first_unfit(array: pa.Array, check: Callable[[pa.Array], Any]) -> int:
    """The place of the first value of which `check` raises. O(n) calls."""
    for place in range(len(array)):
        try:
            check(array.slice(place, 1))
        except (pa.ArrowException, ValueError):
            return place
    return 0


def shown(array: pa.Array, place: int) -> str:
    """A value in a message, shortened, and its type."""
    scalar = array[place]
    try:
        value = scalar.as_py()
        text = ascii(value) if isinstance(value, (str, bytes, type(None))) else ascii(str(value))[1:-1]
    except (ValueError, OverflowError, ImportError):  # no value of Python
        text = "a value that Python does not have"
    short = text if len(text) <= _SHOWN_MAX else f"{text[: _SHOWN_MAX - 2]} …"
    return f"{short} ({array.type})"


def _exact(array: pa.Array, target: pa.DataType) -> pa.Array:
    """The cast that loses nothing; raises `ArrowInvalid` or `ValueError`."""
    if kinds.is_integer(array.type) and kinds.is_decimal(target):
        array = array.cast(pa.decimal256(_WIDEST, target.scale))  # a narrower one has no room for any int64
    made = array.cast(target, safe=True)
    if kinds.is_date32(target) and not made.cast(array.type).equals(array):
        raise ValueError("it has a time of day")
    if kinds.is_float32(target) and not pc.is_inf(array.cast(pa.float64())).equals(pc.is_inf(made)):
        raise ValueError("it is too large")
    return made
