"""From the arguments of `create_table` and `table` to what they ask for: a definition, and the type of rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, cast

from duramen.client.model.asked_index import IndexFields, OrderedIndex
from duramen.client.rows.shapes.hints import HintKind, hint_of
from duramen.client.rows.shapes.shape import RowShape, shape_of
from log_tier.model.errors import InvalidRequest, InvalidSchema
from log_tier.model.kept_history import KeptHistory
from log_tier.rows.definition import TableDefinition, ValueKind
from log_tier.rows.finding.conditions import conditions_of
from log_tier.rows.key_fields import KeyField, KeyType, key_type_of, without_null
from log_tier.rows.schema import NumberedSchema
from log_tier.rows.table_index import TableIndex

__all__ = ["AskedDefinition", "asked_definition", "asked_kind"]

_KEY_TYPES: Final[dict[HintKind, KeyType]] = {
    "str": "str",
    "bytes": "bytes",
    "int": "int",
    "float": "float",
    "bool": "bool",
    "uuid": "uuid",
    "date": "date",
    "datetime": "datetime",
    "naive": "datetime",
}

_VALUES: Final[dict[Any, ValueKind]] = {
    None: "bytes",
    bytes: "bytes",
    str: "str",
    "bytes": "bytes",
    "str": "str",
    "json": "json",
}


@dataclass(frozen=True, slots=True)
class AskedDefinition:
    """What a caller asks for."""

    value: ValueKind
    key: Literal["bytes", "str"] | tuple[str, ...]
    """Names of fields; none: those that the table has."""
    shape: RowShape | None = None
    """Of rows, where values are some."""
    definition: TableDefinition | None = None
    """Of a table that is to be made; None: its keys and values are bytes."""

    def check(self, found: TableDefinition | None, table: str) -> TableDefinition:
        """The table's definition, where it is of the kind that was asked for. Raises `InvalidSchema`, which says how to
        open the table. Whether a type of rows fits is not looked at.
        """
        definition = TableDefinition() if found is None else found
        key = definition.key if isinstance(definition.key, str) else tuple(each.name for each in definition.key)
        if definition.value != self.value:
            what = {"row": "rows", "json": "JSON"}.get(definition.value, definition.value)
            raise _misopened(table, f"values are {what}", definition)
        if self.key != key and not (self.key == () and isinstance(key, tuple)):
            words = key if isinstance(key, str) else f"the fields ({', '.join(key)})"
            raise _misopened(table, f"keys are {words}", definition)
        return definition


def asked_definition(
    row: object = None,
    key: object = None,
    value: object = None,
    partition_by: str | Sequence[str] | None = None,
    indexes: Mapping[str, IndexFields] | None = None,
    history: str | int | None = None,
) -> AskedDefinition | None:
    """What the arguments of `create_table` ask for; None: a table of bytes that keeps no history.

    Raises `InvalidSchema`, which names the field, and `InvalidRequest` for arguments that say nothing together.
    """
    asked = _asked(row, key, value, partition_by, indexes)
    if history is None:
        return asked
    keeps, found = KeptHistory.of(history), asked or AskedDefinition("bytes", "bytes")
    return replace(found, definition=replace(found.definition or TableDefinition(), keeps=keeps))


def _asked(
    row: object,
    key: object,
    value: object,
    partition_by: str | Sequence[str] | None,
    indexes: Mapping[str, IndexFields] | None,
) -> AskedDefinition | None:
    asked = asked_kind(row, key, value)
    if indexes and (asked is None or asked.shape is None):
        raise InvalidRequest("indexes= are of rows: give row= too")
    if asked is None:
        if partition_by is not None:
            raise InvalidRequest("partition_by= names fields of the key: give key= too")
        return None
    names = asked.key if isinstance(asked.key, tuple) else ()
    leading = _leading(names, partition_by)
    if asked.shape is not None:
        fields = _fields_of_rows(asked.shape, names)
        schemas = (NumberedSchema(0, asked.shape.schema),)
        return replace(asked, definition=_with_indexes(TableDefinition(1, fields, "row", schemas, leading), indexes))
    keys = _key(key)
    if keys == "bytes" and asked.value == "bytes":
        return asked
    return replace(asked, definition=TableDefinition(key=keys, value=asked.value, partition_by=leading))


def asked_kind(row: object = None, key: object = None, value: object = None) -> AskedDefinition | None:
    """What the arguments of `table` ask for, where the table is there; None: a table of bytes. Raises as
    `asked_definition`.
    """
    if row is not None:
        if value is not None:
            raise InvalidRequest("a table of rows has no other values: leave out value=")
        return AskedDefinition("row", tuple(_names(key)), shape_of(row))
    if key is None and value is None:
        return None
    try:
        kind = _VALUES[value]
    except (KeyError, TypeError):
        raise InvalidRequest(f'value= is str, bytes or "json", not {_shown(value)}; for rows give row=') from None
    keys = _key(key)
    return AskedDefinition(kind, keys if isinstance(keys, str) else tuple(each.name for each in keys))


def _fields_of_rows(shape: RowShape, names: Sequence[str]) -> tuple[KeyField, ...]:
    if not names:
        raise InvalidRequest('a table of rows has a key of its fields: give key=("…", "…")')
    fields = []
    for name in names:
        found = shape.schema.field_of(name)
        if found is None:
            why = f"{shape.name} has no such field; it has {', '.join(each.name for each in shape.schema.fields[:20])}"
            raise InvalidSchema(f"the key's field {name}: {why}", field=name, reason=why)
        plain, optional = without_null(found.type)
        type_ = key_type_of(plain, shape.schema)
        if type_ is None:
            why = "its type does not sort as bytes: use text, a number, a date or a time"
            raise InvalidSchema(f"the key's field {name}: {why}", field=name, reason=why)
        fields.append(KeyField(name, type_, optional))
    return tuple(fields)


def _with_indexes(definition: TableDefinition, given: Mapping[str, IndexFields] | None) -> TableDefinition:
    """`definition`: without any. Raises `InvalidSchema`, and `InvalidRequest` for conditions that are none."""
    if not isinstance(given, Mapping | None):
        raise InvalidRequest(f'indexes= maps names to fields, as {{"by_tail": "tailnum"}}, not {_shown(given)}')
    indexes: list[TableIndex] = []
    for number, (name, asked) in enumerate((given or {}).items(), 1):
        if isinstance(asked, OrderedIndex):
            where = conditions_of(asked.where, definition) if asked.where else ()
            indexes.append(TableIndex(number, name, asked.fields, where, asked.unique))
        else:
            indexes.append(TableIndex(number, name, (asked,) if isinstance(asked, str) else tuple(asked)))
    return replace(definition, indexes=tuple(indexes))


def _names(key: object) -> list[str]:
    if key is None:
        return []
    names = [key] if isinstance(key, str) else list(key) if isinstance(key, Sequence) else [None]
    if not all(isinstance(each, str) for each in names):
        raise InvalidRequest(f'key= of a table of rows names its fields, as ("carrier", "flight"), not {_shown(key)}')
    return cast("list[str]", names)


def _key(key: object) -> Literal["bytes", "str"] | tuple[KeyField, ...]:
    if key is None or key is bytes:
        return "bytes"
    if key is str:
        return "str"
    if isinstance(key, Mapping):
        return tuple(_typed_field(name, annotation) for name, annotation in key.items())
    if isinstance(key, (str, Sequence)) and not isinstance(key, (bytes, bytearray)):
        return tuple(KeyField(name) for name in _names(key))
    raise InvalidRequest(
        f'key= is str, bytes, names of fields, or their types, as {{"day": date, "number": int}}, not {_shown(key)}'
    )


def _typed_field(name: str, annotation: object) -> KeyField:
    hint = hint_of(annotation, str(name))
    branches = [each for each in hint.of if each.kind != "none"] if hint.kind == "union" else [hint]
    type_ = _KEY_TYPES.get(branches[0].kind) if len(branches) == 1 else None
    if type_ is None:
        why = "a key's field is str, bytes, int, float, bool, UUID, date or datetime, or one of these or None"
        raise InvalidSchema(f"the key's field {name}: {why}", field=str(name), reason=why)
    return KeyField(name, type_, hint.kind == "union")


def _leading(names: Sequence[str], partition_by: str | Sequence[str] | None) -> int:
    """How many of the key's fields decide the partition; 0: all."""
    if partition_by is None:
        return 0
    given = [partition_by] if isinstance(partition_by, str) else list(partition_by)
    if not given or list(names[: len(given)]) != given:
        raise InvalidRequest(
            f"partition_by= is the first fields of the key, in their order, which are {', '.join(names) or 'none'}: "
            f"{', '.join(map(str, given)) or 'none'} are not, so who has a key alone could not find its partition"
        )
    return len(given)


def _misopened(table: str, what: str, found: TableDefinition) -> InvalidSchema:
    key = f"key={found.key}" if isinstance(found.key, str) else "key=(…)"
    value = '"json"' if found.value == "json" else found.value
    arguments = f", {key}, value={value}" if (found.key, found.value) != ("bytes", "bytes") else ""
    how = ", row=…" if found.value == "row" else arguments
    return InvalidSchema(f'the {what} in table {table}: open it with table("{table}"{how})', field="", reason=what)


def _shown(value: object) -> str:
    return value.__name__ if isinstance(value, type) else repr(value)[:60]
