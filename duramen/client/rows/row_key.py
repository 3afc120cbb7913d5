"""The key of a table whose keys have fields: of a row, of what a caller gives, and as a range of a scan."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from types import EllipsisType
from typing import Any

from duramen.client.rows.plans.refusals import shown
from log_tier.model.errors import InvalidKey, InvalidRequest, InvalidRow
from log_tier.model.record import check_key
from log_tier.rows.avro.avro_types import AvroType
from log_tier.rows.definition import TableDefinition
from log_tier.rows.elements import KeyElement, encode_element
from log_tier.rows.key_fields import KeyField, keyed_value, without_null
from log_tier.rows.tuple_key import ScanBounds, key_range, unpack_key

__all__ = ["RowKey"]


class RowKey:
    """The fields of a table's key, in their order."""

    def __init__(self, definition: TableDefinition) -> None:
        assert isinstance(definition.key, tuple), "the keys of this table have fields"
        self._fields: tuple[tuple[KeyField, AvroType | None], ...] = tuple(
            (each, _row_type(definition, each.name)) for each in definition.key
        )
        self._definition = definition
        self.names = tuple(each.name for each in definition.key)
        self._fields_of: Callable[[Mapping[str, Any]], Sequence[Any]] = (
            itemgetter(*self.names) if len(self.names) > 1 else lambda values: (values[self.names[0]],)
        )
        self._is_rounded = any(row_type == "float" for _, row_type in self._fields)
        self._words = f"({', '.join(self.names)}{',' if len(self.names) == 1 else ''})"

    def of_row(self, values: Mapping[str, Any]) -> bytes:
        """The key of a row whose values are checked. Raises `InvalidRow` for NaN, `InvalidKey` for over 511 bytes."""
        fields = self._fields_of(values)
        if self._is_rounded:
            fields = self._keyed(fields)
        try:
            return check_key(b"".join(map(encode_element, fields)))
        except InvalidKey as error:
            for name, value in zip(self.names, fields, strict=True):
                _check_element(name, value)
            raise InvalidKey(f"the key {self._words} of the row: {error.message}") from None

    def of_fields(self, fields: Sequence[Any]) -> bytes:
        """The key of fields as a caller gives them. Raises `InvalidKey`, which names the field."""
        return self._definition.key_of(fields)

    def fields_of(self, key: bytes) -> tuple[KeyElement, ...]:
        """The fields of a stored key. Raises `InvalidKey`."""
        return unpack_key(key)

    def bounds(self, fields: Mapping[str, Any]) -> ScanBounds:
        """The range of the keys with these fields, which are the first ones of the key; the last may be a range, as
        (start, end). Raises `InvalidRequest`, `InvalidKey`.
        """
        for name in fields:
            if name not in self.names:
                raise InvalidRequest(f"{name} is no field of the key {self._words}: a scan goes along the key")
        given = [name for name in self.names if name in fields]
        missing = next((name for name in self.names[: len(given)] if name not in fields), None)
        if missing is not None:
            raise InvalidRequest(f"a scan of {given[-1]} needs {missing} too: the key is {self._words}")
        if not given or not isinstance(fields[given[-1]], tuple):
            return key_range(*self._keyed([fields[name] for name in given]))
        *first, last = given
        between = fields[last]
        if len(between) != 2:
            raise InvalidRequest(f"a range of {last} is (start, end), with None for an open end, not {between!r}")
        start, end = (self._bound(len(first), each) for each in between)
        return key_range(*self._keyed([fields[name] for name in first]), start=start, end=end)

    def _bound(self, number: int, value: Any) -> KeyElement | EllipsisType:
        return ... if value is None else keyed_value(self._fields[number][0], value, self._fields[number][1])

    def _keyed(self, fields: Sequence[Any]) -> list[KeyElement]:
        return [
            keyed_value(field, value, row_type)
            for value, (field, row_type) in zip(fields, self._fields[: len(fields)], strict=True)
        ]


def _row_type(definition: TableDefinition, name: str) -> AvroType | None:
    found = definition.schemas[-1].schema.field_of(name) if definition.schemas else None
    return None if found is None else without_null(found.type)[0]


def _check_element(name: str, value: Any) -> None:
    try:
        encode_element(value)
    except InvalidKey as error:
        raise InvalidRow(f"the field {name} is {shown(value)}: {error.message}", field=name, expected="a key") from None
