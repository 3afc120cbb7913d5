"""Updates of fields as JSON: `{"set": {"gate": "B7"}, "add": {"seats": -1}}`, names of fields dotted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from log_tier.model.errors import InvalidRequest, InvalidRow, InvalidValue
from log_tier.rows.avro.varints import Misfit
from log_tier.rows.definition import TableDefinition
from log_tier.rows.json_rows.json_form import value_from_json, value_to_json
from log_tier.rows.patches.field_paths import checked_tree, path_of, place_at
from log_tier.rows.patches.row_patch import (
    CHANGES_MAX,
    FieldChange,
    FieldOperation,
    RowPatch,
    encode_patch,
    read_patch,
)
from log_tier.rows.schema import RowSchema

__all__ = ["patch_from_json", "patch_to_json"]

_NAMES = {each.name.lower(): each for each in FieldOperation}


def patch_from_json(definition: TableDefinition, operations: Mapping[str, Mapping[str, Any]]) -> bytes:
    """The patch of what JSON is parsed to, by the newest schema.

    Raises `InvalidRow` with the field, its value and the expected type, and `InvalidRequest` where there is nothing to
    change, or no row to do it to.
    """
    if definition.value != "row":
        raise InvalidRequest(f"a table of {definition.value} has no fields to change")
    newest = definition.schemas[-1]
    changes = []
    for name, fields in operations.items():
        operation = _NAMES.get(name)
        if operation is None:
            raise InvalidRequest(f"an update takes {', '.join(_NAMES)}, not {ascii(name)[:40]}")
        changes += [_change(newest.schema, operation, field, value) for field, value in fields.items()]
    if not 0 < len(changes) <= CHANGES_MAX:
        raise InvalidRequest(f"an update changes 1 to {CHANGES_MAX} fields, here are {len(changes)}")
    key_names = [each.name for each in definition.key] if isinstance(definition.key, tuple) else []
    try:
        checked_tree(newest.schema, key_names, RowPatch(newest.number, tuple(changes)))
    except Misfit as misfit:
        raise _refused(misfit.place, misfit) from None
    return encode_patch(newest.number, changes)


def _change(schema: RowSchema, operation: FieldOperation, name: str, value: Any) -> FieldChange:
    try:
        path = path_of(schema, name, operation)
    except Misfit as misfit:
        raise _refused(name, misfit) from None
    return FieldChange(path, operation, value_from_json(schema, place_at(schema, path).type, value, name))


def _refused(name: str, misfit: Misfit) -> InvalidRow:
    return InvalidRow(f"the field {name[:80]}: {misfit.reason}", field=name[:80], expected=misfit.reason)


def patch_to_json(definition: TableDefinition, value: bytes) -> dict[str, dict[str, Any]]:
    """What a patch of the table changes. Raises `InvalidValue` for what is none of a schema that is known here."""
    schemas = {each.number: each.schema for each in definition.schemas}
    shown: dict[str, dict[str, Any]] = {}
    try:
        patch = read_patch(value)
        if patch.schema not in schemas:
            raise Misfit(f"its schema {patch.schema} is not known here")
        schema = schemas[patch.schema]
        checked_tree(schema, (), patch)
    except Misfit as misfit:
        raise InvalidValue(f"the value is no patch of the table: {misfit.reason}") from None
    for change in patch.changes:
        place = place_at(schema, change.path)
        found = value_to_json(schema, place.type, change.operand)
        shown.setdefault(change.operation.name.lower(), {})[place.name] = found
    return shown
