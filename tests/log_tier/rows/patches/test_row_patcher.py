"""What patches make of rows: each operation on each type, what is refused, and rows of other schemas."""

from __future__ import annotations

import io
import json
import math
import struct
from decimal import Decimal
from random import Random
from typing import Any

import fastavro
import pytest
from kit.avro_rows import avro_decode, avro_encode, mutated, random_row, random_schema
from kit.rows.patches import field_change, patch_of

from log_tier.rows.avro.row_reader import ReaderTree
from log_tier.rows.avro.row_room import ROW_VALUES_MAX, RowRoom
from log_tier.rows.avro.varints import Misfit
from log_tier.rows.definition import TableDefinition
from log_tier.rows.framing import frame
from log_tier.rows.key_fields import KeyField
from log_tier.rows.patches.field_paths import path_of
from log_tier.rows.patches.hindrance import Hindrance
from log_tier.rows.patches.row_patch import FieldChange, FieldOperation, NotPatched, encode_patch
from log_tier.rows.patches.row_patcher import RowPatcher, patcher_of
from log_tier.rows.schema import NumberedSchema, RowSchema

SET, ADD, APPEND = FieldOperation.SET, FieldOperation.ADD, FieldOperation.APPEND
KEY = b"k"


def logical(kind: str, name: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "logicalType": name, **more}


CITY = {
    "type": "record",
    "name": "City",
    "fields": [{"name": "name", "type": "string"}, {"name": "size", "type": "int"}],
}
TYPES: dict[str, Any] = {
    "i": "int",
    "n": "long",
    "f": "float",
    "d": "double",
    "price": logical("bytes", "decimal", precision=5, scale=2),
    "exact": {"type": "fixed", "name": "Exact", "size": 3, "logicalType": "decimal", "precision": 5, "scale": 2},
    "day": logical("int", "date"),
    "when": logical("long", "timestamp-micros"),
    "text": "string",
    "raw": "bytes",
    "tags": {"type": "array", "items": "string"},
    "sizes": {"type": "array", "items": "double"},
    "city": CITY,
    "maybe": ["null", "City"],
    "seats": ["null", "int"],
    "note": ["null", "string"],
    "list": ["null", {"type": "array", "items": "int"}],
    "either": ["null", "int", "string"],
    "is_open": "boolean",
    "kind": {"type": "enum", "name": "Kind", "symbols": ["A", "B"]},
    "by_name": {"type": "map", "values": "int"},
    "uid": logical("string", "uuid"),
}
ROW: dict[str, Any] = {
    "i": 7,
    "n": 7,
    "f": 1.5,
    "d": 1.5,
    "price": Decimal("1.50"),
    "exact": Decimal("1.50"),
    "day": 10,
    "when": 1_000_000,
    "text": "Zür",
    "raw": b"\0",
    "tags": ["a"],
    "sizes": [1.0],
    "city": {"name": "Basel", "size": 5},
    "maybe": None,
    "seats": None,
    "note": None,
    "list": None,
    "either": "x",
    "is_open": True,
    "kind": "A",
    "by_name": {"a": 1},
    "uid": "00000000-0000-0000-0000-000000000001",
}


def row_schema(types: dict[str, Any], name: str = "Row") -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [{"name": each, "type": type_} for each, type_ in types.items()]}


SCHEMA = RowSchema.parse(row_schema(TYPES))
TABLE = TableDefinition(value="row", schemas=(NumberedSchema(1, SCHEMA),))
PATCHER = patcher_of(TABLE)


def stored(row: dict[str, Any], schema: RowSchema = SCHEMA, number: int = 1) -> bytes:
    return frame(number, avro_encode(fastavro.parse_schema(_document(schema)), row))


def _document(schema: RowSchema) -> Any:
    return json.loads(schema.text)


def row_of(value: bytes, schema: RowSchema = SCHEMA, number: int = 1) -> Any:
    assert value[:5] == frame(number, b"")
    return fastavro.schemaless_reader(io.BytesIO(value[5:]), fastavro.parse_schema(_document(schema)), None)


BEFORE = row_of(stored(ROW))


def changed(row: dict[str, Any], **operations: dict[str, Any]) -> dict[str, Any]:
    """The fields that are others afterwards, as fastavro reads them."""
    value = patch_of(SCHEMA, **operations)
    assert PATCHER.refusal(KEY, value) is None
    before, after = row_of(stored(row)), row_of(PATCHER.patched(KEY, stored(row), value))
    return {name: after[name] for name in after if repr(after[name]) != repr(before[name])}


