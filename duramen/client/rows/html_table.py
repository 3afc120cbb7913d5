"""The first rows of a table as HTML, for notebooks. Whatever is in a row is text here, shortened and escaped."""

from __future__ import annotations

import json
from collections.abc import Sequence
from html import escape
from typing import Any, Final

from log_tier.model.errors import DuramenError
from log_tier.rows.avro.avro_types import AvroType, NamedTypes, branch_name
from log_tier.rows.avro.logical_types import logical_of
from log_tier.rows.definition import TableDefinition
from log_tier.rows.json_rows.json_table import JsonTable

__all__ = ["HTML_ROWS", "html_error", "html_table"]

HTML_ROWS: Final = 10
"""Rows that are shown."""
_COLUMNS_MAX: Final = 20
_CELL_MAX: Final = 60
"""Characters of a value."""
_MORE: Final = "<td>…</td>"


def html_table(name: str, definition: TableDefinition, values: Sequence[bytes]) -> str:
    """A table of up to `HTML_ROWS` rows of these stored values; one value more says that there are others. At most 200
    cells of 60 characters. Raises `LimitExceeded` for a row that is too large as JSON.
    """
    schema = definition.schemas[-1].schema
    fields = schema.fields[:_COLUMNS_MAX]
    wider = _MORE if len(schema.fields) > len(fields) else ""
    keys = {each.name for each in definition.key} if isinstance(definition.key, tuple) else set()
    heads = "".join(f"<th>{_cell(each.name)}{' (key)' if each.name in keys else ''}</th>" for each in fields)
    types = "".join(f"<td><i>{_cell(_type_name(each.type, schema.named))}</i></td>" for each in fields)
    texts = JsonTable(definition)
    rows = [json.loads(texts.value_text(each)) for each in values[:HTML_ROWS]]
    lines = "".join(
        f"<tr>{''.join(f'<td>{_cell(_shown(row.get(each.name, _ABSENT)))}</td>' for each in fields)}{wider}</tr>"
        for row in rows
    )
    more = "the first of more rows" if len(values) > HTML_ROWS else "all rows"
    return (
        f"<div><p><b>{_cell(name)}</b>: rows of {_cell(schema.name)}, {more}</p>"
        f"<table><thead><tr>{heads}{wider}</tr><tr>{types}{wider}</tr></thead><tbody>{lines}</tbody></table></div>"
    )


def html_error(shown: str, error: DuramenError) -> str:
    """What stands where the rows cannot be had."""
    return f"<div><p>{escape(shown)}: {escape(error.message)}</p></div>"


_ABSENT: Final = object()
"""Of a row of an older schema, a field that it has not."""


def _shown(value: Any) -> str:
    if value is _ABSENT:
        return "(default)"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _cell(text: str) -> str:
    return escape(text if len(text) <= _CELL_MAX else f"{text[: _CELL_MAX - 2]} …")


def _type_name(type_: AvroType, named: NamedTypes) -> str:
    if isinstance(type_, list):
        return " or ".join(_type_name(each, named) for each in type_)
    found: Any = named.get(type_, type_) if isinstance(type_, str) else type_
    logical = logical_of(found)
    if logical == "decimal":
        return f"decimal({found['precision']}, {found.get('scale', 0)})"
    return logical or branch_name(type_)
