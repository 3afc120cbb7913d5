"""Rows as lines of text: CSV and JSON lines."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

from duramen.loading.csv_cells import cell_form
from log_tier.rows.framing import FRAME_BYTES
from log_tier.rows.json_rows.json_form import row_to_json
from log_tier.rows.schema import RowSchema

__all__ = ["csv_lines", "json_lines"]

_JSON = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def json_lines(schema: RowSchema, values: Iterator[bytes]) -> Iterator[bytes]:
    """A line for each stored value. Raises as `row_to_json`."""
    for value in values:
        yield row_to_json(schema, value[FRAME_BYTES:]).encode() + b"\n"


def csv_lines(schema: RowSchema, values: Iterator[bytes], delimiter: str) -> Iterator[bytes]:
    """A header, and a line for each stored value: null is an empty cell, empty text a quoted one where both can be."""
    names = [each.name for each in schema.fields]
    cells = [_cell_maker(cell_form(each.type, schema.named).tells_quotes, delimiter) for each in schema.fields]
    yield (delimiter.join(map(_cell_maker(False, delimiter), names)) + "\r\n").encode()
    for value in values:
        row = json.loads(row_to_json(schema, value[FRAME_BYTES:]))
        line = delimiter.join(cell(row[name]) for cell, name in zip(cells, names, strict=True))
        yield (line + "\r\n").encode()


def _cell_maker(tells_quotes: bool, delimiter: str) -> Callable[[Any], str]:
    empty = '""' if tells_quotes else ""

    def cell(value: Any) -> str:
        if value is None:
            return ""
        text = value if isinstance(value, str) else _JSON(value)
        if not text:
            return empty
        if delimiter in text or '"' in text or "\n" in text or "\r" in text:
            return '"' + text.replace('"', '""') + '"'
        return text

    return cell
