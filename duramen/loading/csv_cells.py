"""The cells of a CSV as JSON, by the types of a schema, and back."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from typing import Any, Final

from log_tier.rows.avro.avro_types import AvroType, NamedTypes
from log_tier.rows.avro.logical_types import logical_of

__all__ = ["CellForm", "cell_form", "quoted_empties"]

_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_NUMBERS: Final = frozenset({"int", "long", "float", "double"})
_NESTED: Final = frozenset({"record", "array", "map"})


class CellForm:
    """What a cell of one column is."""

    def __init__(self, to_json: Callable[[str], str], is_optional: bool, is_text: bool) -> None:
        self.to_json = to_json
        """The JSON of a cell that is not empty. What does not fit becomes a text, which is refused as one."""
        self.is_optional = is_optional
        self.is_text = is_text
        """An empty cell has a meaning where it is not null."""
        self.tells_quotes = is_optional and is_text
        """An empty cell is null, and a quoted empty one is not."""

    def of_cell(self, cell: str) -> str:
        """The JSON of a cell."""
        return "null" if not cell and self.is_optional else self.to_json(cell)


def cell_form(type_: AvroType, named: NamedTypes) -> CellForm:
    """The form of a field's cells."""
    if isinstance(type_, list):
        others = [each for each in type_ if each != "null"]
        if len(others) != 1:
            return CellForm(_document, "null" in type_, is_text=False)
        inner = cell_form(others[0], named)
        return CellForm(inner.to_json, inner.is_optional or len(others) < len(type_), inner.is_text)
    found: Any = named.get(type_, type_) if isinstance(type_, str) else type_
    kind = found if isinstance(found, str) else found["type"]
    if kind in _NESTED:
        return CellForm(_document, is_optional=False, is_text=False)
    if logical_of(found) is None and kind in _NUMBERS:
        return CellForm(_number, is_optional=False, is_text=False)
    if kind == "boolean":
        return CellForm(_truth, is_optional=False, is_text=False)
    return CellForm(_text, is_optional=kind == "null", is_text=kind in ("string", "bytes", "fixed"))


def _text(cell: str) -> str:
    return json.dumps(cell, ensure_ascii=False)


def _number(cell: str) -> str:
    return cell if _NUMBER.fullmatch(cell) else _text(cell)


def _truth(cell: str) -> str:
    lower = cell.lower()
    return lower if lower in ("true", "false") else _text(cell)


def _document(cell: str) -> str:
    try:
        json.loads(cell)
    except (ValueError, RecursionError):
        return _text(cell)
    return cell


def quoted_empties(lines: Sequence[str], delimiter: str) -> set[int]:
    """The numbers of the cells of a row that are empty and quoted. O(its text)."""
    text = "".join(lines)
    found: set[int] = set()
    number = at = 0
    while at < len(text):
        start = at
        if text[at] == '"':
            at += 1
            while (at := text.find('"', at)) >= 0 and text[at : at + 2] == '""':
                at += 2
            if at < 0:
                break
            at += 1
            if at - start == 2:
                found.add(number)
        at = text.find(delimiter, at) + 1
        if not at:
            break
        number += 1
    return found