def hindered(row: dict[str, Any], **operations: dict[str, Any]) -> tuple[Hindrance, int]:
    value = patch_of(SCHEMA, **operations)
    assert PATCHER.refusal(KEY, value) is None
    with pytest.raises(NotPatched) as caught:
        PATCHER.patched(KEY, stored(row), value)
    return caught.value.why, caught.value.change


@pytest.mark.parametrize(
    ("operation", "name", "operand", "after"),
    [
        ("set", "i", -1, -1),
        ("add", "i", -8, -1),
        ("multiply", "n", -3, -21),
        ("min", "n", 6, 6),
        ("max", "n", 1 << 40, 1 << 40),
        ("add", "f", 0.25, 1.75),
        ("multiply", "d", -2.0, -3.0),
        ("min", "d", -0.0, -0.0),
        ("max", "d", math.inf, math.inf),
        ("add", "price", Decimal("-1.51"), Decimal("-0.01")),
        ("multiply", "price", Decimal("0.33"), Decimal("0.50")),
        ("multiply", "exact", Decimal("1.10"), Decimal("1.65")),
        ("min", "exact", Decimal("-999.99"), Decimal("-999.99")),
        ("append", "text", "ich", "Zürich"),
        ("append", "raw", b"\xff", b"\0\xff"),
        ("append", "tags", ["b", "c"], ["a", "b", "c"]),
        ("append", "sizes", [2.0], [1.0, 2.0]),
        ("set", "tags", [], []),
        ("set", "city", {"name": "Bern", "size": 1}, {"name": "Bern", "size": 1}),
        ("set", "maybe", {"name": "Bern", "size": 1}, {"name": "Bern", "size": 1}),
        ("set", "seats", 5, 5),
        ("set", "either", 5, 5),
        ("set", "either", None, None),
        ("set", "is_open", False, False),
        ("set", "kind", "B", "B"),
        ("set", "by_name", {}, {}),
        ("min", "seats", 5, 5),
        ("max", "seats", 5, 5),
        ("append", "note", "new", "new"),
        ("append", "list", [1, 2], [1, 2]),
        ("append", "either", "y", "xy"),
    ],
)
def test_each_operation(operation: str, name: str, operand: Any, after: Any) -> None:
    assert changed(ROW, **{operation: {name: operand}}) == {name: after}


def test_fields_inside_of_records() -> None:
    assert changed(ROW, set={"city.name": "Bern"}, add={"city.size": 1}) == {"city": {"name": "Bern", "size": 6}}
    inside = {**ROW, "maybe": {"name": "Basel", "size": 5}}
    assert changed(inside, multiply={"maybe.size": 2}) == {"maybe": {"name": "Basel", "size": 10}}
    assert hindered(ROW, set={"i": 1}, add={"maybe.size": 1}) == (Hindrance.NULL, 1)


def test_many_fields_at_once() -> None:
    """In whatever order: each is changed by itself."""
    found = changed(
        ROW, append={"tags": ["b"]}, add={"i": 1}, set={"text": "", "uid": "00000000-0000-0000-0000-00000000000f"}
    )
    assert {name: str(found[name]) for name in found} == {
        "tags": "['a', 'b']",
        "i": "8",
        "text": "",
        "uid": "00000000-0000-0000-0000-00000000000f",
    }


@pytest.mark.parametrize(
    ("operation", "name", "operand", "before"),
    [
        ("add", "i", 1, (1 << 31) - 1),
        ("add", "i", -1, -(1 << 31)),
        ("add", "n", 1, (1 << 63) - 1),
        ("multiply", "n", -1, -(1 << 63)),
        ("add", "f", 3.4e38, 3.4e38),
        ("multiply", "d", 1e300, 1e300),
        ("add", "price", Decimal("0.01"), Decimal("999.99")),
        ("multiply", "exact", Decimal("-2.00"), Decimal("999.99")),
        ("add", "seats", 1, (1 << 31) - 1),
    ],
)
def test_numbers_are_never_wrapped(operation: str, name: str, operand: Any, before: Any) -> None:
    assert hindered({**ROW, name: before}, **{operation: {name: operand}}) == (Hindrance.OVERFLOW, 0)


def test_null_is_no_number() -> None:
    assert hindered(ROW, add={"seats": 1}) == (Hindrance.NULL, 0)
    assert hindered(ROW, multiply={"seats": 1}) == (Hindrance.NULL, 0)
    assert hindered(ROW, add={"either": 1}) == (Hindrance.OTHER_TYPE, 0)


