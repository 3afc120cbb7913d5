"""A type of Avro as it is normalised: names in full, nothing said twice, everything checked.

A normalised type is a text (a primitive type, or the full name of a type that was defined before), a list (a union), or
a dict with `type`. `{"type": "string"}` becomes `"string"`; a name takes in the namespace of what surrounds it, and the
attribute `namespace` goes. Attributes that Avro does not define stay, except those that begin with two underscores,
which are notes of a library.

Stricter than Avro: a logical type that this process knows must be right, where Avro passes over a wrong one; names are
unique; an array has no items without bytes, as a few bytes could then claim 2^62 of them.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Final, NoReturn

from log_tier.model.errors import InvalidSchema
from log_tier.rows.avro.defaults import default_refusal
from log_tier.rows.avro.logical_types import logical_refusal

__all__ = [
    "FIELDS_MAX",
    "FIXED_BYTES_MAX",
    "NESTING_MAX",
    "PRIMITIVES",
    "AvroType",
    "NamedTypes",
    "branch_name",
    "resolve_types",
]

AvroType = str | list[Any] | dict[str, Any]
"""A normalised type."""

NamedTypes = dict[str, dict[str, Any]]
"""Records, enums and fixed by their full names, in the order in which they are defined."""

NESTING_MAX: Final = 32
"""Types in types, a reference to a name not followed. Readers of schemas are recursive; nobody writes 32 by hand."""
FIELDS_MAX: Final = 1024
"""Of one record. Wider rows are read by nobody, and each field is a line of compiled code."""
FIXED_BYTES_MAX: Final = 1 << 22
"""A value has no more bytes."""

PRIMITIVES: Final = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})
_NAMED: Final = frozenset({"record", "enum", "fixed"})
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_ORDERS: Final = ("ascending", "descending", "ignore")


def resolve_types(document: Any) -> tuple[AvroType, NamedTypes]:
    """The normalised type of a parsed schema, and what it names. Raises `InvalidSchema`. O(its size)."""
    resolver = _Resolver()
    resolved = resolver.resolved(document, _Place(""))
    resolver.check_ends()
    return resolved, resolver.named


@dataclass(frozen=True, slots=True)
class _Place:
    """Where in a schema a type is."""

    path: str
    space: str = ""
    depth: int = 1

    def inside(self, part: str = "") -> _Place:
        path = f"{self.path}.{part}" if self.path and part and part != "[]" else self.path + part
        return _Place(path, self.space, self.depth + 1)

    def refuse(self, why: str) -> NoReturn:
        where = f"the field {self.path}" if self.path else "the schema"
        raise InvalidSchema(f"{where}: {why}", field=self.path, reason=why)


@dataclass(slots=True)
class _Resolver:
    named: NamedTypes = field(default_factory=dict)
    places: dict[str, _Place] = field(default_factory=dict)
    empty: set[str] = field(default_factory=set)
    """Named types whose values have no bytes."""

    def resolved(self, type_: Any, place: _Place) -> AvroType:
        if place.depth > NESTING_MAX:
            place.refuse(f"types are nested more than {NESTING_MAX} deep")
        if isinstance(type_, str):
            return self._reference(type_, place)
        if isinstance(type_, list):
            return self._union(type_, place)
        if not isinstance(type_, dict):
            place.refuse(f"a type is a name, an object or a list of types, not {_shown(type_)}")
        if "type" not in type_:
            place.refuse(f"{_shown(type_)} has no `type`")
        kind = type_["type"]
        if not isinstance(kind, str) or not (kind in PRIMITIVES or kind in _NAMED or kind in ("array", "map")):
            if set(type_) != {"type"}:
                place.refuse(f"a type with other attributes is one that Avro defines, not {_shown(kind)}")
            return self.resolved(kind, place.inside())
        found = {name: value for name, value in type_.items() if not name.startswith("__")}
        if kind in _NAMED:
            self._name(found, place)
        elif kind == "array":
            found["items"] = self._inner(found, "items", place)
            if self._takes_no_bytes(found["items"]):
                place.refuse(
                    "the items of an array take at least one byte: null, a fixed of 0 bytes and a record of "
                    "nothing else do not"
                )
        elif kind == "map":
            found["values"] = self._inner(found, "values", place)
        self._check_logical(found, place)
        return kind if kind in PRIMITIVES and len(found) == 1 else found

    def _reference(self, name: str, place: _Place) -> str:
        if name in PRIMITIVES:
            return name
        full = name if "." in name or not place.space else f"{place.space}.{name}"
        if full not in self.named:
            place.refuse(f"{_shown(name)} is no type of Avro, and no type of this name is defined before it")
        return full

    def _inner(self, type_: dict[str, Any], attribute: str, place: _Place) -> AvroType:
        if attribute not in type_:
            place.refuse(f"a type {type_['type']} has `{attribute}`")
        return self.resolved(type_[attribute], place.inside("[]"))

    def _union(self, branches: list[Any], place: _Place) -> list[Any]:
        if not branches:
            place.refuse("a union has at least one type")
        resolved = [self.resolved(each, place.inside()) for each in branches]
        if any(isinstance(each, list) for each in resolved):
            place.refuse("a union is no type of a union: make one of both")
        names = [branch_name(each) for each in resolved]
        if len(set(names)) < len(names):
            place.refuse(f"a union has each type once, this one has {Counter(names).most_common(1)[0][0]} again")
        return resolved

    def _name(self, found: dict[str, Any], place: _Place) -> None:
        """Resolve a record, an enum or a fixed in place. Its name is known from its first field on."""
        space = found.pop("namespace", None)
        name = found.get("name")
        if not isinstance(name, str) or not name:
            place.refuse(f"a type {found['type']} has a `name`")
        if space is not None and not isinstance(space, str):
            place.refuse(f"a namespace is text, not {_shown(space)}")
        full = name if "." in name else f"{space}.{name}" if space else name
        if "." not in full and place.space:
            if space is not None:
                place.refuse(f"{name} has no namespace inside of {place.space}, so nothing could name it: give it one")
            full = f"{place.space}.{name}"
        if not all(_NAME.fullmatch(part) for part in full.split(".")):
            place.refuse(f"{_shown(full)} is no name: letters, digits and _, not a digit first; dots between")
        if full.rpartition(".")[2] in PRIMITIVES:
            place.refuse(f"{full} has the name of a type of Avro")
        if full in self.named:
            place.refuse(f"the name {full} is taken by a type before it")
        found["name"], inner_space = full, full.rpartition(".")[0]
        self.named[full], self.places[full] = found, place
        self._check_texts(found, place)
        if "aliases" in found:
            found["aliases"] = [
                each if "." in each or not inner_space else f"{inner_space}.{each}" for each in found["aliases"]
            ]
        if found["type"] == "record":
            found["fields"] = list(self._fields(found, replace(place, space=inner_space)))
            if all(self._takes_no_bytes(each["type"]) for each in found["fields"]):
                self.empty.add(full)
        elif found["type"] == "enum":
            _check_symbols(found, place)
        elif not _is_size(found.get("size")):
            place.refuse(f"a fixed has a `size` of 0 to {FIXED_BYTES_MAX} bytes, not {_shown(found.get('size'))}")
        elif found["size"] == 0:
            self.empty.add(full)

    def _fields(self, record: dict[str, Any], place: _Place) -> Iterator[dict[str, Any]]:
        fields = record.get("fields")
        if not isinstance(fields, list):
            place.refuse(f"a record has a list of `fields`, not {_shown(fields)}")
        if len(fields) > FIELDS_MAX:
            place.refuse(f"a record has at most {FIELDS_MAX} fields, this one has {len(fields)}")
        seen: set[str] = set()
        for each in fields:
            if not isinstance(each, dict) or not isinstance(each.get("name"), str):
                place.refuse(f"a field is an object with a `name`, not {_shown(each)}")
            name = each["name"]
            inside = place.inside(name)
            if not _NAME.fullmatch(name):
                inside.refuse(f"{_shown(name)} is no name: letters, digits and _, not a digit first")
            if name in seen:
                inside.refuse("the record has two fields of this name")
            seen.add(name)
            if "type" not in each:
                inside.refuse("it has no `type`")
            self._check_texts(each, inside)
            if each.get("order", "ascending") not in _ORDERS:
                inside.refuse(f"`order` is one of {', '.join(_ORDERS)}, not {_shown(each['order'])}")
            found = {**each, "type": self.resolved(each["type"], inside)}
            if "default" in found:
                why = default_refusal(found["default"], found["type"], self.named)
                if why is not None:
                    inside.refuse(f"the default {_shown(found['default'])}: {why}")
            yield found

    @staticmethod
    def _check_texts(found: dict[str, Any], place: _Place) -> None:
        if not isinstance(found.get("doc", ""), str):
            place.refuse(f"`doc` is text, not {_shown(found['doc'])}")
        aliases = found.get("aliases", [])
        if not isinstance(aliases, list) or not all(
            isinstance(each, str) and all(_NAME.fullmatch(part) for part in each.split(".")) for each in aliases
        ):
            place.refuse(f"`aliases` is a list of names, not {_shown(aliases)}")

    @staticmethod
    def _check_logical(found: dict[str, Any], place: _Place) -> None:
        why = logical_refusal(found)
        if why is not None:
            place.refuse(why)

    def _takes_no_bytes(self, type_: AvroType) -> bool:
        name = branch_name(type_)
        return name == "null" or name in self.empty

    def check_ends(self) -> None:
        """Refuse a record that contains itself, and not by a union, an array or a map: no value of it has an end.
        O(names × nesting): what a name needs is defined before it, or around it.
        """
        ending: set[str] = {name for name, found in self.named.items() if found["type"] != "record"}

        def ends(type_: AvroType) -> bool:
            if isinstance(type_, list):
                return any(map(ends, type_))
            name = branch_name(type_)
            return name in ending or name not in self.named

        grown = True
        while grown:
            found = [
                name
                for name, record in self.named.items()
                if name not in ending and all(ends(each["type"]) for each in record["fields"])
            ]
            ending.update(found)
            grown = bool(found)
        for name, place in self.places.items():
            if name not in ending:
                place.refuse(
                    f"the record {name} contains itself, so no row of it has an end: make that field a union "
                    "with null, or an array"
                )


def branch_name(type_: AvroType) -> str:
    """What a type is called among others in a union: its full name, or what Avro calls it."""
    if isinstance(type_, list):
        return "union"
    if isinstance(type_, str):
        return type_
    return str(type_["name"] if type_["type"] in _NAMED else type_["type"])


def _check_symbols(found: dict[str, Any], place: _Place) -> None:
    symbols = found.get("symbols")
    if not isinstance(symbols, list) or not symbols:
        place.refuse(f"an enum has a list of `symbols`, not {_shown(symbols)}")
    wrong = next((each for each in symbols if not isinstance(each, str) or not _NAME.fullmatch(each)), None)
    if wrong is not None:
        place.refuse(f"the symbol {_shown(wrong)} is no name: letters, digits and _, not a digit first")
    if len(set(symbols)) < len(symbols):
        place.refuse("two symbols of the enum are the same")
    if "default" in found and found["default"] not in symbols:
        place.refuse(f"the default {_shown(found['default'])} is no symbol of the enum")


def _is_size(size: Any) -> bool:
    return type(size) is int and 0 <= size <= FIXED_BYTES_MAX


def _shown(value: Any) -> str:
    """A part of a schema in a message, shortened."""
    text = json.dumps(value)
    return text if len(text) <= 60 else f"{text[:56]} …"
