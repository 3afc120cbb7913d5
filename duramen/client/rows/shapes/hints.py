"""An annotation as one value: what a field of a row may hold in Python."""

from __future__ import annotations

import types
import typing
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, Final, Literal
from uuid import UUID

from duramen.client.rows.shapes.marks import Digits, NaiveMark
from log_tier.model.errors import InvalidSchema

__all__ = ["Hint", "HintKind", "hint_of", "is_row_class", "schema_refusal"]

HintKind = Literal[
    "none",
    "bool",
    "int",
    "float",
    "str",
    "bytes",
    "decimal",
    "uuid",
    "date",
    "time",
    "datetime",
    "naive",
    "enum",
    "class",
    "list",
    "map",
    "union",
]

_SCALARS: Final[dict[Any, HintKind]] = {
    type(None): "none",
    None: "none",
    bool: "bool",
    int: "int",
    float: "float",
    str: "str",
    bytes: "bytes",
    UUID: "uuid",
    date: "date",
    time: "time",
}

_INSTEAD: Final = {
    Any: "say which type it is",
    object: "say which type it is",
    Decimal: "say how many digits it has: Annotated[Decimal, duramen.Digits(12, 2)]",
    set: "make it a list",
    frozenset: "make it a list",
    tuple: "make it a list, or a dataclass of its parts",
    bytearray: "make it bytes",
    complex: "make it a dataclass of two floats",
}


@dataclass(frozen=True, slots=True)
class Hint:
    """What a field may hold."""

    kind: HintKind
    of: tuple[Hint, ...] = ()
    """The items of a list, the values of a map, the branches of a union."""
    python: Any = None
    """The class of an enum, or of a record in the row."""
    digits: Digits | None = None
    """Of a decimal."""


def hint_of(annotation: Any, path: str) -> Hint:
    """The hint of a field at the dotted `path`. Raises `InvalidSchema` for what a row cannot hold, with the fix."""
    marks: list[Any] = []
    while True:
        if typing.get_origin(annotation) is Annotated:
            annotation, *more = typing.get_args(annotation)
            marks += more
        elif isinstance(annotation, typing.NewType):
            annotation = annotation.__supertype__
        elif hasattr(annotation, "__value__"):  # `type X = …` of Python 3.12
            annotation = annotation.__value__
        else:
            break
    if annotation is datetime:
        return Hint("naive" if any(isinstance(each, NaiveMark) for each in marks) else "datetime")
    if annotation is Decimal:
        return _decimal(marks, path)
    if annotation in (list, dict):
        raise schema_refusal(path, f"{annotation.__name__} does not say of what: {_of_what(annotation)}")
    if isinstance(annotation, typing.Hashable) and annotation in _SCALARS:
        return Hint(_SCALARS[annotation])
    if isinstance(annotation, type) and not typing.get_args(annotation):
        if issubclass(annotation, Enum):
            return Hint("enum", python=annotation)
        if is_row_class(annotation):
            return Hint("class", python=annotation)
    return _of_parts(annotation, path)


def is_row_class(python: Any) -> bool:
    """Is it a dataclass or a pydantic model? Neither is imported for that."""
    return isinstance(python, type) and (
        "__dataclass_fields__" in dir(python) or hasattr(python, "__pydantic_complete__")
    )


def schema_refusal(path: str, why: str) -> InvalidSchema:
    """The error for a field that no schema can have."""
    return InvalidSchema(f"the field {path}: {why}" if path else f"the row: {why}", field=path, reason=why)


def _decimal(marks: Sequence[Any], path: str) -> Hint:
    digits = next((each for each in marks if isinstance(each, Digits)), None)
    if digits is None:
        raise schema_refusal(path, f"Decimal has no type of Avro by itself: {_INSTEAD[Decimal]}")
    return Hint("decimal", digits=digits)


def _of_parts(annotation: Any, path: str) -> Hint:
    origin, parts = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (typing.Union, types.UnionType):
        return _union([hint_of(each, path) for each in parts], path)
    if origin in (list, Sequence):
        return Hint("list", (hint_of(parts[0], f"{path}[]"),))
    if origin in (dict, Mapping):
        if parts[0] is not str:
            raise schema_refusal(path, f"the keys of a dict are str, not {_name(parts[0])}: make it a list of records")
        return Hint("map", (hint_of(parts[1], f"{path}[]"),))
    why = _INSTEAD.get(origin or annotation) if isinstance(origin or annotation, typing.Hashable) else None
    if why is None:
        why = (
            "bool, int, float, str, bytes, Decimal, UUID, date, time, datetime, Enums, list[…], dict[str, …], … | None "
            "and dataclasses of these have one"
        )
    raise schema_refusal(path, f"{_name(annotation)} has no type of Avro: {why}")


def _union(branches: list[Hint], path: str) -> Hint:
    """Branches of which a value says by itself which one it is of."""
    flat: list[Hint] = []
    for each in branches:
        flat += [each] if each.kind != "union" else [inner for inner in each.of if inner not in flat]
    places: dict[str, Hint] = {}
    for each in flat:
        place = {"class": "dict", "map": "dict", "enum": "str", "uuid": "str", "naive": "datetime"}.get(
            each.kind, each.kind
        )
        if place in places:
            raise schema_refusal(
                path,
                f"a union of {places[place].kind} and {each.kind} does not say which of both a value is: "
                "make it a dataclass with a field for each",
            )
        places[place] = each
    return Hint("union", tuple(sorted(flat, key=lambda each: each.kind != "none")))


def _of_what(annotation: type) -> str:
    return "list[str], for example" if annotation is list else "dict[str, int], for example"


def _name(annotation: Any) -> str:
    return annotation.__name__ if isinstance(annotation, type) and not typing.get_args(annotation) else str(annotation)
