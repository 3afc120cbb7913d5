"""A row's schema: Avro's record, by its canonical form."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from log_tier.model.errors import InvalidSchema
from log_tier.rows.avro.avro_types import NESTING_MAX, AvroType, NamedTypes, resolve_types

__all__ = ["SCHEMA_BYTES_MAX", "NumberedSchema", "RowField", "RowSchema"]

SCHEMA_BYTES_MAX: Final = 64 * 1024
"""Of a schema's canonical form. It is part of the cluster map, of which every server and client has a copy."""

_GIVEN_BYTES_MAX: Final = 4 * SCHEMA_BYTES_MAX
"""Of a schema as it is given, with the blanks of people. A larger one is not parsed."""

_JSON_DEPTH_MAX: Final = 4 * NESTING_MAX
"""A type in a field of a record is three levels of JSON. What a reader does with them is recursive."""


@dataclass(frozen=True)
class RowField:
    """A field of a row."""

    name: str
    type: AvroType
    """Normalised. A name is one of the schema's `named`."""
    has_default: bool = False
    default: Any = None
    """In Avro's JSON, where bytes are text of the characters 0 to 255."""


@dataclass(frozen=True)
class RowSchema:
    """A record of Avro. Two schemas are equal if their canonical forms are. Make one with `parse`."""

    text: str
    """The canonical form: JSON without blanks, keys of objects in the order of their code points, names in full.
    Logical types, defaults, documentation and aliases are in it, which Avro's parsing form leaves out."""
    name: str = field(compare=False)
    """The record's full name."""
    fields: tuple[RowField, ...] = field(compare=False, repr=False)
    named: NamedTypes = field(compare=False, repr=False)
    """Records, enums and fixed by full name, this record included."""

    @classmethod
    def parse(cls, text: str | Mapping[str, Any]) -> RowSchema:
        """A schema from JSON, or from what JSON is parsed to. What it says twice and its blanks are not kept.

        Raises `InvalidSchema`, which names the field and the reason. O(its size), some 150 µs for a row of 8 fields.
        """
        resolved, named = resolve_types(_parsed(text))
        if not isinstance(resolved, dict) or resolved["type"] != "record":
            raise _refused("a row's schema is a record")
        canonical = _canonical(resolved)
        fields = tuple(
            RowField(each["name"], each["type"], "default" in each, each.get("default")) for each in resolved["fields"]
        )
        return cls(canonical, resolved["name"], fields, named)

    def field_of(self, name: str) -> RowField | None:
        """The field of that name, if there is one. O(fields)."""
        return next((each for each in self.fields if each.name == name), None)


@dataclass(frozen=True, slots=True)
class NumberedSchema:
    """A schema and its number, which stands for it in stored values."""

    number: int
    """1 to 2^31 - 1, of the whole cluster; 0: the catalog has not numbered it yet."""
    schema: RowSchema


def _parsed(text: str | Mapping[str, Any]) -> Any:
    try:
        if isinstance(text, Mapping):
            text = json.dumps(dict(text), allow_nan=False)
        elif not isinstance(text, str):
            raise _refused(f"a schema is text or a mapping, not {type(text).__name__}")
        if len(text) > _GIVEN_BYTES_MAX:
            raise _refused(f"a schema has at most {SCHEMA_BYTES_MAX} bytes, this text has {len(text)}")
        document = json.loads(text, object_pairs_hook=_once, parse_constant=_no_number)
    except InvalidSchema:
        raise
    except (ValueError, TypeError, RecursionError) as error:
        raise _refused(f"it is no JSON: {error}") from None
    level: list[Any] = [document]
    depth = 0
    while level:
        depth += 1
        if depth > _JSON_DEPTH_MAX:
            raise _refused(f"its JSON is nested more than {_JSON_DEPTH_MAX} deep")
        level = [inner for each in level if isinstance(each, dict | list) for inner in _parts(each)]
    _canonical(document)  # what comes next takes longer where a schema is large
    return document


def _parts(each: dict[str, Any] | list[Any]) -> Iterable[Any]:
    return each.values() if isinstance(each, dict) else each


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise _refused(f"an object has {json.dumps(name)} twice")
        found[name] = value
    return found


def _no_number(name: str) -> Any:
    raise _refused(f"{name} is no number of JSON")


def _canonical(resolved: Any) -> str:
    text = json.dumps(resolved, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise _refused("it has half of a surrogate pair, which UTF-8 does not have") from None
    if size > SCHEMA_BYTES_MAX:
        raise _refused(f"a schema has at most {SCHEMA_BYTES_MAX} bytes, this one has {size} without blanks")
    return text


def _refused(why: str) -> InvalidSchema:
    return InvalidSchema(f"the schema: {why}", field="", reason=why)
