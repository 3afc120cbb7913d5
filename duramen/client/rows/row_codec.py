"""Rows to keys and values, and back: checked by a plan, encoded by fastavro."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from functools import cached_property
from io import BytesIO
from typing import Any, Generic, TypeVar, cast

from duramen.client.model.call_records import record_of
from duramen.client.rows.avro_schemas import avro_schema, has_mutable_default
from duramen.client.rows.plans.planner import RowPlan, plan_rows
from duramen.client.rows.plans.quick_decoding import quick_decoder
from duramen.client.rows.plans.quick_encoding import quick_encoder
from duramen.client.rows.plans.record_plan import Prepare
from duramen.client.rows.row_key import RowKey
from duramen.client.rows.row_patches import PatchedFields, RowPatches
from duramen.client.rows.schema_difference import schema_difference
from duramen.client.rows.shapes.row_class import row_class_of
from duramen.client.rows.shapes.shape import RowShape
from log_tier.model.batch import Columns
from log_tier.model.errors import InvalidRow, InvalidSchema, UnknownFormat
from log_tier.model.record import Operation
from log_tier.rows.avro.row_room import ROW_VALUES_MAX, VALUE_DEPTH_MAX
from log_tier.rows.avro.sure_room import surely_roomy_bytes
from log_tier.rows.avro.varints import Misfit
from log_tier.rows.definition import TableDefinition
from log_tier.rows.evolution import check_read
from log_tier.rows.finding.find_planner import FindPlanner
from log_tier.rows.framing import FRAME_BYTES, frame
from log_tier.rows.judge import row_reader
from log_tier.rows.schema import NumberedSchema, RowSchema

__all__ = ["RowCodec"]

R = TypeVar("R")


class RowCodec(Generic[R]):
    """The rows of one table, for one type of rows. A row of 8 plain fields takes 3 µs each way, one that fastavro
    encodes some 20 % more than bare fastavro.

    Raises `InvalidSchema`, which names the field, if the type is not what the table has.
    """

    def __init__(self, definition: TableDefinition, shape: RowShape) -> None:
        chosen, plan = _chosen(definition, shape)
        self.definition = definition
        self.schema = chosen.schema
        self._dicts: RowCodec[dict[str, Any]] | None = None
        self.key = RowKey(definition)
        self._name = shape.name
        self._chosen = chosen
        self._hint = shape.hint
        self._numbers = {each.number: each.schema for each in definition.schemas}
        self._avro = avro_schema(chosen.schema)
        self._refine = plan.plan.refine
        head = frame(chosen.number, b"")
        row_class = None if shape.hint is None else row_class_of(shape.hint.python)
        complete = self._encoder(plan.prepare, head)
        self.encode: Callable[[R], tuple[bytes, bytes]] = quick_encoder(
            chosen.schema, self.key.names, row_class, head, complete
        )
        """The key and the value of a row. Raises `InvalidRow` with field, value and expected type; `InvalidKey` for a
        key of over 511 bytes.
        """
        restore = plan.plan.restore
        self.decode: Callable[[bytes], R] = quick_decoder(chosen.schema, head, restore, self._decoder(restore, head))
        """The row of a stored value. Raises `InvalidRow` where a time in it is none of Python's, or its class refuses
        it, `UnknownFormat` with the number of a schema that is not known here, and `InvalidSchema`, which names the
        field, for a row of another schema that is none of this one.
        """

    @cached_property
    def patches(self) -> RowPatches:
        """Updates of fields."""
        return RowPatches(self._chosen, self._hint, self.key.names)

    @cached_property
    def finds(self) -> FindPlanner:
        """Plans of finds."""
        return FindPlanner(self.definition)

    def patch_record(
        self,
        key: Sequence[Any],
        operations: Mapping[str, PatchedFields],
        *,
        ttl: float | None = None,
        if_present: bool = False,
        if_version: int | None = None,
    ) -> Columns:
        """The record of an update of fields. Raises `InvalidKey`, `InvalidRow`, `InvalidRequest`."""
        stored, value = self.key.of_fields(key), self.patches.encoded(operations)
        return record_of(Operation.PATCH, stored, value, ttl=ttl, if_present=if_present, if_version=if_version)

    def as_dicts(self) -> RowCodec[dict[str, Any]]:
        """The codec of the same rows as dicts, by the table's newest schema."""
        if self._dicts is None:
            newest = self.definition.schemas[-1].schema
            self._dicts = RowCodec(self.definition, RowShape(newest.name, newest))
        return self._dicts

    def _encoder(self, prepare: Prepare, head: bytes) -> Callable[[R], tuple[bytes, bytes]]:
        """A function of what it needs: an attribute costs as much as a field."""
        from fastavro import schemaless_writer

        avro, key_of = self._avro, self.key.of_row
        sure_bytes = surely_roomy_bytes(self.schema.name, self.schema.named)

        def encode(row: R) -> tuple[bytes, bytes]:
            try:
                values = prepare(row)
            except (KeyError, AttributeError):
                values = None
            except RecursionError:
                raise self._too_deep() from None
            if values is None:
                values = self._refined(row)
            buffer = BytesIO()
            try:
                schemaless_writer(buffer, avro, values)
            except (ValueError, TypeError, OverflowError) as error:
                self._refined(row)  # says which field, where one is not what it should be
                raise InvalidRow(f"the row cannot be encoded: {error}", field="", expected=self._name) from error
            body = buffer.getvalue()
            if len(body) > sure_bytes:
                self._check_room(body)
            return key_of(values), head + body

        return encode

    def _decoder(self, restore: Callable[[Any], Any] | None, head: bytes) -> Callable[[bytes], R]:
        from fastavro import schemaless_reader

        avro, resolved = self._avro, self._resolved

        def decode(value: bytes) -> R:
            try:
                if value.startswith(head):
                    found: Any = schemaless_reader(BytesIO(value[FRAME_BYTES:]), avro, None)
                else:
                    found = resolved(value)
            except InvalidSchema:
                raise
            except (OverflowError, ValueError) as error:
                raise InvalidRow(
                    f"a stored row has a value that Python does not have ({error}): read it by another program",
                    field="",
                    expected=self._name,
                ) from error
            return cast("R", found if restore is None else restore(found))

        return decode

    def _resolved(self, value: bytes) -> Any:
        """A row of another schema of the table, as this one has it."""
        from fastavro import schemaless_reader
        from fastavro.read import SchemaResolutionError

        number = int.from_bytes(value[1:FRAME_BYTES])
        written = self._numbers.get(number)
        if written is None or not value or value[0]:
            raise UnknownFormat(
                f"a stored row has schema {number}, which its table did not have when this client asked: ask again",
                schema=number,
            )
        try:
            found: Any = schemaless_reader(BytesIO(value[FRAME_BYTES:]), avro_schema(written), self._avro)
        except SchemaResolutionError as error:
            raise self._unresolved(number, written, error) from error
        return deepcopy(found) if has_mutable_default(self.schema) else found

    def _unresolved(self, number: int, written: RowSchema, error: Exception) -> InvalidSchema:
        """Why a row of another schema is none of this one."""
        field, why = "", str(error)
        try:
            check_read(self.schema, written, self._name, f"schema {number}")
        except InvalidSchema as refused:
            field, why = str(refused.fields["field"]), str(refused.fields["reason"])
        return InvalidSchema(
            f"a stored row has schema {number}, and is not read as {self._name}: "
            f"{f'the field {field}: ' if field else ''}{why}; open the table with a type that has the newest schema",
            field=field,
            reason=why,
        )

    def _check_room(self, body: bytes) -> None:
        """Raise `InvalidRow` for what is right field by field, and too much for one row. O(its bytes)."""
        try:
            row_reader(self.schema, ())(body, 0)
        except Misfit as misfit:
            raise InvalidRow(
                f"the field {misfit.place}: {misfit.reason}: make several rows of it",
                field=misfit.place,
                expected=f"at most {ROW_VALUES_MAX} values inside a row, nested at most {VALUE_DEPTH_MAX} deep",
            ) from None

    def _refined(self, row: R) -> dict[str, Any]:
        try:
            return cast("dict[str, Any]", self._refine(row, ""))
        except RecursionError:
            raise self._too_deep() from None

    def _too_deep(self) -> InvalidRow:
        return InvalidRow("the row has itself inside, or is nested too deep", field="", expected=self._name)


def _chosen(definition: TableDefinition, shape: RowShape) -> tuple[NumberedSchema, RowPlan]:
    """The schema that rows of the shape are written by, and their plan: their own where the table has it, else the
    newest that they fit. So programs with the type of an older schema go on. O(schemas) where none fits.
    """
    own = next((each for each in definition.schemas if each.schema == shape.schema), None)
    refused: InvalidSchema | None = None
    for each in reversed(definition.schemas) if own is None else (own,):
        try:
            if shape.hint is None and own is None:
                _check_same(shape, each)
            return each, plan_rows(each.schema, shape.hint)
        except InvalidSchema as error:
            refused = refused or error
    assert refused is not None, "a table of rows has a schema"
    raise refused


def _check_same(shape: RowShape, each: NumberedSchema) -> None:
    different = schema_difference(shape.schema, each.schema)
    if different is not None:
        raise InvalidSchema(
            f"this schema is not the table's: the field {different.path}: {different.why}",
            field=different.path,
            reason=different.why,
        )
