"""How much is in a row, and how deep: what is inside arrays, maps and nested records is counted."""

from __future__ import annotations

import time
from typing import Any

import pytest
from kit.rows.judged_rows import logical, of_fields, of_rows, refusal, varint

from log_tier.rows.avro.sure_room import surely_roomy_bytes
from log_tier.rows.definition import TableDefinition


def array_of(items: Any) -> dict[str, Any]:
    return {"type": "array", "items": items}


def nesting(levels: int) -> Any:
    """A record in a record in a record …, around a boolean."""
    found: Any = "boolean"
    for level in range(levels):
        found = {"type": "record", "name": f"L{level}", "fields": [{"name": "x", "type": found}]}
    return found


PAIR = {
    "type": "record",
    "name": "Pair",
    "fields": [{"name": "x", "type": "boolean"}, {"name": "y", "type": "int"}, {"name": "none", "type": "null"}],
}
PART = 1 << 16
LONG_INDEX = b"\x82\x80\x80\x80\0"  # of a union's second type, in as many bytes as it may have


@pytest.mark.parametrize(
    ("type_", "one", "count", "around"),
    [
        ("boolean", b"\1", PART - 1, b""),
        ({"type": "string", "logicalType": "uuid"}, b"\x48" + b"12345678-1234-1234-1234-123456789012", PART - 1, b""),
        (["null", "long"], b"\2\2", PART - 1, b""),
        (["null", logical("long", "timestamp-micros")], LONG_INDEX + b"\xfe" * 7 + b"\x80\x80\0", PART - 1, b""),
        (PAIR, b"\1\2", (PART - 1) // 3, b""),
        (array_of("int"), b"\2\2\0", (PART - 1) // 3, b""),
        (array_of("double"), b"\2" + bytes(8) + b"\0", (PART - 1) // 2, b""),
        ({"type": "map", "values": "null"}, b"\2\2k\0", (PART - 1) // 3, b""),
        (nesting(29), b"\1", (PART - 1) // 30, b""),
        ("boolean", b"\2\1", PART // 2, b"blocks of one"),
        ("boolean", b"\1\2\1", PART // 2, b"blocks of one, with sizes"),
        ("double", b"\2" + bytes(8), PART, b"blocks of one"),
    ],
)
def test_a_row_has_so_many_values_inside(type_: Any, one: bytes, count: int, around: bytes) -> None:
    definition = of_fields(array_of(type_))

    def body(items: int) -> bytes:
        return (b"" if around else varint(2 * items)) + one * items + b"\0"

    start = time.process_time()
    assert refusal(definition, body(count)) is None
    assert time.process_time() - start < 10, "some 0.2 s, as it is read twice"
    for more in (count + 1, 4_000_000 // len(one)):
        start = time.process_time()
        found = refusal(definition, body(more))
        assert time.process_time() - start < 10, "as long as it takes to find out"
        assert found is not None
        assert found.startswith("the field a")
        assert "more than 65536 values" in found


def test_the_values_of_all_fields_count_together() -> None:
    definition = of_fields(array_of("boolean"), array_of("int"), PAIR)
    half = (PART - 2 - 2) // 2
    body = varint(2 * half) + b"\1" * half + b"\0" + varint(2 * half) + b"\2" * half + b"\0" + b"\1\2"
    assert refusal(definition, body) is None
    more = varint(2 * half + 2) + b"\1" * (half + 1) + body[len(varint(2 * half)) + half :]
    assert refusal(definition, more) == (
        "the field f2: the row has more than 65536 values in arrays, maps and nested records, which is its limit"
    )
    for _ in range(3):
        assert refusal(definition, body) is None, "what a row has used up is not taken from the next one"


def test_trees_without_arrays_count_too() -> None:
    fields = [{"name": name, "type": ["null", "Row"]} for name in ("left", "right")]
    definition = of_rows({"type": "record", "name": "Row", "fields": fields})

    def tree(levels: int) -> bytes:
        inner = b"\0\0"
        for _ in range(levels - 1):
            inner = b"\2" + inner + b"\2" + inner
        return inner

    assert refusal(definition, tree(15)) is None
    assert "more than 65536 values" in (refusal(definition, tree(18)) or "")


def test_text_bytes_and_numbers_of_a_fixed_size_count_by_their_size_alone() -> None:
    double, fixed = array_of("double"), array_of({"type": "fixed", "name": "F", "size": 3})
    size = (4 << 20) - 100
    for type_, body in (
        ("string", varint(2 * size) + b"a" * size),
        (array_of("bytes"), b"\2" + varint(2 * size) + b"a" * size + b"\0"),
        (double, varint(2 * (size // 8)) + bytes(size // 8 * 8) + b"\0"),
        (fixed, varint(2 * (size // 3)) + bytes(size // 3 * 3) + b"\0"),
    ):
        assert refusal(of_fields(type_), body) is None


def sure_bytes(definition: TableDefinition) -> int:
    schema = definition.schemas[0].schema
    return surely_roomy_bytes(schema.name, schema.named)


def test_rows_of_so_few_bytes_need_no_counting() -> None:
    assert sure_bytes(of_fields("long", "string", ["null", "int"])) == 4 << 20
    assert sure_bytes(of_fields(PAIR, "Pair")) == 1024
    deep = of_fields(array_of(nesting(29)))
    count = sure_bytes(deep) - 3
    assert count == 1021
    assert refusal(deep, varint(2 * count) + b"\1" * count + b"\0") is None
    assert sure_bytes(of_rows({"type": "record", "name": "R", "fields": [{"name": "n", "type": ["null", "R"]}]})) == 0
    # By names, types are deeper than they are written.
    named = [{"type": "record", "name": "R0", "fields": [{"name": "x", "type": "boolean"}]}]
    for number in range(1, 64):
        inner = [{"name": "x", "type": f"R{number - 1}"}]
        named.append({"type": "record", "name": f"R{number}", "fields": inner})
    assert refusal(of_fields(*named[:63]), b"\1" * 63) is None
    assert sure_bytes(of_fields(*named[:63])) == 1024
    assert "nested more than 64 deep" in (refusal(of_fields(*named), b"\1" * 64) or "")
    assert sure_bytes(of_fields(*named)) == 0
