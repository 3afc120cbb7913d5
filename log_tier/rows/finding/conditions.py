"""Conditions on fields of rows, as ranges of elements."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

from log_tier.model.errors import InvalidKey, InvalidRequest, InvalidSchema
from log_tier.rows.avro.avro_types import AvroType
from log_tier.rows.definition import TableDefinition
from log_tier.rows.elements import decode_element, encode_element
from log_tier.rows.key_fields import KeyField, key_type_of, keyed_value
from log_tier.rows.table_index import INDEX_FIELDS_MAX, NAN, OPEN_END, FieldCondition, TableIndex

__all__ = ["CONDITIONS_MAX", "ConditionFields", "conditions_of", "found_field", "given_by", "refused_condition"]

CONDITIONS_MAX: Final = INDEX_FIELDS_MAX


def conditions_of(given: Mapping[str, Any], definition: TableDefinition) -> tuple[FieldCondition, ...]:
    """The conditions on fields of a table's rows, each a value or a range (start, end).

    Raises `InvalidRequest`, which names the field, for one that rows of some schema lack, that does not sort, and for a
    value of another type.
    """
    return ConditionFields(definition).conditions(given)


def given_by(conditions: Sequence[FieldCondition]) -> dict[str, Any]:
    """What `conditions_of` makes these conditions of: a value or a range (start, end) for each field."""
    return {
        each.path: _value_of(each.start)
        if each.is_value
        else (_value_of(each.start), None if each.end == NAN else _value_of(each.end))
        for each in conditions
    }


def _value_of(element: bytes) -> Any:
    if element == NAN:
        return math.nan
    return None if element in (b"", OPEN_END) else decode_element(element, 0)[0]


class ConditionFields:
    """The fields by which rows of one definition are found; those that were asked for once are remembered."""

    def __init__(self, definition: TableDefinition) -> None:
        self._definition = definition
        self._known: dict[str, tuple[KeyField, AvroType]] = {}
        """No more than the schemas have: what is none of theirs is refused."""

    def conditions(self, given: Mapping[str, Any]) -> tuple[FieldCondition, ...]:
        """See `conditions_of`. Some 2 µs for a field that is known."""
        if len(given) > CONDITIONS_MAX:
            raise InvalidRequest(f"a find has at most {CONDITIONS_MAX} conditions, not {len(given)}")
        return tuple([_condition(path, wanted, *self._field(path)) for path, wanted in given.items()])

    def _field(self, path: str) -> tuple[KeyField, AvroType]:
        found = self._known.get(path)
        if found is None:
            found = self._known[path] = found_field(path, self._definition)
        return found


def found_field(path: str, definition: TableDefinition) -> tuple[KeyField, AvroType]:
    """The field at a path as a field of keys, by its own name, and its type in the newest schema. Raises
    `InvalidRequest` where rows of some schema lack it, and where it does not sort.
    """
    if definition.value != "row":
        raise InvalidRequest(f"the values of this table are {definition.value}: rows alone are found by their fields")
    schemas = [each.schema for each in definition.schemas]
    try:
        alone = TableIndex(1, "find", (path,))
        alone.check(schemas)
    except InvalidSchema as error:
        raise InvalidRequest(f"no row is found by {ascii(path)[:80]}: {error.fields['reason']}") from None
    type_ = alone.type_of(path, schemas[-1])
    kind = key_type_of(type_, schemas[-1])
    assert kind is not None, f"the field {path} sorts"
    return KeyField(path.rpartition(".")[2], kind, optional=True), type_


def refused_condition(path: str, field: KeyField, error: InvalidKey) -> InvalidRequest:
    """What a condition is refused with whose value is none of its field."""
    of_field = f"the key's field {field.name} "
    why = f"it {error.message.removeprefix(of_field)}" if error.message.startswith(of_field) else error.message
    return InvalidRequest(f"the condition on {path}: {why}")


def _condition(path: str, wanted: Any, field: KeyField, type_: AvroType) -> FieldCondition:
    def element_of(value: Any) -> bytes:
        if isinstance(value, float) and math.isnan(value) and field.type == "float":
            return NAN
        try:
            return encode_element(keyed_value(field, value, type_))
        except InvalidKey as error:
            raise refused_condition(path, field, error) from None

    if not isinstance(wanted, tuple):
        element = element_of(wanted)
        return FieldCondition(path, element, element + b"\0", is_value=True)
    if len(wanted) != 2:
        raise InvalidRequest(f"a range of {path} is (start, end), with None for an open end, not {wanted!r}")
    start = b"" if wanted[0] is None else element_of(wanted[0])
    last = NAN if field.type == "float" else OPEN_END
    end = last if wanted[1] is None else min(last, element_of(wanted[1]))
    if start > end:
        raise InvalidRequest(f"no {path} is from {wanted[0]!r} to {wanted[1]!r}: the first is behind the second")
    return FieldCondition(path, start, end, is_value=False)
