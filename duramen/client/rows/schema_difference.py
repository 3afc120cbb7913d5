"""Where two schemas differ in what their rows are. Names of types, documentation, defaults and the order of fields are
not looked at.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from log_tier.rows.schema import RowSchema

__all__ = ["Difference", "schema_difference"]

_SAME: tuple[str, ...] = ("logicalType", "precision", "scale", "size", "symbols")


class Difference(NamedTuple):
    """The first difference."""

    path: str
    why: str


def schema_difference(here: RowSchema, there: RowSchema) -> Difference | None:
    """The first difference between a schema that was given and the table's; None: there is none. O(their size)."""
    return _Comparison(here.named, there.named, set()).of_types(here.name, there.name, "")


class _Comparison(NamedTuple):
    here: Mapping[str, Any]
    there: Mapping[str, Any]
    compared: set[tuple[str, str]]

    def of_types(self, here: Any, there: Any, path: str) -> Difference | None:
        if isinstance(here, list) and isinstance(there, list) and len(here) == len(there):
            found = (self.of_types(each, other, path) for each, other in zip(here, there, strict=True))
            return next((each for each in found if each is not None), None)
        here, there = _object(here, self.here), _object(there, self.there)
        if _kind(here) != _kind(there) or any(here.get(name) != there.get(name) for name in _SAME):
            return Difference(path, f"it is {_words(here)} here, and {_words(there)} in the table")
        if "branches" in here:  # as many as there, or it was compared above
            return Difference(path, f"it is {_words(here)} here, and {_words(there)} in the table")
        for inner in ("items", "values"):
            if inner in here:
                return self.of_types(here[inner], there[inner], f"{path}[]")
        return self._of_records(here, there, path) if _kind(here) == "record" else None

    def _of_records(self, here: Any, there: Any, path: str) -> Difference | None:
        pair = (here["name"], there["name"])
        if pair in self.compared:
            return None
        self.compared.add(pair)
        mine = {each["name"]: each["type"] for each in here["fields"]}
        theirs = {each["name"]: each["type"] for each in there["fields"]}
        for name in (*theirs, *mine):
            inside = f"{path}.{name}" if path else name
            if name not in mine:
                return Difference(inside, "the table's rows have it, this schema has not")
            if name not in theirs:
                return Difference(inside, "this schema has it, the table's rows have not")
            found = self.of_types(mine[name], theirs[name], inside)
            if found is not None:
                return found
        return None


def _object(type_: Any, named: Mapping[str, Any]) -> dict[str, Any]:
    """A type as an object, its name resolved; of a union, its branches under a kind of their own."""
    if isinstance(type_, list):
        return {"type": "union", "branches": type_}
    return dict(named.get(type_, {"type": type_})) if isinstance(type_, str) else type_


def _kind(type_: dict[str, Any]) -> str:
    return str(type_["type"])


def _words(type_: dict[str, Any]) -> str:
    if "branches" in type_:
        return " or ".join(each if isinstance(each, str) else str(each["type"]) for each in type_["branches"])
    extra = [str(type_[name]) for name in _SAME if name in type_]
    return str(type_["type"]) + (f" ({', '.join(extra)})" if extra else "")
