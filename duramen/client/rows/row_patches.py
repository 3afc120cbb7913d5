"""Updates of fields: from names and values of Python to a patch, checked by the plans of rows, encoded by fastavro."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from io import BytesIO
from typing import Any

from duramen.client.rows.avro_schemas import value_schema
from duramen.client.rows.plans.planner import plan_field
from duramen.client.rows.plans.refusals import shown
from duramen.client.rows.shapes.hints import Hint
from log_tier.model.errors import InvalidRequest, InvalidRow, Rejected
from log_tier.rows.avro.varints import Misfit
from log_tier.rows.patches.field_paths import checked_tree, path_of, place_at
from log_tier.rows.patches.row_patch import CHANGES_MAX, FieldChange, FieldOperation, RowPatch, encode_patch, read_patch
from log_tier.rows.schema import NumberedSchema

__all__ = ["PatchedFields", "RowPatches"]

PatchedFields = Mapping[str, Any] | None
"""From dotted names of fields to values."""

_Encode = Callable[[Any], bytes]


class RowPatches:
    """The patches of one schema of a table. What it encodes is a patch that the table takes."""

    def __init__(self, schema: NumberedSchema, hint: Hint | None, key_names: tuple[str, ...]) -> None:
        self._schema = schema.schema
        self._number = schema.number
        self._hint = hint
        self._key_names = frozenset(key_names)
        self._known: dict[tuple[str, str], tuple[FieldChange, _Encode]] = {}
        """Of operations and names, which a program has few of: a change without its operand, and what encodes it."""

    def encoded(self, operations: Mapping[str, PatchedFields]) -> bytes:
        """The patch of what is given for each operation. Some 10 µs for a field that was changed before.

        Raises `InvalidRow` with field, value and expected type, and `InvalidRequest` where nothing is given.
        """
        changes = []
        for operation, fields in operations.items():
            if fields is None:
                continue
            if not isinstance(fields, Mapping):
                raise InvalidRequest(f"{operation}= takes a dict from fields to values, not {shown(fields)}")
            changes += [self._change(operation, name, operand) for name, operand in fields.items()]
        if not 0 < len(changes) <= CHANGES_MAX:
            raise InvalidRequest(
                f"an update changes 1 to {CHANGES_MAX} fields, here are {len(changes)}: it takes "
                f"{', '.join(f'{each}=' for each in operations)}"
            )
        patch = RowPatch(self._number, tuple(changes))
        try:
            checked_tree(self._schema, self._key_names, patch)
        except Misfit as misfit:
            raise _refused(misfit.place, misfit.reason) from None
        return encode_patch(*patch)

    def named(self, refused: Rejected, value: bytes) -> Rejected:
        """A verdict on a patch that this has encoded, with the name of the field at fault where it says which it is."""
        change = refused.fields.get("change")
        if change is None:
            return refused
        field = place_at(self._schema, read_patch(value).changes[int(str(change))].path).name
        fields = {name: each for name, each in refused.fields.items() if name != "change"}
        return type(refused)(f"{refused.message}: {field}", **fields, field=field)

    def _change(self, operation: str, name: str, operand: Any) -> FieldChange:
        known = self._known.get((operation, name))
        if known is None:
            if len(self._known) >= CHANGES_MAX:
                self._known.clear()
            known = self._known[operation, name] = self._prepared(operation, name)
        change, encode = known
        return change._replace(operand=encode(operand))

    def _prepared(self, operation: str, name: str) -> tuple[FieldChange, _Encode]:
        if not isinstance(name, str):
            raise InvalidRequest(f"{operation}= takes a dict from names of fields to values, not of {shown(name)}")
        done = FieldOperation[operation.upper()]
        try:
            path = path_of(self._schema, name, done)
        except Misfit as misfit:
            raise _refused(name, misfit.reason) from None
        refine = plan_field(self._schema, self._hint, path, name).refine
        wrapped = value_schema(place_at(self._schema, path).type, self._schema)

        def encode(operand: Any) -> bytes:
            from fastavro import schemaless_writer

            buffer = BytesIO()
            try:
                schemaless_writer(buffer, wrapped, {"value": refine(operand, name)})
            except (ValueError, TypeError, OverflowError, RecursionError) as error:
                raise _refused(name, f"its value cannot be encoded: {error}") from error
            return buffer.getvalue()

        return FieldChange(path, done, b""), encode


def _refused(name: str, why: str) -> InvalidRow:
    return InvalidRow(f"the field {name[:80]}: {why}", field=name[:80], expected=why)
