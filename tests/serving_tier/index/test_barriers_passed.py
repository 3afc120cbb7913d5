"""An index stops at a barrier to another version, wherever the chunk ends."""

from __future__ import annotations

from pathlib import Path

import pytest
from kit.log.stored_log import PARTITION, TABLE

from log_tier.model.barrier import Barrier, barrier_batch
from log_tier.model.batch import Columns, encode_batch
from log_tier.model.batch_header import stamp_batch
from log_tier.model.errors import VersionMissing
from log_tier.model.identifiers import Offset, PartitionId
from serving_tier.index.lmdb.lmdb_index import LmdbIndex
from serving_tier.index.memory_index import MemoryIndex


def over_and_back() -> bytes:
    """A put, a barrier to version 2, a put that version 2 decides, a barrier back to version 1."""
    batches = (
        encode_batch(Columns([b"k"], [b"1"])),
        barrier_batch(Barrier(2, 7), producer_id=1, sequence=0),
        encode_batch(Columns([b"k"], [b"2"])),
        barrier_batch(Barrier(1, 9), producer_id=1, sequence=1),
    )
    return b"".join(
        stamp_batch(batch, base_offset=Offset(offset), timestamp_ms=1, unsynced=0)
        for offset, batch in enumerate(batches)
    )


@pytest.mark.parametrize("kind", ["lmdb", "memory"])
def test_a_chunk_with_a_swap_and_its_rollback_is_not_folded(kind: str, tmp_path: Path) -> None:
    """What lies between was decided by version 2, though version 1 is live again at the end."""
    index = (
        MemoryIndex()
        if kind == "memory"
        else LmdbIndex.open(tmp_path / "index", partition=PartitionId(TABLE, PARTITION))
    )
    try:
        with pytest.raises(VersionMissing, match="version 2 at offset 1") as refused:
            index.apply(over_and_back())
        assert (refused.value.fields["version"], refused.value.fields["offset"]) == (2, 1)
        assert index.applied == -1
    finally:
        index.close()
