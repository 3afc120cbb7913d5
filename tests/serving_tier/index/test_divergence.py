"""What a log holds at an index's applied offset, where it is put together to other batches than were folded."""

from __future__ import annotations

from pathlib import Path

import pytest
from kit.log.stored_log import StoredLog, columns_of, put

from log_tier.embedded import EmbeddedLog
from log_tier.model.batch import decode_batch, encode_batch
from log_tier.model.errors import IndexDiverged
from log_tier.model.identifiers import Offset
from serving_tier.fold.last_batch import LastBatch
from serving_tier.index.divergence import check_history


async def test_a_run_that_has_grown_since_is_the_same(tmp_path: Path) -> None:
    """Kafka's foreign records have no batches: a run that is fetched again holds later ones, and has their time."""
    records = [put(b"a", b"1"), put(b"b", b"2"), put(b"c", b"3")]
    async with await EmbeddedLog.open(tmp_path) as log:
        topic = await log.create_topic("flights", partitions=1)
        partition = topic.partition(0)
        await log.append(partition, encode_batch(columns_of(records)))
        folded = LastBatch.of(decode_batch(StoredLog().append(*records[:2])))
        assert folded[:3] == (0, 2, 1_000_000), "a time of its own"
        await check_history(log, partition, applied=Offset(1), last=folded, name="the index")
        other = LastBatch.of(decode_batch(StoredLog().append(records[0], put(b"b", b"3"))))
        with pytest.raises(IndexDiverged, match="put back"):
            await check_history(log, partition, applied=Offset(1), last=other, name="the index")
