"""The embedded log says which of its partitions have moved, before anybody else hears of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from kit.log.stored_log import columns_of, put

from log_tier.embedded import EmbeddedLog
from log_tier.model.batch import encode_batch
from log_tier.model.errors import ShuttingDown, TableNotFound
from log_tier.model.log import LocalLog

BATCH = encode_batch(columns_of([put(b"k", b"v")]))


async def test_appends_to_one_partition_and_to_many(tmp_path: Path) -> None:
    async with await EmbeddedLog.open(tmp_path) as log:
        assert isinstance(log, LocalLog)
        topic = await log.create_topic("flights", partitions=4)
        moves = log.moves.follow()
        await log.append(topic.partition(2), BATCH)
        assert moves.take() == [topic.partition(2)]
        await log.append_many([(topic.partition(number), BATCH) for number in (0, 3, 0)])
        assert sorted(moves.take()) == [topic.partition(0), topic.partition(3)]
        assert moves.take() == []


async def test_a_partition_that_is_refused_has_moved(tmp_path: Path) -> None:
    async with await EmbeddedLog.open(tmp_path) as log:
        topic = await log.create_topic("flights", partitions=1)
        other = await log.create_topic("trains", partitions=1)
        moves = log.moves.follow()
        await log.delete_topic(topic.id)
        assert moves.take() == [topic.partition(0)]
        with pytest.raises(TableNotFound):
            log.bounds_now(topic.partition(0))
    assert moves.take() == [other.partition(0)]
    with pytest.raises(ShuttingDown):
        log.bounds_now(other.partition(0))
