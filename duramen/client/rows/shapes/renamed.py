"""A schema whose record has another name."""

from __future__ import annotations

import json
from typing import Any

from log_tier.rows.schema import RowSchema

__all__ = ["with_record_name"]


def with_record_name(schema: RowSchema, name: str) -> RowSchema:
    """The same fields in a record of that full name; as it is where another type in it has that name. O(its size)."""
    if name in schema.named:
        return schema
    return RowSchema.parse(_renamed(json.loads(schema.text), schema.name, name))


def _renamed(type_: Any, old: str, new: str) -> Any:
    if isinstance(type_, str):
        return new if type_ == old else type_
    if isinstance(type_, list):
        return [_renamed(each, old, new) for each in type_]
    made = dict(type_)
    if made.get("name") == old:
        made["name"] = new
    if "fields" in made:
        made["fields"] = [{**each, "type": _renamed(each["type"], old, new)} for each in made["fields"]]
    for inner in ("items", "values"):
        if inner in made:
            made[inner] = _renamed(made[inner], old, new)
    return made