@pytest.mark.parametrize(("name", "code", "bits"), [("f", "<f", "0000c07f"), ("d", "<d", "000000000000f87f")])
def test_floats_have_one_nan_and_two_zeros(name: str, code: str, bits: str) -> None:
    schema = RowSchema.parse(row_schema({name: TYPES[name]}))
    patcher = RowPatcher(TableDefinition(value="row", schemas=(NumberedSchema(1, schema),)))

    def after(before: bytes, operation: str, operand: float) -> str:
        return patcher.patched(KEY, frame(1, before), patch_of(schema, **{operation: {name: operand}}))[5:].hex()

    odd = struct.pack(code, -math.nan)
    zero, below = struct.pack(code, 0.0), struct.pack(code, -0.0)
    for operation in ("add", "multiply", "min", "max"):
        assert after(odd, operation, 1.0) == bits
        assert after(zero, operation, math.nan) == bits
    assert after(struct.pack(code, math.inf), "add", -math.inf) == bits
    assert after(zero, "multiply", math.inf) == bits
    assert [after(zero, each, -0.0) for each in ("min", "max")] == [below.hex(), zero.hex()]
    assert [after(below, each, 0.0) for each in ("min", "max")] == [below.hex(), zero.hex()]
    assert after(struct.pack(code, math.inf), "add", 1.0) == struct.pack(code, math.inf).hex()


def test_a_decimal_is_rounded_half_to_even() -> None:
    halves = {"1.25": "0.62", "1.35": "0.68", "-1.25": "-0.62", "-1.35": "-0.68"}
    for before, after in halves.items():
        assert changed({**ROW, "price": Decimal(before)}, multiply={"price": Decimal("0.50")}) == {
            "price": Decimal(after)
        }


def test_an_array_grows_to_the_limit_of_values() -> None:
    """One value is left for the block: each append makes one block of all items."""
    value = stored({**ROW, "tags": [""] * (ROW_VALUES_MAX - 200), "by_name": {}})
    for count in (50, 100):
        value = PATCHER.patched(KEY, value, patch_of(SCHEMA, append={"tags": ["x"] * count}))
    assert row_of(value)["tags"][-150:] == ["x"] * 150
    with pytest.raises(NotPatched) as caught:
        PATCHER.patched(KEY, value, patch_of(SCHEMA, append={"tags": ["x"] * 50}))
    assert caught.value.why is Hindrance.TOO_LARGE
    longer = stored({**ROW, "text": "x" * (1 << 21)})
    with pytest.raises(NotPatched, match="TOO_LARGE"):
        PATCHER.patched(KEY, longer, patch_of(SCHEMA, append={"text": "x" * (1 << 21)}))


def test_appends_to_blocks_that_others_wrote() -> None:
    """Several blocks, some with their sizes in front."""
    schema = RowSchema.parse(row_schema({"tags": TYPES["tags"], "sizes": TYPES["sizes"]}))
    patcher = RowPatcher(TableDefinition(value="row", schemas=(NumberedSchema(1, schema),)))
    tags, number = b"\x02\x02a" + b"\x03\x08\x02b\x02c" + b"\0", struct.pack("<d", 2.0)
    sizes = b"\x01\x10" + number + b"\x02" + number + b"\0"
    body = patcher.patched(KEY, frame(1, tags + sizes), patch_of(schema, append={"tags": ["d"], "sizes": [3.0]}))
    assert body[5:] == b"\x08\x02a\x02b\x02c\x02d\0" + b"\x06" + number * 2 + struct.pack("<d", 3.0) + b"\0"


KEYED = TableDefinition(key=(KeyField("text", "str"),), value="row", schemas=(NumberedSchema(1, SCHEMA),))


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (stored(ROW), "it begins with a one"),
        (patch_of(SCHEMA, 2, set={"i": 1}), "has no schema 2; it has 1"),
        (patch_of(SCHEMA, set={"text": "x"}), "the field text: it is a field of the key"),
        (encode_patch(1, [FieldChange((99,), SET, b"")]), "part 99 of the row"),
        (encode_patch(1, [FieldChange((12, 2), SET, b"")]), "part 2 of city"),
        (encode_patch(1, [FieldChange((0, 0), SET, b"\0")]), "part 0 of i"),
        (encode_patch(1, [FieldChange((), SET, b"\0")]), "names no field"),
        (encode_patch(1, [FieldChange((0,), APPEND, b"\0")]), "the field i: append is not for int"),
        (encode_patch(1, [FieldChange((14,), ADD, b"\2\0")]), "the field seats: add is not for a union"),
        (encode_patch(1, [FieldChange((14, 1), SET, b"\0")]), "the field seats: set is not for int"),
        (encode_patch(1, [FieldChange((21,), APPEND, b"\2x")]), "the field uid: append is not for uuid"),
        (encode_patch(1, [FieldChange((6,), ADD, b"\2")]), "the field day: add is not for date"),
        (encode_patch(1, [FieldChange((0,), ADD, b"")]), "the field i: the value ends"),
        (
            encode_patch(1, [FieldChange((0,), ADD, b"\0\0")]),
            "the field i: its operand has 2 bytes, and the value in it 1",
        ),
        (encode_patch(1, [FieldChange((8,), SET, b"\x02\xff")]), "the field text"),
        (encode_patch(1, [field_change(SCHEMA, SET, "i", 1)] * 2), "the field i: the patch changes it twice"),
        (
            patch_of(SCHEMA, add={"city.size": 1}, set={"city": ROW["city"]}),
            "the field city: the patch changes it twice",
        ),
        (
            patch_of(SCHEMA, set={"city": ROW["city"]}, add={"city.size": 1}),
            "the field city.size: the patch changes it twice",
        ),
        (patch_of(SCHEMA, add={"either": 1}, append={"either": "x"}), "the field either: the patch changes it twice"),
        (b"\1\0\0\0\1\0", "changes nothing"),
    ],
)
def test_what_is_no_patch_of_the_table(value: bytes, why: str) -> None:
    patcher = patcher_of(KEYED)
    found = patcher.refusal(b"\x02x\0", value)
    assert found is not None
    assert why in found


