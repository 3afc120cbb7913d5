"""Rows of an earlier schema as the newest one has them, in JSON: its fields, in its order, with its defaults.

Avro's resolution, on what `row_to_json` makes of a row. What the newest schema cannot read, which a change without
compatibility may leave, stays as it was written.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any, Final

from log_tier.model.errors import LimitExceeded
from log_tier.rows.avro.avro_types import AvroType, branch_name
from log_tier.rows.schema import RowSchema

__all__ = ["ReadAs", "is_optional"]

_TEXT_MAX: Final = 16 << 20
"""Characters that the names and defaults of one row may add."""

_NAME_COST: Final = 4
"""Characters beyond those of a field's name: quotes, a colon, a comma."""


def is_optional(union: list[AvroType]) -> bool:
    """Whether a value of it needs no name of a type."""
    return len(union) == 1 or (len(union) == 2 and "null" in union)


class ReadAs:
    """Reads documents of one schema as another one has them. `default`: the JSON of a field's default."""

    def __init__(self, writer: RowSchema, reader: RowSchema, default: Callable[[Any], Any]) -> None:
        self._writer = writer
        self._reader = reader
        self._default = default
        self._left = _TEXT_MAX

    def document(self, document: Any) -> Any:
        """The same row. O(its size). Raises `LimitExceeded` where defaults make it too long."""
        self._left = _TEXT_MAX
        return self._value(document, self._writer.name, self._reader.name)

    def _value(self, value: Any, written: AvroType, read: AvroType) -> Any:
        if isinstance(written, list):
            branch, value = _taken(value, written)
            return self._value(value, branch, read)
        if isinstance(read, list):
            return self._into_union(value, written, read)
        wanted: Any = self._reader.named.get(read, read) if isinstance(read, str) else read
        found: Any = self._writer.named.get(written, written) if isinstance(written, str) else written
        kind, wanted_kind = _kind(found), _kind(wanted)
        if kind == wanted_kind == "record":
            return self._record(value, found, wanted)
        if kind == wanted_kind == "array":
            return [self._value(each, found["items"], wanted["items"]) for each in value]
        if kind == wanted_kind == "map":
            return {name: self._value(each, found["values"], wanted["values"]) for name, each in value.items()}
        if kind == wanted_kind == "enum":
            return value if value in wanted["symbols"] else wanted.get("default", value)
        if kind in ("int", "long") and wanted_kind in ("float", "double") and type(value) is int:
            return float(value)
        if (kind, wanted_kind) == ("string", "bytes"):
            return base64.b64encode(value.encode()).decode()
        return value

    def _record(self, value: Any, written: Any, read: Any) -> dict[str, Any]:
        types = {each["name"]: each["type"] for each in written["fields"]}
        made: dict[str, Any] = {}
        for each in read["fields"]:
            name = next((name for name in (each["name"], *each.get("aliases", ())) if name in types), None)
            self._left -= len(each["name"]) + _NAME_COST
            if name is not None:
                made[each["name"]] = self._value(value[name], types[name], each["type"])
            elif "default" in each:
                made[each["name"]] = self._default(each)
                self._left -= len(repr(each["default"]))
            if self._left < 0:
                raise LimitExceeded(
                    f"the row has more than {_TEXT_MAX} characters with the defaults of the newest schema: read it "
                    "with a client that has its schema",
                    limit=_TEXT_MAX,
                    size=_TEXT_MAX - self._left,
                )
        return made

    def _into_union(self, value: Any, written: AvroType, union: list[AvroType]) -> Any:
        if written == "null" and "null" in union:
            return None
        found: Any = self._writer.named.get(written, written) if isinstance(written, str) else written
        name, kind = branch_name(written), _kind(found)
        plain = [each for each in union if each != "null"]
        branch = next((each for each in plain if branch_name(each) == name), None)
        if branch is None:
            same = (each for each in plain if _kind(self._resolved(each)) in (kind, *_PROMOTED.get(kind, ())))
            branch = next(same, None)
        if branch is None:
            return value
        made = self._value(value, written, branch)
        return made if is_optional(union) else {branch_name(branch): made}

    def _resolved(self, type_: AvroType) -> Any:
        return self._reader.named.get(type_, type_) if isinstance(type_, str) else type_


_PROMOTED: Final[dict[str, tuple[str, ...]]] = {
    "int": ("long", "float", "double"),
    "long": ("float", "double"),
    "float": ("double",),
    "string": ("bytes",),
}


def _kind(found: Any) -> str:
    return str(found if isinstance(found, str) else found["type"])


def _taken(value: Any, union: list[AvroType]) -> tuple[AvroType, Any]:
    """The type that a value of a union has, and the value without its name."""
    if value is None and "null" in union:
        return "null", None
    if is_optional(union):
        return next(each for each in union if each != "null" or len(union) == 1), value
    ((name, inner),) = value.items()
    return next(each for each in union if branch_name(each) == name), inner
