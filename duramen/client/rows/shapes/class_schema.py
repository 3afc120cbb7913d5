"""From a class of rows to its schema in Avro."""

from __future__ import annotations

from enum import Enum
from typing import Any, Final

from duramen.client.rows.shapes.avro_default import avro_default
from duramen.client.rows.shapes.hints import Hint, schema_refusal
from duramen.client.rows.shapes.row_class import NO_DEFAULT, ClassField, row_class_of

__all__ = ["class_schema"]

_SCALARS: Final[dict[str, Any]] = {
    "none": "null",
    "bool": "boolean",
    "int": "long",
    "float": "double",
    "str": "string",
    "bytes": "bytes",
    "uuid": {"type": "string", "logicalType": "uuid"},
    "date": {"type": "int", "logicalType": "date"},
    "time": {"type": "long", "logicalType": "time-micros"},
    "datetime": {"type": "long", "logicalType": "timestamp-micros"},
    "naive": {"type": "long", "logicalType": "local-timestamp-micros"},
}


def class_schema(python: type) -> dict[str, Any]:
    """The record of a dataclass or a pydantic model. Raises `InvalidSchema`."""
    return _record(python, "", {})


def _record(python: type, path: str, named: dict[str, type]) -> dict[str, Any]:
    _note(python, path, named)
    fields = [_field(each, f"{path}.{each.name}" if path else each.name, named) for each in row_class_of(python).fields]
    if not fields:
        raise schema_refusal(path, f"{python.__name__} has no fields")
    return {"type": "record", "name": python.__name__, "fields": fields}


def _note(python: type, path: str, named: dict[str, type]) -> None:
    name = python.__name__
    if not (name.isascii() and name.isidentifier()):
        raise schema_refusal(
            path, f"the class {name} has a name that Avro does not have: letters, digits and _ of ASCII"
        )
    if named.setdefault(name, python) is not python:
        raise schema_refusal(path, f"two classes in the row are called {name}: give one another name")


def _field(field: ClassField, path: str, named: dict[str, type]) -> dict[str, Any]:
    if field.default is NO_DEFAULT:
        return {"name": field.name, "type": _type(field.hint, path, named)}
    scale = max((each.digits.scale for each in (field.hint, *field.hint.of) if each.digits), default=0)
    try:
        default = avro_default(field.default, scale)
    except ValueError as error:
        why = f"the default {field.default!r} cannot stand in a schema: {error}; make it with a default_factory"
        raise schema_refusal(path, why) from error
    first = _default_first(field.hint, field.default)
    return {"name": field.name, "type": _type(first, path, named), "default": default}


def _default_first(hint: Hint, default: Any) -> Hint:
    """The default of a union is of its first branch, in Avro."""
    if hint.kind != "union":
        return hint
    if default is None:
        first = [each for each in hint.of if each.kind == "none"]
    else:
        kind = {"dict": "map"}.get(type(default).__name__, type(default).__name__)
        first = [each for each in hint.of if each.kind == kind or each.python is type(default)]
        others = [each for each in hint.of if each.kind != "none"]
        first = first or (others if len(others) == 1 else [])
    return Hint("union", (*first, *(each for each in hint.of if each not in first)))


def _type(hint: Hint, path: str, named: dict[str, type]) -> Any:
    match hint.kind:
        case "decimal":
            assert hint.digits is not None, "a decimal has its digits"
            return {
                "type": "bytes",
                "logicalType": "decimal",
                "precision": hint.digits.precision,
                "scale": hint.digits.scale,
            }
        case "list":
            return {"type": "array", "items": _type(hint.of[0], f"{path}[]", named)}
        case "map":
            return {"type": "map", "values": _type(hint.of[0], f"{path}[]", named)}
        case "union":
            return [_type(each, path, named) for each in hint.of]
        case "enum":
            return _enum(hint.python, path, named)
        case "class":
            known = named.get(hint.python.__name__) is hint.python
            return hint.python.__name__ if known else _record(hint.python, path, named)
    return _SCALARS[hint.kind]


def _enum(python: type[Enum], path: str, named: dict[str, type]) -> Any:
    if named.get(python.__name__) is python:
        return python.__name__
    _note(python, path, named)
    return {"type": "enum", "name": python.__name__, "symbols": [each.name for each in python]}