def test_tables_without_rows_have_no_fields() -> None:
    found = patcher_of(TableDefinition(key="str", value="str")).refusal(b"k", patch_of(SCHEMA, set={"i": 1}))
    assert found == "a table of str has no fields to change"
    keyed = patcher_of(TableDefinition(key="str", value="row", schemas=TABLE.schemas))
    assert "no UTF-8" in str(keyed.refusal(b"\xff", patch_of(SCHEMA, set={"i": 1})))


@pytest.mark.parametrize(
    ("name", "operation", "why"),
    [
        ("gate", SET, "there is no field gate: Row has i, n"),
        ("i.x", SET, "there is no field x: it would be inside of int"),
        ("city.x", SET, "there is no field x: City has name, size"),
        ("", SET, "there is no field : Row has"),
        ("kind", APPEND, "append is not for Kind: it takes set"),
        ("price", APPEND, "append is not for decimal: it takes add, max, min, multiply, set"),
    ],
)
def test_names_of_no_fields(name: str, operation: FieldOperation, why: str) -> None:
    with pytest.raises(Misfit) as caught:
        path_of(SCHEMA, name, operation)
    assert why in caught.value.reason


def test_random_rows_keep_what_is_not_named() -> None:
    """Against fastavro: a field of one row set to what another row has there."""
    random = Random(83)
    for _ in range(150):
        document = random_schema(random, 4)
        schema = RowSchema.parse(document)
        parsed: Any = fastavro.parse_schema(document)
        patcher = RowPatcher(TableDefinition(value="row", schemas=(NumberedSchema(1, schema),)))
        one, other = (avro_encode(parsed, random_row(random, parsed)) for _ in range(2))
        field = random.randrange(4)
        operand = _field_bytes(schema, other, field)
        value = encode_patch(1, [FieldChange((field,), SET, operand)])
        assert patcher.refusal(KEY, value) is None
        after = patcher.patched(KEY, frame(1, one), value)[5:]
        rows = [avro_decode(parsed, each) for each in (one, other, after)]
        for number in range(4):
            wanted = rows[1 if number == field else 0][f"f{number}"]
            assert repr(rows[2][f"f{number}"]) == repr(wanted)


def _field_bytes(schema: RowSchema, body: bytes, field: int) -> bytes:
    tree, at = ReaderTree(schema.named), 0
    for number, each in enumerate(schema.fields):
        read = tree.reader(each.type)
        end = at if read is None else read(body, at, len(body), RowRoom())
        if number == field:
            return body[at:end]
        at = end
    raise AssertionError(field)


def test_hostile_patches_are_refused_or_make_rows() -> None:
    random = Random(84)
    good = patch_of(
        SCHEMA, set={"city.name": "x", "tags": ["b"]}, add={"i": 1, "price": Decimal("0.01")}, append={"list": [1]}
    )
    value = stored(ROW)
    kinds = {"refused": 0, "patched": 0, "hindered": 0}
    for _ in range(10_000):
        patch = mutated(random, good)
        if PATCHER.refusal(KEY, patch) is not None:
            kinds["refused"] += 1
            continue
        try:
            assert TABLE.judge.refusal(KEY, PATCHER.patched(KEY, value, patch)) is None
            kinds["patched"] += 1
        except NotPatched:
            kinds["hindered"] += 1
    assert kinds["refused"] > 1000
    assert kinds["patched"] > 10, kinds
