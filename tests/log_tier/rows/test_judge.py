"""What fits a definition, with fastavro as the peer: it writes what fits, and reads to the end what fits."""

from __future__ import annotations

import json
import time
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kit.avro_rows import avro_decode, avro_encode, mutated, random_row, random_schema
from kit.rows.judged_rows import logical, of_fields, of_rows, refusal, varint

from log_tier.rows.definition import TableDefinition
from log_tier.rows.framing import frame
from log_tier.rows.key_fields import KeyField, key_type_of, without_null
from log_tier.rows.schema import NumberedSchema, RowSchema
from log_tier.rows.tuple_key import pack_key


@given(st.randoms(use_true_random=False))
@settings(max_examples=60, deadline=None)
def test_what_fastavro_writes_fits(random: Random) -> None:
    schema = random_schema(random)
    body = avro_encode(schema, random_row(random, schema))
    definition = of_rows(schema)
    assert refusal(definition, body) is None
    assert avro_decode(json.loads(definition.schemas[0].schema.text), body) is not None
    for size in range(len(body)):
        assert refusal(definition, body[:size]) is not None
    assert refusal(definition, body + b"\0") is not None


@given(st.randoms(use_true_random=False))
@settings(max_examples=60, deadline=None)
def test_a_rows_key_is_that_of_its_values(random: Random) -> None:
    schema = random_schema(random, fields=8)
    parsed = RowSchema.parse(schema)
    key: list[KeyField] = []
    for field in parsed.fields:
        plain, optional = without_null(field.type)
        if (kind := key_type_of(plain, parsed)) is not None:
            key.append(KeyField(field.name, kind, optional))
    random.shuffle(key)
    row = random_row(random, schema)
    if not key or any(row[each.name] != row[each.name] for each in key):
        return
    definition = of_rows(schema, *key)
    body = avro_encode(schema, row)
    # What is read, as float is of 32 bits; and what is written, which is rounded as well.
    packed = definition.key_of([row[each.name] for each in key])
    assert packed == pack_key(*(avro_decode(schema, body)[each.name] for each in key))
    assert refusal(definition, body, packed) is None
    assert definition.judge.key_of_row(frame(7, body)) == packed
    assert refusal(definition, body, packed[:-1]) is not None
    assert refusal(definition, body, packed + b"\0") is not None


def test_ten_thousand_changed_values_are_refused_or_read() -> None:
    random, fitting = Random(16), 0
    start = time.process_time()
    for _ in range(200):
        schema = random_schema(random)
        definition = of_rows(schema)
        body = avro_encode(schema, random_row(random, schema))
        for _ in range(50):
            other = mutated(random, body)
            if refusal(definition, other) is None:
                fitting += 1
                again = avro_decode(schema, other)
                assert refusal(definition, other) is None
                assert repr(avro_decode(schema, other)) == repr(again)
    assert 1000 < fitting < 9000, "some of each, or nothing was seen"
    assert time.process_time() - start < 60


ENUM = {"type": "enum", "name": "E", "symbols": ["a", "b"]}
DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 3}
FIXED_DECIMAL = {"type": "fixed", "name": "D", "size": 2, "logicalType": "decimal", "precision": 3}
UUID_TEXT = b"12345678-1234-5678-1234-567812345678"


@pytest.mark.parametrize(
    ("type_", "body"),
    [
        ("int", b"\x80\x80\x80\x80\x00"),
        ("int", varint((1 << 32) - 1)),
        ("long", b"\x80" * 9 + b"\x00"),
        ("long", varint((1 << 64) - 1)),
        ("string", b"\x80\x80\x00"),
        ("string", b"\x82\x80\x00a"),
        (ENUM, b"\x82\x00"),
        (["null", "int"], b"\x82\x00\x07"),
        (["null", "int"], b"\x80\x00"),
        ({"type": "array", "items": "int"}, b"\x00"),
        ({"type": "array", "items": "int"}, b"\x02\x00\x02\x00\x00"),
        ({"type": "array", "items": "int"}, b"\x03\x04\x00\x00\x00"),
        ({"type": "map", "values": "null"}, b"\x01\x04\x02a\x00"),
        ({"type": "array", "items": "double"}, b"\x01\x10" + bytes(8) + b"\x00"),
        (DECIMAL, b"\x04\x03\xe7"),
        (DECIMAL, b"\x04\xfc\x19"),
        (DECIMAL, b"\x08\x00\x00\x00\x01"),
        (FIXED_DECIMAL, b"\x03\xe7"),
        (logical("string", "uuid"), b"\x48" + UUID_TEXT.upper()),
        (logical("int", "date"), varint(2 * 2_932_896)),
        (logical("int", "date"), varint(2 * 719_162 - 1)),
        (logical("long", "timestamp-micros"), varint(2 * 253_402_300_799_999_999)),
        (logical("long", "timestamp-micros"), varint(2 * 62_135_596_800_000_000 - 1)),
        (logical("long", "local-timestamp-millis"), varint(2 * 253_402_300_799_999)),
        (logical("long", "time-micros"), varint(2 * (86_400_000_000 - 1))),
    ],
)
def test_bytes_at_the_limits_fit(type_: Any, body: bytes) -> None:
    definition = of_fields(type_, "boolean")
    assert refusal(definition, body + b"\x01") is None
    assert avro_decode(json.loads(definition.schemas[0].schema.text), body + b"\x01")["b"] is True


