"""Fields are counted as the parser would find them, and no further than the limit."""

from __future__ import annotations

from typing import Any, Final

import pytest

from log_tier.rpc.messages.message_fields import count_fields
from router.proto import keyvalue_pb2 as kv

MANY: Final = 100_000


def counted(message: Any, most: int = MANY) -> int:
    return count_fields(message.SerializeToString(), message.DESCRIPTOR, most)


def test_fields_of_inner_messages_count() -> None:
    part = kv.ReadPart(table_id=b"t", partition=3, keys=[b"a", b"b"], after=7)
    assert counted(part) == 5
    assert counted(kv.ReadRequest(parts=[part] * 10, patience_ms=1)) == 1 + 10 * 6


def test_packed_numbers_count_by_their_bytes() -> None:
    assert counted(kv.ScanRequest(partitions=range(100))) == 101


def test_entries_of_a_map_count() -> None:
    problem = kv.ReadResult().problem
    problem.numbers["offset"] = 3
    assert counted(problem) == 3  # the entry, its key, its value


def test_long_text_is_one_field() -> None:
    assert counted(kv.WritePart(batch=b"\x0a\x00" * 1000)) == 1


@pytest.mark.parametrize(
    "raw", [b"\x0a\x00" * 5000, b"\x0a\x90\x4e" + b"\x22\x00" * 5000, b"\xfa\x07\x00" * 5000, b"\x0b\x0c" * 5000]
)
def test_a_count_ends_at_its_limit(raw: bytes) -> None:
    assert 100 < count_fields(raw, kv.ReadRequest.DESCRIPTOR, 100) <= 102


@pytest.mark.parametrize("raw", [b"\x0a", b"\x0a\x05\x00", b"\x80", b"\xff" * 100, b"\x0d\x00"])
def test_what_does_not_parse_is_counted_so_far(raw: bytes) -> None:
    assert count_fields(raw, kv.ReadRequest.DESCRIPTOR, MANY) <= len(raw)
