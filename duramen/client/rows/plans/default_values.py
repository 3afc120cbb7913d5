"""The default of a field, as a schema has it in JSON, as a value that fastavro takes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["default_value"]


def default_value(default: Any, given: Any, named: Mapping[str, Any]) -> Any:
    """The value. Numbers stand for times, and bytes for decimals: fastavro takes what is of the type below. O(its
    size).
    """
    if isinstance(given, list):  # the default is of the first branch
        value = default_value(default, given[0], named)
        return value if "null" in given and len(given) == 2 else (_branch_name(given[0]), value)
    found = named.get(given, given) if isinstance(given, str) else given
    kind = found if isinstance(found, str) else found["type"]
    match kind:
        case "bytes" | "fixed":
            return default.encode("latin-1")
        case "float" | "double":
            return float(default)
        case "array":
            return [default_value(each, found["items"], named) for each in default]
        case "map":
            return {name: default_value(each, found["values"], named) for name, each in default.items()}
        case "record":
            return {
                each["name"]: default_value(default.get(each["name"], each.get("default")), each["type"], named)
                for each in found["fields"]
            }
    return default


def _branch_name(branch: Any) -> str:
    if isinstance(branch, str):
        return branch
    return str(branch["name"] if branch["type"] in ("record", "enum", "fixed") else branch["type"])
