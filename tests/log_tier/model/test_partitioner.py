"""Slots are Redis Cluster's, and partitions are ranges of them; murmur2 is what Kafka's Java client says."""

from __future__ import annotations

import json
from binascii import crc_hqx
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kit.partitioners import PARTITIONERS

from log_tier.model.errors import InvalidRequest
from log_tier.model.identifiers import TableId
from log_tier.model.leading_elements import leading_elements
from log_tier.model.partitioner import (
    SLOTS,
    Partitioner,
    check_partitioner,
    murmur2,
    partition_function,
    partition_of,
    partition_of_prefix,
    partition_of_range,
    slot_of,
    slots_of_partition,
)
from log_tier.model.table_ref import TableRef
from log_tier.rows.tuple_key import key_range, pack_key

VECTORS = json.loads((Path(__file__).parent / "vectors" / "slots.json").read_text())["vectors"]
FIELDS = json.loads((Path(__file__).parent / "vectors" / "fields.json").read_text())["vectors"]
MURMUR2 = json.loads((Path(__file__).parent / "vectors" / "murmur2.json").read_text())["vectors"]

# From the specification of Redis Cluster, and from what `CLUSTER KEYSLOT` answers.
PUBLISHED = [(b"123456789", 12739), (b"foo", 12182), (b"bar", 5061), (b"hello", 866), (b"", 0)]


@pytest.mark.parametrize(("key", "slot"), PUBLISHED)
def test_published_slots(key: bytes, slot: int) -> None:
    assert slot_of(key) == slot


@pytest.mark.parametrize("vector", VECTORS, ids=[vector["key_hex"][:24] for vector in VECTORS])
def test_the_shared_vectors_hold(vector: dict[str, int | str]) -> None:
    key = bytes.fromhex(str(vector["key_hex"]))
    assert slot_of(key) == vector["slot"]
    for partitions in (1, 3, 8, 1024):
        assert partition_of(key, partitions) == vector[f"partition_of_{partitions}"]


@pytest.mark.parametrize(
    ("key", "hashed"),
    [
        (b"{user1000}.following", b"user1000"),
        (b"a{b}c{d}", b"b"),
        (b"foo{{bar}}zap", b"{bar"),
        (b"foo{bar}{zap}", b"bar"),
        (b"}{x}", b"x"),
    ],
)
def test_only_the_tag_counts(key: bytes, hashed: bytes) -> None:
    assert slot_of(key) == slot_of(hashed)


@pytest.mark.parametrize("key", [b"foo{}{bar}", b"{}x", b"{x", b"x}", b"}x{"])
def test_without_a_tag_the_whole_key_counts(key: bytes) -> None:
    assert slot_of(key) == crc_hqx(key, 0) % SLOTS


@given(st.integers(1, 1024))
def test_the_ranges_of_all_partitions_tile_the_slots(partitions: int) -> None:
    slots = [slot for number in range(partitions) for slot in slots_of_partition(number, partitions)]  # type: ignore[arg-type]
    assert slots == list(range(SLOTS))


@given(st.binary(min_size=1, max_size=60), st.integers(1, 1024))
def test_a_key_lies_in_the_range_of_its_partition(key: bytes, partitions: int) -> None:
    assert slot_of(key) in slots_of_partition(partition_of(key, partitions), partitions)


