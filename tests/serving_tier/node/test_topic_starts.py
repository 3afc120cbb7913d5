"""Tables that begin above offset 0 of their topic, and tables that share a topic."""

from __future__ import annotations

import pytest
from kit.cluster.hosted_node import ZERO, append

from log_tier.catalog.catalog import Catalog
from log_tier.catalog.commands import (
    CreateTable,
    DropTable,
    command_batch,
)
from log_tier.embedded import EmbeddedLog
from log_tier.model.errors import (
    NotHosted,
    OffsetTrimmed,
)
from log_tier.model.identifiers import Offset
from log_tier.model.log import Topic
from serving_tier.index.lmdb.lmdb_index import LmdbIndex
from serving_tier.node.hosting import Hosting
from serving_tier.node.node import Node


async def trimmed(log: EmbeddedLog, topic: Topic, before: int) -> Offset:
    earliest = await log.trim(topic.partition(ZERO), Offset(before))
    assert earliest > 0
    return earliest


async def hosted(hosting: Hosting, catalog: Catalog, topic: Topic) -> LmdbIndex:
    await hosting.wait_version(catalog.map.version)
    await hosting.wait_hosted(topic.id)
    replica = hosting.node.replica(topic.partition(ZERO))
    await replica.wait_ready()
    return replica.index


def over(topic: Topic, start: Offset) -> CreateTable:
    return CreateTable(topic.id, "flights", 1, 2, adopted=True, over="flights", starts=(start,))


async def test_a_table_that_begins_above_0(hosting: Hosting, log: EmbeddedLog, catalog: Catalog, node: Node) -> None:
    topic = await log.create_topic("flights", partitions=1)
    last = await append(log, topic, ZERO, 200)
    start = await trimmed(log, topic, 120)
    await catalog.submit(over(topic, start))
    index = await hosted(hosting, catalog, topic)
    assert (index.applied, index.count()) == (last, 200 - start)
    # What its topic loses later is in the index; a new index cannot be made of the log alone.
    later = await trimmed(log, topic, 190)
    assert later > start
    await node.unhost(topic.partition(ZERO), NotHosted("begun anew"))
    refused = f"has applied {start - 1}, the log begins at {later}"
    with pytest.raises(OffsetTrimmed, match=refused) as caught:
        await node.host(topic, topic.partition(ZERO), start=start)
    assert caught.value.fields == {"partition": 0, "asked": start, "earliest": later}


async def test_another_table_over_the_same_topic(hosting: Hosting, log: EmbeddedLog, catalog: Catalog) -> None:
    """Dropped and made again before the node looks: the id is the same, and the beginning is another."""
    topic = await log.create_topic("flights", partitions=1)
    await append(log, topic, ZERO, 200)
    first = await trimmed(log, topic, 50)
    await catalog.submit(over(topic, first))
    assert (await hosted(hosting, catalog, topic)).count() == 200 - first
    second = await trimmed(log, topic, 150)
    assert second > first
    both = [command_batch(DropTable(topic.id), "drop"), command_batch(over(topic, second), "make")]
    await log.append_many([(catalog.topic.partition(ZERO), batch) for batch in both])
    await catalog.wait_for(lambda cluster: topic.id in cluster.tables and cluster.tables[topic.id].starts == (second,))
    index = await hosted(hosting, catalog, topic)
    assert index.count() == 200 - second
    assert index.get_value(b"key%d" % (second - 1)) is None
    assert index.get_value(b"key%d" % second) is not None


async def test_an_index_that_was_left_of_an_earlier_table(
    hosting: Hosting, log: EmbeddedLog, catalog: Catalog, node: Node
) -> None:
    """The node was away while the table was dropped and made again."""
    topic = await log.create_topic("flights", partitions=1)
    await append(log, topic, ZERO, 200)
    folder = node.replica_folder(topic.partition(ZERO))
    folder.parent.mkdir()
    LmdbIndex.open(folder, partition=topic.partition(ZERO)).close()
    start = await trimmed(log, topic, 120)
    await catalog.submit(over(topic, start))
    index = await hosted(hosting, catalog, topic)
    assert index.count() == 200 - start
