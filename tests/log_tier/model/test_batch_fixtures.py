"""Frozen batches of every format version: what was written once must be readable for ever, and written the same."""

from __future__ import annotations

from pathlib import Path

from log_tier.model.batch import Batch, decode_batch, encode_batch
from log_tier.model.batch_header import COMPRESSION_MASK, stamp_batch

FIXTURES = Path(__file__).parent / "fixtures"


def fixture(name: str) -> bytes:
    return bytes.fromhex((FIXTURES / f"batch_v1_{name}.hex").read_text())


def again(batch: Batch) -> bytes:
    """The same batch, encoded and stamped anew."""
    header = batch.header
    encoded = encode_batch(
        batch.columns,
        producer_id=header.producer_id,
        sequence=header.sequence,
        span=header.span,
        compress=bool(header.flags & COMPRESSION_MASK),
    )
    return stamp_batch(
        encoded, base_offset=header.base_offset, timestamp_ms=header.timestamp_ms, unsynced=header.unsynced
    )


def test_plain() -> None:
    batch = decode_batch(fixture("plain"))
    header = batch.header
    assert (header.base_offset, header.timestamp_ms, header.unsynced) == (42, 1_700_000_000_000, 3)
    assert (header.producer_id, header.sequence, header.records, header.span) == (7, 40, 2, 2)
    assert header.is_plain
    assert list(batch.columns.keys) == [b"UA1545", b"gate"]
    assert list(batch.columns.values) == [b"departed", b"B7"]
    assert batch.columns.attributes is None
    assert again(batch) == fixture("plain")


def test_attributes_versions_and_expiries() -> None:
    batch = decode_batch(fixture("rich"))
    columns = batch.columns
    assert list(columns.keys) == [b"UA1545", b"seats", b"{ua}a", b"{ua}b"]
    assert list(columns.values) == [b"landed", b"-1", b"", b"\x00\xff"]
    assert columns.attributes == (0x0301, 0x0003, 0x0202, 0x1401)
    assert columns.versions == (42, 0, 0, 0)
    assert columns.expiries == (0, 0, 0, 3_600_000)
    assert columns.deltas is None
    assert list(batch.offsets()) == [44, 45, 46, 47]
    assert again(batch) == fixture("rich")


def test_compressed() -> None:
    batch = decode_batch(fixture("zstd"))
    assert batch.header.flags == 1
    assert (batch.header.producer_id, batch.header.sequence) == (2**64 - 1, 2**63)
    assert list(batch.columns.keys) == [b"k%03d" % n for n in range(50)]
    assert list(batch.columns.values) == [b"the same value the same value the same value the same value "] * 50
    # What a compressor makes of the same bytes may change with its version: the columns may not.
    assert decode_batch(again(batch)).columns == batch.columns


def test_compacted() -> None:
    batch = decode_batch(fixture("compacted"))
    assert (batch.header.records, batch.header.span, batch.header.last_offset) == (2, 5, 102)
    assert batch.columns.deltas == (0, 3)
    assert dict(zip(batch.offsets(), batch.columns.keys, strict=True)) == {98: b"a", 101: b"d"}
    assert again(batch) == fixture("compacted")


def test_empty_shell() -> None:
    batch = decode_batch(fixture("shell"))
    assert (batch.header.records, batch.header.span, batch.header.base_offset) == (0, 3, 103)
    assert (batch.header.producer_id, batch.header.sequence) == (8, 100)
    assert list(batch.offsets()) == []
    assert again(batch) == fixture("shell")
