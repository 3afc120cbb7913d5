"""Keys that have fields as plain JSON: a list of the fields, `["UA",1545]`.

str, int, bool, None   as JSON has them
float                  a number; "Infinity", "-Infinity"
bytes                  base64
uuid                   text
date, datetime         ISO 8601: "2026-11-27", "2026-11-27T18:30:00Z"; without Z where the field has no time zone

A field that takes any type has text, numbers, true, false and null as they are, and any other value by the name of its
type: {"date": "2026-11-27"}.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final
from uuid import UUID

from log_tier.model.errors import InvalidKey
from log_tier.rows.elements import KeyElement
from log_tier.rows.json_rows.json_leaves import Unfit, leaf_from_json, leaf_to_json
from log_tier.rows.json_rows.strict_json import strict_json
from log_tier.rows.key_fields import KeyField, KeyType

__all__ = [
    "KEY_TEXT_MAX",
    "element_of_json",
    "element_of_text",
    "elements_of_json",
    "json_of_elements",
    "text_of_elements",
]

KEY_TEXT_MAX: Final = 16 * 1024
"""Characters of a key. A byte of the 511 is at most six of them (`\\u0000`); the rest is for blanks."""

_EPOCH_DAY: Final = date(1970, 1, 1).toordinal()
_EPOCH: Final = datetime(1970, 1, 1)
_MICROSECOND: Final = timedelta(microseconds=1)
_SHOWN_MAX: Final = 60

_LOGICAL: Final[Mapping[str, Any]] = {
    "uuid": {"type": "string", "logicalType": "uuid"},
    "date": {"type": "int", "logicalType": "date"},
    "datetime": {"type": "long", "logicalType": "timestamp-micros"},
    "local": {"type": "long", "logicalType": "local-timestamp-micros"},
}

_NAMED: Final[tuple[tuple[type, KeyType], ...]] = (
    (bytes, "bytes"),
    (UUID, "uuid"),
    (datetime, "datetime"),  # a datetime is a date
    (date, "date"),
)
"""What a field of any type says by the name of its type."""


def json_of_elements(fields: Sequence[KeyField], elements: Sequence[KeyElement], row_types: Sequence[Any]) -> list[Any]:
    """The values of a key's fields as values of JSON. `row_types`: Avro's types of them, or None for each."""
    return [
        _to_json(field.type, element, row_type)
        for field, element, row_type in zip(fields, elements, row_types, strict=True)
    ]


def text_of_elements(fields: Sequence[KeyField], elements: Sequence[KeyElement], row_types: Sequence[Any]) -> str:
    """The same as text, without blanks."""
    found = json_of_elements(fields, elements, row_types)
    return json.dumps(found, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def _to_json(type_: KeyType, element: KeyElement, row_type: Any) -> Any:
    if type_ == "any":
        for kind, name in _NAMED:
            if isinstance(element, kind):
                return {name: _to_json(name, element, None)}
    if element is None or isinstance(element, (bool, str, int)):
        return element
    if isinstance(element, float):
        shown = leaf_to_json(element, "float" if row_type == "float" else "double")
        return {"float": shown} if type_ == "any" and isinstance(shown, str) else shown
    if isinstance(element, bytes):
        return leaf_to_json(element, "bytes")
    if isinstance(element, datetime):
        return element.replace(tzinfo=None).isoformat() + ("" if element.tzinfo is None else "Z")
    return element.isoformat() if isinstance(element, date) else str(element)


def text_of_element(element: KeyElement) -> str:
    """One value as a person writes it, and `element_of_text` reads it."""
    found = None if element is None else _to_json(_type_of(element), element, None)
    return found if isinstance(found, str) else json.dumps(found)


def _type_of(element: KeyElement) -> KeyType:
    for kind, name in (*_NAMED, (bool, "bool"), (int, "int"), (float, "float")):
        if isinstance(element, kind):
            return name
    return "str"


def elements_of_json(fields: Sequence[KeyField], text: str, *, partial: bool = False) -> list[KeyElement]:
    """The values of a key's fields. `partial`: the first ones of them are enough.

    Raises `InvalidKey`, which names the field, its value and what is expected. O(size of the text), which is bounded.
    """
    names = ", ".join(each.name for each in fields)
    example = f"[{', '.join(each.name for each in fields)}]"
    if len(text) > KEY_TEXT_MAX:
        raise InvalidKey(f"a key has at most {KEY_TEXT_MAX} characters, this one has {len(text)}")
    try:
        found = strict_json(text)
    except ValueError as error:
        raise InvalidKey(f"the key {_shown(text)} is no JSON ({error}): write the list {example}") from None
    if not isinstance(found, list):
        raise InvalidKey(f"the key {_shown(text)} is no list: write {example}")
    if len(found) != len(fields) and not (partial and len(found) < len(fields)):
        raise InvalidKey(f"the key has the fields {names}, and {len(found)} values are given")
    return [element_of_json(field, value) for field, value in zip(fields, found, strict=not partial)]


def element_of_text(field: KeyField, text: str) -> KeyElement:
    """The value of one field as a person writes it: UA, 1545, 2026-11-27, without quotation marks.

    null, and a field of any type, are written in the list of JSON. Raises `InvalidKey`.
    """
    if field.type == "any":
        raise InvalidKey(f"the key's field {field.name} may have any type: write the key as a list of JSON")
    if field.type in ("int", "float", "bool"):
        try:
            value = json.loads(text, parse_constant=str)
        except (ValueError, RecursionError):
            value = text
        if value is not None and not isinstance(value, (list, dict)):
            return element_of_json(field, value)
    return element_of_json(field, text)


def element_of_json(field: KeyField, value: Any) -> KeyElement:
    """The value of one field, from what JSON was parsed to. Raises `InvalidKey`."""
    try:
        return _read(field, value)
    except Unfit as unfit:
        fix = f": {unfit.fix}" if unfit.fix else ""
        null = " or null" if field.optional else ""
        raise InvalidKey(
            f"the key's field {field.name} is {_shown_value(unfit.value)}, expected {unfit.expected}{null}{fix}"
        ) from None


def _read(field: KeyField, value: Any) -> KeyElement:
    if value is None:
        if field.optional:
            return None
        raise Unfit(value, _EXPECTED.get(field.type, field.type))
    if field.type == "any":
        return _any(value)
    return _READ[field.type](value)


def _any(value: Any) -> KeyElement:
    if isinstance(value, dict) and len(value) == 1:
        ((name, inner),) = value.items()
        if name in _READ:
            return _READ[name](inner)
    if isinstance(value, (dict, list)):
        raise Unfit(value, "text, a number, true, false, null, or an object of a type and its value")
    return value  # type: ignore[no-any-return]


def _str(value: Any) -> str:
    found: str = leaf_from_json(value, "string")
    return found


def _bytes(value: Any) -> bytes:
    found: bytes = leaf_from_json(value, "bytes")
    return found


def _int(value: Any) -> int:
    if type(value) is not int:
        raise Unfit(value, "a whole number")
    return value


def _float(value: Any) -> float:
    found: float = leaf_from_json(value, "double")
    return found


def _bool(value: Any) -> bool:
    found: bool = leaf_from_json(value, "boolean")
    return found


def _uuid(value: Any) -> UUID:
    return UUID(leaf_from_json(value, _LOGICAL["uuid"]))


def _date(value: Any) -> date:
    return date.fromordinal(leaf_from_json(value, _LOGICAL["date"]) + _EPOCH_DAY)


def _datetime(value: Any) -> datetime:
    is_local = isinstance(value, str) and value[10:] and not value.endswith("Z") and not set(value[10:]) & {"+", "-"}
    stamp: datetime = _EPOCH + leaf_from_json(value, _LOGICAL["local" if is_local else "datetime"]) * _MICROSECOND
    return stamp if is_local else stamp.replace(tzinfo=UTC)


_READ: Final[dict[str, Callable[[Any], KeyElement]]] = {
    "str": _str,
    "bytes": _bytes,
    "int": _int,
    "float": _float,
    "bool": _bool,
    "uuid": _uuid,
    "date": _date,
    "datetime": _datetime,
}

_EXPECTED: Final[dict[str, str]] = {
    "any": "a value that is not null",
    "str": "a text",
    "bytes": "bytes as base64 text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "uuid": "a uuid as text",
    "date": "a date as text",
    "datetime": "a time as text",
}


def _shown_value(value: Any) -> str:
    if isinstance(value, (dict, list)):
        return f"{'an object' if isinstance(value, dict) else 'a list'} of {len(value)}"
    return _shown(json.dumps(value[: _SHOWN_MAX + 1] if isinstance(value, str) else value))


def _shown(text: str) -> str:
    plain = ascii(text)[1:-1] if not text.isascii() or not text.isprintable() else text
    return plain if len(plain) <= _SHOWN_MAX else f"{plain[: _SHOWN_MAX - 2]} …"
