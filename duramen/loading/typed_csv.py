"""CSV into a table of rows."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from typing import IO, Final

from duramen.loading.csv_cells import CellForm, cell_form, quoted_empties
from duramen.loading.csv_rows import PairMaker, csv_pairs
from duramen.loading.errors import FileRefused
from duramen.loading.options import RowOptions
from duramen.loading.rows import RowChunk
from duramen.loading.typed_json import row_maker
from log_tier.rows.schema import RowSchema

__all__ = ["check_fields", "typed_csv"]

_SHOWN_MAX: Final = 30
"""Names in a message."""


def typed_csv(path: Path, file: IO[bytes], position: Callable[[], int], options: RowOptions) -> Generator[RowChunk]:
    """Yield the rows of an open CSV file in chunks. Raises `FileRefused` for a header that is not the table's."""
    schema = options.definition.schemas[-1].schema
    row_of = row_maker(options.definition)

    def columns_of(columns: list[str]) -> PairMaker:
        check_fields(path, columns, schema)
        forms = [_form(schema, name) for name in columns]
        template = "{" + ",".join(f"{json.dumps(name)}:%s" for name in columns) + "}"
        doubtful = [number for number, form in enumerate(forms) if form.tells_quotes]

        def pair_of(row: list[str], lines: Sequence[str]) -> tuple[bytes, bytes]:
            cells = [form.of_cell(cell) for form, cell in zip(forms, row, strict=True)]
            if any(not row[number] for number in doubtful) and any('""' in each for each in lines):
                quoted = quoted_empties(lines, options.delimiter)
                for number in doubtful:
                    if not row[number] and number in quoted:
                        cells[number] = '""'
            return row_of((template % tuple(cells)).encode())

        return pair_of

    only = schema.fields[0] if len(schema.fields) == 1 else None
    blank_rows = only is not None and _form(schema, only.name).is_optional
    yield from csv_pairs(path, file, position, options.delimiter, columns_of, blank_rows=blank_rows)


def _form(schema: RowSchema, name: str) -> CellForm:
    field = schema.field_of(name)
    assert field is not None, "the header was compared with the fields"
    return cell_form(field.type, schema.named)


def check_fields(path: Path, columns: Sequence[str], schema: RowSchema) -> None:
    """Raise `FileRefused` where the columns of a file are not the fields of a table."""
    known = [each.name for each in schema.fields]
    shown = ", ".join(known[:_SHOWN_MAX])
    for number, name in enumerate(columns):
        if name in columns[:number]:
            raise FileRefused(f"{path} has two columns named {name!r}: rename one", file=str(path), column=name)
        if name not in known:
            raise FileRefused(
                f"{path} has a column {name!r}, which is no field of {schema.name}: leave it out. It has {shown}",
                file=str(path),
                column=name,
            )
    for field in schema.fields:
        if field.name not in columns and not field.has_default:
            raise FileRefused(
                f"{path} has no column {field.name!r}, and the field has no default; its columns are: "
                f"{', '.join(columns[:_SHOWN_MAX])}",
                file=str(path),
                column=field.name,
            )
