"""Slots are Redis Cluster's, and partitions are ranges of them."""

from __future__ import annotations

import json
from binascii import crc_hqx
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from log_tier.partitioner import SLOTS, partition_of, slot_of, slots_of_partition

VECTORS = json.loads((Path(__file__).parent / "vectors" / "slots.json").read_text())["vectors"]

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
