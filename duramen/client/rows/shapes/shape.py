"""What was given as `row=`: its schema, and how its rows are in Python."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from duramen.client.rows.shapes.arrow_schema import ArrowSchema, arrow_schema
from duramen.client.rows.shapes.class_schema import class_schema
from duramen.client.rows.shapes.hints import Hint, is_row_class
from log_tier.model.errors import InvalidSchema
from log_tier.rows.schema import RowSchema

__all__ = ["RowShape", "shape_of"]


@dataclass(frozen=True, slots=True)
class RowShape:
    """A type of rows."""

    name: str
    """As messages call it."""
    schema: RowSchema
    hint: Hint | None = field(default=None)
    """Of the class whose instances rows are; None: rows are dicts."""


def shape_of(row: object) -> RowShape:
    """The shape of what was given as `row=`. Raises `InvalidSchema` for what is none, and for one with a field that
    Avro has no type for. Some 100 µs for a class of 8 fields.
    """
    if is_row_class(row):
        assert isinstance(row, type), "a class of rows is a class"
        return RowShape(row.__name__, RowSchema.parse(class_schema(row)), Hint("class", python=row))
    if isinstance(row, (Mapping, str)):
        schema = RowSchema.parse(row)
        return RowShape(schema.name, schema)
    if isinstance(row, ArrowSchema) and not isinstance(row, type):
        schema = RowSchema.parse(arrow_schema(row))
        return RowShape("the Arrow schema", schema)
    raise InvalidSchema(
        "row= takes a dataclass, a pydantic model, a schema of Avro (a mapping or JSON) or a pyarrow.Schema, not "
        + (f"the class {row.__name__}: make it a dataclass" if isinstance(row, type) else type(row).__name__),
        field="",
        reason="no type of rows",
    )