@pytest.mark.parametrize(
    ("type_", "body", "reason"),
    [
        ("boolean", b"\x02", "0 or 1, not 2"),
        ("int", b"\x80\x80\x80\x80\x80\x00", "at most 5 bytes"),
        ("int", varint(1 << 32), "beyond 32 bits"),
        ("long", b"\x80" * 10 + b"\x00", "at most 10 bytes"),
        ("long", varint(1 << 64), "beyond 64 bits"),
        ("string", b"\x01", "its length is -1"),
        ("string", b"\x08ab", "its length is 4, and 3 bytes follow"),
        ("string", varint(2 << 62) + b"ab", "its length is"),
        ("string", b"\x06\xed\xa0\x80", "no UTF-8"),
        ("string", b"\x04\xc0\x80", "no UTF-8"),
        ("string", b"\x02\xff", "no UTF-8"),
        ("bytes", b"\x81\x01", "its length is -65"),
        (ENUM, b"\x04", "number 2 of 2 symbols"),
        (ENUM, b"\x01", "number -1 of 2 symbols"),
        (["null", "int"], b"\x04", "number 2 of 2 types"),
        (["null", "int"], b"\x03", "number -2 of 2 types"),
        (["null", "int"], b"\x84\x00", "number 2 of 2 types"),
        ({"type": "array", "items": "int"}, varint(1 << 63), "items are in"),
        ({"type": "array", "items": "int"}, b"\x80" * 9 + b"\x01", "items are in"),
        ({"type": "array", "items": "int"}, varint((1 << 64) - 1) + b"\x02\x00\x00", "items are in"),
        ({"type": "array", "items": "int"}, b"\x03\x06\x00\x00\x00", "a block"),
        ({"type": "array", "items": "int"}, b"\x03\x02\x00\x00\x00", "items are in|a block"),
        ({"type": "array", "items": "int"}, b"\x03\x01\x00\x00\x00", "its length is -1"),
        ({"type": "array", "items": "int"}, b"\x03\x7e\x00\x00\x00", "its length is 63"),
        ({"type": "map", "values": "int"}, b"\x02\x01\x00\x00", r"\[0\]: its length is -1"),
        ({"type": "map", "values": "int"}, b"\x04\x02a\x00\x02\xff\x00\x00", r"\[1\]: it is no UTF-8"),
        (DECIMAL, b"\x00", "at least one byte"),
        (DECIMAL, b"\x04\x03\xe8", "at most 3 digits"),
        (DECIMAL, b"\x04\xfc\x18", "at most 3 digits"),
        (FIXED_DECIMAL, b"\x03\xe8", "at most 3 digits"),
        (logical("string", "uuid"), b"\x48" + UUID_TEXT[:-1] + b"g", "no uuid"),
        (logical("string", "uuid"), b"\x40" + UUID_TEXT.replace(b"-", b""), "no uuid"),
        (logical("int", "date"), varint(2 * 2_932_897), "a date is from"),
        (logical("int", "date"), varint(2 * 719_163 - 1), "a date is from"),
        (logical("int", "time-millis"), b"\x01", "a time-millis is from 0 to 86399999, not -1"),
        (logical("int", "time-millis"), varint(2 * 86_400_000), "a time-millis is from"),
        (logical("long", "timestamp-micros"), varint(2 * 253_402_300_800_000_000), "a timestamp-micros is from"),
        (logical("long", "timestamp-millis"), varint(2 * 62_135_596_800_001 - 1), "a timestamp-millis is from"),
        ({"type": "record", "name": "R", "fields": [{"name": "x", "type": ENUM}]}, b"\x06", r"\.x: it is number 3"),
    ],
)
def test_other_bytes_are_refused_by_the_field(type_: Any, body: bytes, reason: str) -> None:
    found = refusal(of_fields(type_, "boolean"), body + b"\x01")
    assert found is not None
    with pytest.raises(ValueError, match=f"^the field a.*{reason}"):
        raise ValueError(found)


