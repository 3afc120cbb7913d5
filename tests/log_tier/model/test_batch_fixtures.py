"""Frozen batches of every format version: what was written once must be readable for ever, and written the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from log_tier.model.batch import Batch, decode_batch, encode_batch
from log_tier.model.batch_header import COMPRESSION_MASK, NOWHERE, Place, place_of, stamp_batch
from log_tier.model.errors import BatchRefused, UnknownFormat
from log_tier.model.identifiers import Partition, PartitionId, TableId

FIXTURES = Path(__file__).parent / "fixtures"
TABLE = TableId("AAECAwQFBgcICQoLDA0ODw")
PLACE = place_of(PartitionId(TABLE, Partition(3)))

VERSIONS = pytest.mark.parametrize("version", [1, 2])


def fixture(name: str, version: int = 2) -> bytes:
    return bytes.fromhex((FIXTURES / f"batch_v{version}_{name}.hex").read_text())


@pytest.mark.parametrize("name", ["plain", "rich", "zstd", "compacted", "shell"])
def test_version_1_says_the_same_as_version_2(name: str) -> None:
    old, new = decode_batch(fixture(name, 1), PLACE), decode_batch(fixture(name), PLACE)
    assert old.columns == new.columns
    changed = {"version", "checksum", "stamp_checksum"}
    assert {key: value for key, value in old.header._asdict().items() if key not in changed} == {
        key: value for key, value in new.header._asdict().items() if key not in changed
    }


def test_a_batch_of_version_1_is_stored_as_one_of_version_2() -> None:
    """An older client's batch gets the stronger stamp too."""
    old, header = fixture("plain", 1), decode_batch(fixture("plain", 1)).header
    stored = stamp_batch(
        old, base_offset=header.base_offset, timestamp_ms=header.timestamp_ms, unsynced=header.unsynced, place=PLACE
    )
    assert stored == fixture("plain")


@pytest.mark.parametrize(
    "other",
    [place_of(PartitionId(TABLE, Partition(2))), place_of(PartitionId(TableId("A" * 22), Partition(3))), NOWHERE],
)
def test_the_stamp_proves_table_and_partition(other: Place) -> None:
    with pytest.raises(BatchRefused, match="another partition's"):
        decode_batch(fixture("plain"), other)
    assert decode_batch(fixture("plain", 1), other), "version 1 did not"


@pytest.mark.parametrize("at", range(96))
def test_every_flipped_bit_is_noticed(at: int) -> None:
    for bit in range(8):
        data = bytearray(fixture("plain"))
        data[at] ^= 1 << bit
        with pytest.raises((BatchRefused, UnknownFormat)):
            decode_batch(bytes(data), PLACE)


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
        encoded, base_offset=header.base_offset, timestamp_ms=header.timestamp_ms, unsynced=header.unsynced, place=PLACE
    )


@VERSIONS
def test_plain(version: int) -> None:
    batch = decode_batch(fixture("plain", version), PLACE)
    header = batch.header
    assert (header.base_offset, header.timestamp_ms, header.unsynced) == (42, 1_700_000_000_000, 3)
    assert (header.producer_id, header.sequence, header.records, header.span) == (7, 40, 2, 2)
    assert header.is_plain
    assert list(batch.columns.keys) == [b"UA1545", b"gate"]
    assert list(batch.columns.values) == [b"departed", b"B7"]
    assert batch.columns.attributes is None
    assert again(batch) == fixture("plain")


@VERSIONS
def test_attributes_versions_and_expiries(version: int) -> None:
    batch = decode_batch(fixture("rich", version), PLACE)
    columns = batch.columns
    assert list(columns.keys) == [b"UA1545", b"seats", b"{ua}a", b"{ua}b"]
    assert list(columns.values) == [b"landed", b"-1", b"", b"\x00\xff"]
    assert columns.attributes == (0x0301, 0x0003, 0x0202, 0x1401)
    assert columns.versions == (42, 0, 0, 0)
    assert columns.expiries == (0, 0, 0, 3_600_000)
    assert columns.deltas is None
    assert list(batch.offsets()) == [44, 45, 46, 47]
    assert again(batch) == fixture("rich")


@VERSIONS
def test_compressed(version: int) -> None:
    batch = decode_batch(fixture("zstd", version), PLACE)
    assert batch.header.flags == 1
    assert (batch.header.producer_id, batch.header.sequence) == (2**64 - 1, 2**63)
    assert list(batch.columns.keys) == [b"k%03d" % n for n in range(50)]
    assert list(batch.columns.values) == [b"the same value the same value the same value the same value "] * 50
    # What a compressor makes of the same bytes may change with its version: the columns may not.
    assert decode_batch(again(batch)).columns == batch.columns


@VERSIONS
def test_compacted(version: int) -> None:
    batch = decode_batch(fixture("compacted", version), PLACE)
    assert (batch.header.records, batch.header.span, batch.header.last_offset) == (2, 5, 102)
    assert batch.columns.deltas == (0, 3)
    assert dict(zip(batch.offsets(), batch.columns.keys, strict=True)) == {98: b"a", 101: b"d"}
    assert again(batch) == fixture("compacted")


@VERSIONS
def test_empty_shell(version: int) -> None:
    batch = decode_batch(fixture("shell", version), PLACE)
    assert (batch.header.records, batch.header.span, batch.header.base_offset) == (0, 3, 103)
    assert (batch.header.producer_id, batch.header.sequence) == (8, 100)
    assert list(batch.offsets()) == []
    assert again(batch) == fixture("shell")