def test_the_vectors_of_murmur2_cover_every_tail() -> None:
    lengths = {len(vector["key_hex"]) // 2 for vector in MURMUR2}
    assert set(range(41)) <= lengths
    assert max(lengths) == 1024
    assert len(MURMUR2) >= 180
    assert any(vector["murmur2"] < 0 for vector in MURMUR2)


@pytest.mark.parametrize("vector", MURMUR2, ids=[vector["key_hex"][:24] for vector in MURMUR2])
def test_what_the_java_client_says(vector: dict[str, int | str]) -> None:
    key = bytes.fromhex(str(vector["key_hex"]))
    hashed = murmur2(key)
    assert hashed == int(vector["murmur2"]) & 0xFFFFFFFF
    assert hashed & 0x7FFFFFFF == vector["positive"]
    for partitions in (1, 3, 8, 1024):
        assert partition_of(key, partitions, "murmur2") == vector[f"partition_of_{partitions}"]


@given(st.binary(max_size=1200), st.integers(1, 1024), st.sampled_from(PARTITIONERS))
def test_every_key_has_a_partition_that_there_is(key: bytes, partitions: int, partitioner: Partitioner) -> None:
    partition = partition_of(key, partitions, partitioner)
    assert 0 <= partition < partitions
    assert partition_function(partitions, partitioner)(key) == partition
    assert TableRef(TableId("t"), "t", partitions, partitioner).partition_of(key) == partition


@given(st.text(alphabet="{}ab", max_size=12), st.integers(1, 1024))
def test_tags_are_found_by_either_function(text: str, partitions: int) -> None:
    assert partition_function(partitions)(text.encode()) == partition_of(text.encode(), partitions)


def test_murmur2_knows_no_tags() -> None:
    keys = [b"{user7}.%d" % number for number in range(100)]
    assert {partition_of(key, 8) for key in keys} == {partition_of(b"user7", 8)}
    assert len({partition_of(key, 8, "murmur2") for key in keys}) == 8


def test_partitioners_by_name() -> None:
    for name in ("slot", "murmur2", "fields:1", "fields:32"):
        assert check_partitioner(name) == name
    for name in ("crc32", "fields", "fields:", "fields:0", "fields:33", "fields:01", "fields:two", "fields:1 ", ""):
        with pytest.raises(InvalidRequest, match=f"slot, murmur2, or fields:N with N from 1 to 32, not '{name}'"):
            check_partitioner(name)


@pytest.mark.parametrize("vector", FIELDS, ids=[vector["key_hex"][:32] for vector in FIELDS])
def test_keys_of_fields_are_placed_by_the_first_ones(vector: dict[str, int | str]) -> None:
    key = bytes.fromhex(str(vector["key_hex"]))
    for count in (1, 2):
        for partitions in (1, 3, 8, 1024):
            assert partition_of(key, partitions, f"fields:{count}") == vector[f"partition_of_{partitions}_by_{count}"]


def test_keys_that_begin_alike_lie_together() -> None:
    keys = [pack_key("UA", number, "x" * (number % 5)) for number in range(200)]
    assert len({partition_of(key, 8, "fields:1") for key in keys}) == 1
    assert len({partition_of(key, 8, "fields:2") for key in keys}) == 8


def test_tags_mean_nothing_in_keys_of_fields() -> None:
    assert partition_of(pack_key("{a}1"), 1024, "fields:1") != partition_of(pack_key("{a}2"), 1024, "fields:1")


@given(st.binary(max_size=600), st.integers(1, 32))
def test_the_leading_elements_of_anything_begin_it(key: bytes, count: int) -> None:
    leading = leading_elements(key, count)
    assert key.startswith(leading)
    assert leading == key or leading_elements(leading + b"\x14", count) == leading


def test_a_range_of_keys_that_begin_alike_is_in_one_partition() -> None:
    whole, some = key_range("UA"), key_range("UA", start=1500, end=1600)
    for found in (whole, some, key_range("UA", start=7), key_range("UA", end=7), key_range("UA", 7, b"x")):
        assert partition_of_range(*found, 8, "fields:1") == partition_of(pack_key("UA"), 8)
    assert partition_of_range(*key_range("UA", 7), 8, "fields:2") == partition_of(pack_key("UA", 7), 8)
    for bounds in (whole, some, key_range(), key_range(start="UA", end="UB"), key_range(start="UA", end="UA\0x")):
        assert partition_of_range(*bounds, 8, "fields:2") is None
    for bounds in (key_range(), key_range(start="UA"), key_range(start="UA", end="UB")):
        assert partition_of_range(*bounds, 8, "fields:1") is None
    assert partition_of_range(pack_key("UA"), None, 8, "fields:1") is None
    for other in ("slot", "murmur2"):
        assert partition_of_range(*whole, 8, other) is None


def test_the_partition_of_a_prefix() -> None:
    assert partition_of_prefix(pack_key("UA", 7), 8, "fields:1") == partition_of(pack_key("UA"), 8)
    assert partition_of_prefix(pack_key("UA"), 8, "fields:1") == partition_of(pack_key("UA"), 8)
    assert partition_of_prefix(pack_key("UA"), 8, "fields:2") is None
    assert partition_of_prefix(b"", 8, "fields:1") is None
    assert partition_of_prefix(pack_key("UA"), 8) is None


ELEMENTS = st.sampled_from([None, b"", b"\0", b"a", "", "a", "a\0", "b", 0, 1, -1, 256, 1 << 70, -(1 << 70), 0.5, True])
KEYS = st.one_of(
    st.lists(ELEMENTS, min_size=1, max_size=4).map(lambda fields: pack_key(*fields)),
    st.binary(max_size=6),
    st.lists(st.sampled_from([b"\0", b"\1", b"\2", b"\xff", b"\x14", b"\x15", b"a"]), max_size=8).map(b"".join),
)


@given(KEYS, KEYS, st.booleans(), KEYS, st.integers(1, 3))
def test_no_key_of_such_a_range_is_elsewhere(start: bytes, end: bytes, goes_on: bool, tail: bytes, count: int) -> None:
    partitioner = f"fields:{count}"
    end = start + end if goes_on else end
    only = partition_of_range(start, end, 1024, partitioner)
    if only is None:
        return
    for key in (start, start + tail, start[: len(tail)] + tail, end[:-1], end[:-1] + tail, tail):
        if start <= key < end:
            assert partition_of(key, 1024, partitioner) == only


def test_a_table_is_equal_by_what_it_is() -> None:
    one = TableRef(TableId("t"), "t", 8, "murmur2", "topic")
    assert one == TableRef(TableId("t"), "t", 8, "murmur2", "topic")
    assert one != TableRef(TableId("t"), "t", 8, "slot", "topic")
    assert hash(one) == hash(TableRef(TableId("t"), "t", 8, "murmur2", "topic"))
    assert "function" not in repr(one)