def nested(levels: int) -> bytes:
    """A list of that many records."""
    return b"\x02" * (levels - 1) + b"\x00"


def test_rows_that_contain_themselves_are_at_most_64_deep() -> None:
    definition = of_rows({"type": "record", "name": "Row", "fields": [{"name": "next", "type": ["null", "Row"]}]})
    assert refusal(definition, nested(64)) is None
    for levels in (65, 1000, 1 << 20):
        found = refusal(definition, nested(levels))
        assert found is not None
        assert "nested more than 64 deep" in found
    tree = of_rows(
        {"type": "record", "name": "Row", "fields": [{"name": "n", "type": {"type": "array", "items": "Row"}}]}
    )
    assert refusal(tree, b"\x02" * 31 + b"\x00" * 32) is None
    assert refusal(tree, b"\x02" * 100_000) is not None


BIG = 1 << 19


@pytest.mark.parametrize(
    ("type_", "body"),
    [
        ("string", varint(2 * BIG) + b"a" * BIG),
        ("string", varint(2 * BIG) + b"a" * (BIG - 1) + b"\xff"),
        (DECIMAL, varint(2 * BIG) + b"\0" * BIG),
        (logical("string", "uuid"), varint(2 * BIG) + b"a" * BIG),
        ({"type": "array", "items": "boolean"}, varint(2 * BIG) + b"\0" * BIG + b"\0"),
        ({"type": "array", "items": {"type": "array", "items": "int"}}, varint(2 * BIG) + b"\0" * BIG + b"\0"),
        ({"type": "map", "values": "null"}, varint(2 * BIG) + b"\0" * BIG + b"\0"),
        (
            {
                "type": "array",
                "items": {
                    "type": "record",
                    "name": "Wide",
                    "fields": [{"name": "x", "type": "boolean"}]
                    + [{"name": f"f{number}", "type": "null"} for number in range(1000)],
                },
            },
            varint(2 * BIG) + b"\0" * BIG + b"\0",
        ),
    ],
)
def test_the_time_grows_with_the_bytes(type_: Any, body: bytes) -> None:
    definition = of_fields(type_)
    start = time.process_time()
    refusal(definition, body)
    assert time.process_time() - start < 10, "the longest takes 0.1 s"


def test_records_without_bytes_cost_nothing() -> None:
    fields = [{"name": "n", "type": "null"}]
    types: list[Any] = [{"type": "record", "name": "R0", "fields": fields}]
    for number in range(1, 60):
        twice = [{"name": name, "type": f"R{number - 1}"} for name in ("a", "b")]
        types.append({"type": "record", "name": f"R{number}", "fields": twice})
    assert refusal(of_fields(*types), b"") is None


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b"", "no row"),
        (b"\0\0\0\0", "no row"),
        (b"\1\0\0\0\7\0", "no row"),
        (b"\0\0\0\0\0\0", "no schema 0; it has 7"),
        (b"\0\0\0\0\x08\0", "no schema 8; it has 7"),
        (b"\0\xff\xff\xff\xff\0", "no schema 4294967295"),
        (b"\0\0\0\0\7", "the field a: the value ends"),
        (b"\0\0\0\0\7\0\0", "goes on 1 bytes"),
    ],
)
def test_the_framing(value: bytes, reason: str) -> None:
    judge = of_fields("boolean").judge
    assert reason in str(judge.refusal(b"k", value))
    assert not judge.fit([b"k"], [value])


def test_a_schema_without_a_number_is_none() -> None:
    definition = TableDefinition(value="row", schemas=of_fields("boolean").numbered([0]).schemas)
    assert "no schema 0; it has none" in str(definition.judge.refusal(b"k", b"\0\0\0\0\0\0"))


def test_each_value_is_read_by_its_schema() -> None:
    one, other = of_fields("boolean").schemas[0].schema, of_fields("boolean", "int").schemas[0].schema
    definition = TableDefinition(value="row", schemas=(NumberedSchema(3, one), NumberedSchema(9, other)))
    assert definition.judge.fit([b"a", b"b"], [frame(3, b"\1"), frame(9, b"\1\7")])
    assert not definition.judge.fit([b"a", b"b"], [frame(3, b"\1"), frame(9, b"\1")])


KEYED = of_rows(
    {"type": "record", "name": "Row", "fields": [{"name": "n", "type": "int"}, {"name": "t", "type": "string"}]},
    KeyField("t", "str"),
    KeyField("n", "int"),
)


