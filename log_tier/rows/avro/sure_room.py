"""Which rows have room for what is inside whatever that is, by their size."""

from __future__ import annotations

from typing import Any

from log_tier.model.record import VALUE_BYTES_MAX
from log_tier.rows.avro.avro_types import NamedTypes
from log_tier.rows.avro.row_room import ROW_VALUES_MAX, VALUE_DEPTH_MAX

__all__ = ["surely_roomy_bytes"]


def surely_roomy_bytes(name: str, named: NamedTypes) -> int:
    """A row, of the record of that name, with at most so many bytes has neither too many values nor is it too deep: who
    has encoded one need not count. O(size of the schema).
    """
    levels = _levels(name, named, {})
    if levels == 1:
        return VALUE_BYTES_MAX
    # A byte has at most one value around it for each level.
    return ROW_VALUES_MAX // VALUE_DEPTH_MAX if levels <= VALUE_DEPTH_MAX else 0


def _levels(type_: Any, named: NamedTypes, known: dict[str, int]) -> int:
    """How many records, arrays and maps are in each other at most; of what contains itself, more than fit."""
    if isinstance(type_, list):
        return max(_levels(each, named, known) for each in type_)
    found: Any = named.get(type_, type_) if isinstance(type_, str) else type_
    kind = found if isinstance(found, str) else found["type"]
    if kind in ("array", "map"):
        return 1 + _levels(found["items" if kind == "array" else "values"], named, known)
    if kind != "record":
        return 0
    name = found["name"]
    if name not in known:
        known[name] = VALUE_DEPTH_MAX + 1
        known[name] = 1 + max((_levels(each["type"], named, known) for each in found["fields"]), default=0)
    return known[name]
