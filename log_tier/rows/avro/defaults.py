"""Whether the default of a field, in JSON, is a value of the field's type."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

from log_tier.rows.avro.logical_types import logical_of
from log_tier.rows.avro.plain_readers import plain_reader
from log_tier.rows.avro.row_room import UNUSED_ROOM
from log_tier.rows.avro.varints import Misfit
from log_tier.rows.avro.writing import leaf_bytes

__all__ = ["default_refusal"]

_INTS: Final = {"int": 1 << 31, "long": 1 << 63}
_DEPTH_MAX: Final = 64
"""As for values."""


def default_refusal(default: Any, type_: Any, named: Mapping[str, Mapping[str, Any]], depth: int = 1) -> str | None:
    """Why it is none. None: it is one.

    Bytes are text of the characters 0 to 255, as Avro has it. The default of a union is of its first type: readers of
    Avro before 1.12 know no other.
    """
    if isinstance(type_, list):
        why = default_refusal(default, type_[0], named, depth)
        return why and f"{why}; the default of a union is of its first type: put its type there"
    found = named.get(type_, type_) if isinstance(type_, str) else type_
    kind = found if isinstance(found, str) else found["type"]
    if depth > _DEPTH_MAX:
        return f"it is nested more than {_DEPTH_MAX} deep"
    if kind == "record":
        return _record_refusal(default, found, named, depth)
    if kind in ("array", "map"):
        return _many_refusal(default, found, named, depth)
    return _logical_refusal(default, kind, found) if _fits(default, kind, found) else f"it is no {kind}"


def _logical_refusal(default: Any, kind: str, found: Any) -> str | None:
    """Why a default is beyond the limits of its logical type: readers refuse such a value in a row."""
    read = plain_reader(found) if logical_of(found) is not None else None
    if read is None:
        return None
    try:
        raw = leaf_bytes(default.encode("latin-1") if kind in ("bytes", "fixed") else default, found)
        read(raw, 0, len(raw), UNUSED_ROOM)
    except Misfit as misfit:
        return misfit.reason
    except UnicodeEncodeError:
        return "half of a surrogate pair is no text"
    return None


def _fits(default: Any, kind: str, found: Any) -> bool:
    if kind in _INTS:
        return type(default) is int and -_INTS[kind] <= default < _INTS[kind]
    if kind in ("float", "double"):
        return type(default) in (int, float) and _is_finite(default)
    if kind in ("bytes", "fixed"):
        return (
            isinstance(default, str)
            and all(character <= "\xff" for character in default)
            and (kind == "bytes" or len(default) == found["size"])
        )
    if kind == "enum":
        return default in found["symbols"]
    return type(default) is {"null": type(None), "boolean": bool, "string": str}[kind]


def _is_finite(default: float) -> bool:
    try:
        return math.isfinite(float(default))
    except OverflowError:
        return False


def _record_refusal(default: Any, record: Any, named: Mapping[str, Mapping[str, Any]], depth: int) -> str | None:
    if not isinstance(default, dict):
        return "it is no record"
    names = {each["name"] for each in record["fields"]}
    for name in default:
        if name not in names:
            return f"the record {record['name']} has no field {name}"
    for each in record["fields"]:
        if each["name"] not in default:
            if "default" not in each:
                return f"its field {each['name']} is missing"
            continue
        why = default_refusal(default[each["name"]], each["type"], named, depth + 1)
        if why is not None:
            return f"its field {each['name']}: {why}"
    return None


def _many_refusal(default: Any, found: Any, named: Mapping[str, Mapping[str, Any]], depth: int) -> str | None:
    inner, values = found.get("items"), default
    if found["type"] == "map":
        inner, values = found["values"], list(default.values()) if isinstance(default, dict) else None
    if not isinstance(values, list):
        return f"it is no {found['type']}"
    for each in values:
        why = default_refusal(each, inner, named, depth + 1)
        if why is not None:
            return f"in it, {why}"
    return None