def test_a_key_that_is_another_rows() -> None:
    body = b"\x02\x04UA"
    assert refusal(KEYED, body, pack_key("UA", 1)) is None
    for key, reason in (
        (pack_key("UA", 2), "the field n is 1 in the row, and another in the key"),
        (pack_key("UB", 1), "the field t is 'UA' in the row"),
        (pack_key("UA"), "the field n is 1 in the row"),
        (pack_key("UA", 1, 1), "goes on behind the field n"),
        (b"", "the field t"),
        (b"\xff", "the field t"),
    ):
        assert reason in str(refusal(KEYED, body, key))


def test_fields_that_are_longer_than_a_key() -> None:
    fits = b"\x00" + varint(2 * 507) + b"x" * 507
    assert refusal(KEYED, fits, pack_key("x" * 507, 0)) is None
    assert "the fields of the key have 512 bytes" in str(refusal(KEYED, b"\x00" + varint(2 * 509) + b"x" * 509, b"k"))
    zeros = b"\x00" + varint(2 * 300) + bytes(300)
    assert "the fields of the key have 603 bytes" in str(refusal(KEYED, zeros, b"k"))


def test_nan_is_in_no_key() -> None:
    definition = of_rows(
        {"type": "record", "name": "Row", "fields": [{"name": "x", "type": "double"}]}, KeyField("x", "float")
    )
    assert "the field x: it is NaN" in str(refusal(definition, b"\0" * 6 + b"\xf8\x7f"))
    assert refusal(definition, b"\0" * 7 + b"\x80", pack_key(0.0)) is None, "-0.0 is the key of 0.0"


@pytest.mark.parametrize(
    ("definition", "key", "value", "reason"),
    [
        (TableDefinition(), b"\xff", b"\xff", None),
        (TableDefinition(key="str"), b"\xc3\xbc", b"\xff", None),
        (TableDefinition(key="str"), b"\xff", b"x", "the key is no UTF-8"),
        (TableDefinition(value="str"), b"\xff", b"\xff", "the value is no UTF-8"),
        (TableDefinition(value="json"), b"\xff", b"\xed\xa0\x80", "the value is no UTF-8"),
        (TableDefinition(value="json"), b"\xff", b"{}", None),
        (TableDefinition(key=(KeyField("a", "str"), KeyField("b", "int", True))), pack_key("x", 1), b"", None),
        (TableDefinition(key=(KeyField("a", "str"), KeyField("b", "int", True))), pack_key("x", None), b"", None),
        (TableDefinition(key=(KeyField("a"), KeyField("b"))), pack_key(1.5, True), b"", None),
        (TableDefinition(key=(KeyField("a"), KeyField("b"))), pack_key(1.5, None), b"", "field b is a any"),
        (TableDefinition(key=(KeyField("a", "str"),)), pack_key(1), b"", "field a is a str, not int"),
        (TableDefinition(key=(KeyField("a", "int"),)), pack_key(True), b"", "field a is a int, not bool"),
        (TableDefinition(key=(KeyField("a", "float"),)), pack_key(1), b"", "field a is a float, not int"),
        (TableDefinition(key=(KeyField("a", "str"),)), pack_key("x", 1), b"", "goes on behind the field a"),
        (TableDefinition(key=(KeyField("a", "str"), KeyField("b"))), pack_key("x"), b"", "ends before its field b"),
        (TableDefinition(key=(KeyField("a", "str"),)), b"\x02x", b"", "field a: the bytes of the key"),
        (TableDefinition(key=(KeyField("a", "str"),)), b"\x02\xff\0", b"", "field a: the bytes of the key"),
    ],
)
def test_tables_without_rows(definition: TableDefinition, key: bytes, value: bytes, reason: str | None) -> None:
    found = definition.judge.refusal(key, value)
    assert found is None if reason is None else reason in str(found)
    assert definition.judge.fit([key], [value]) == (reason is None)


def test_a_text_key_of_rows() -> None:
    definition = TableDefinition(key="str", value="row", schemas=of_fields("boolean").schemas)
    assert refusal(definition, b"\1", "ü".encode()) is None
    assert "the key is no UTF-8" in str(refusal(definition, b"\1", b"\xff"))


@given(st.binary(max_size=40), st.binary(max_size=40))
@settings(deadline=None)
def test_any_bytes_are_judged(key: bytes, value: bytes) -> None:
    for definition in (KEYED, TableDefinition(key=(KeyField("a", "str"),), value="json"), TableDefinition(key="str")):
        for each in (value, frame(7, value)):
            assert definition.judge.fit([key], [each]) == (definition.judge.refusal(key, each) is None)
