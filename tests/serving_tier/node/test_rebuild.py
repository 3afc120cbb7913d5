"""A replica that is built a second time while the first one serves."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from kit.cluster.hosted_node import DEADLINE_S, ZERO, Sources, append, make_table
from kit.deadlines import until, within

from log_tier.catalog.catalog import Catalog
from log_tier.embedded import EmbeddedLog
from log_tier.model.barrier import Barrier, barrier_batch
from log_tier.model.errors import (
    InvalidRequest,
    OffsetTrimmed,
)
from log_tier.model.identifiers import PartitionId, TableId
from log_tier.model.log import Bounds
from serving_tier.index.lmdb.lmdb_index import LmdbIndex
from serving_tier.node.hosting import Hosting


async def test_a_rebuild_is_put_in_place_when_it_is_level(
    hosting: Hosting, log: EmbeddedLog, catalog: Catalog, sources: Sources
) -> None:
    topic = await make_table(log, catalog, partitions=1, replicas=2)
    name = PartitionId(topic.id, ZERO)
    await hosting.wait_version(catalog.map.version)
    await hosting.wait_ready(name, lambda *_: None)
    last = await append(log, topic, ZERO, 5)
    before = hosting.node.replica(name)
    digest_at = before.wait_applied(last, timeout=DEADLINE_S)
    await digest_at
    digest = before.index.digest()
    sources.gate.clear()
    rebuilding = asyncio.create_task(hosting.rebuild(name, source="log", progress=lambda *_: None))
    await until(lambda: sources.asked[-1:] == [("flights", 0, "log")])
    assert hosting.node.replica(name) is before, "the old one is read meanwhile"
    sources.gate.set()
    async with within(DEADLINE_S):
        assert await rebuilding == "log"
        await hosting.wait_ready(name, lambda *_: None)
    after = hosting.node.replica(name)
    assert after is not before
    assert after.index.digest() == digest
    assert sorted(path.name for path in (hosting.node.folder / topic.id).iterdir()) == ["0"]


async def test_a_rebuild_waits_for_the_replica_that_is_being_opened(
    hosting: Hosting, log: EmbeddedLog, catalog: Catalog, sources: Sources, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else both would host it: the replica was looked at before the rebuild took its lock."""
    opening, inner = asyncio.Event(), hosting.node.bounds_of
    fetched: list[int] = []

    async def bounds_of(tables: Sequence[TableId]) -> dict[TableId, list[Bounds]]:
        opening.set()
        for _ in range(200):  # the rebuild has time to begin
            await asyncio.to_thread(bool)
        fetched.append(len(sources.asked))
        return await inner(tables)

    monkeypatch.setattr(hosting.node, "bounds_of", bounds_of)
    topic = await make_table(log, catalog, partitions=1, replicas=2)
    name = PartitionId(topic.id, ZERO)
    async with within(DEADLINE_S):
        await opening.wait()
        await until(lambda: name[0] in catalog.map.tables)
        assert await hosting.rebuild(name, source="log", progress=lambda *_: None) == "log"
        await hosting.wait_ready(name, lambda *_: None)
    assert fetched[:1] == [0], "the rebuild had begun before the replica was open"


async def test_a_rebuild_that_fails_leaves_the_old_one(
    hosting: Hosting, log: EmbeddedLog, catalog: Catalog, sources: Sources
) -> None:
    topic = await make_table(log, catalog, partitions=1, replicas=2)
    name = PartitionId(topic.id, ZERO)
    await hosting.wait_version(catalog.map.version)
    await hosting.wait_ready(name, lambda *_: None)
    before = hosting.node.replica(name)
    sources.errors = [OffsetTrimmed("the log begins later")]
    with pytest.raises(OffsetTrimmed):
        await hosting.rebuild(name, source="log", progress=lambda *_: None)
    assert hosting.node.replica(name) is before
    assert before.state == "ready"


async def test_a_rebuild_of_what_is_older_than_the_version(
    hosting: Hosting, log: EmbeddedLog, catalog: Catalog, sources: Sources
) -> None:
    """Versions are not brought to what is built aside: a peer is asked, or it is said what to do."""
    topic = await make_table(log, catalog, partitions=1, replicas=2)
    name = PartitionId(topic.id, ZERO)
    await hosting.wait_version(catalog.map.version)
    await hosting.wait_ready(name, lambda *_: None)
    last = await append(log, topic, ZERO, 5)
    before = hosting.node.replica(name)
    await before.wait_applied(last, timeout=DEADLINE_S)
    LmdbIndex.open(before.versions.folder.version(2), partition=topic.partition(ZERO)).close()  # folds all of the log
    await before.versions.add(2)
    barrier = barrier_batch(Barrier(2, 1), producer_id=7, sequence=0)
    swapped = (await log.append(topic.partition(ZERO), barrier)).base_offset
    await before.wait_applied(swapped, timeout=DEADLINE_S)
    with pytest.raises(InvalidRequest, match=f"up to offset {last} only, where version 2 went live"):
        async with within(DEADLINE_S):
            await hosting.rebuild(name, source="log", progress=lambda *_: None)
    assert hosting.node.replica(name) is before
    assert before.state == "ready"
    sources.asked.clear()
    with pytest.raises(InvalidRequest, match="restore it from a peer"):
        async with within(DEADLINE_S):
            await hosting.rebuild(name, source="auto", progress=lambda *_: None)
    assert [source for _, _, source in sources.asked] == ["auto", "peer"]
