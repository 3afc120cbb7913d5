"""Batches that travel and are stored compressed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from duramen.client.database import Database
from duramen.server.roles.all_in_one import SingleServer as Server
from log_tier.model.batch_header import COMPRESSION_MASK, ZSTD, read_header, split_batches
from log_tier.model.identifiers import Offset

Connected = Callable[..., Awaitable[Database]]


async def flags_in_log(machine: Server, table_id: str) -> list[int]:
    log = machine.data_plane.log
    (topic,) = [topic for topic in await log.topics() if topic.id == table_id]
    chunks = log.read(topic.partition(0), Offset(0), follow=False)
    return [
        read_header(batch).flags & COMPRESSION_MASK async for chunk in chunks for batch in split_batches(chunk.data)
    ]


@pytest.mark.embedded_log_only
async def test_what_shrinks_is_stored_compressed_and_reads_back(machine: Server, connected: Connected) -> None:
    database = await connected(compress=True)
    table = await database.create_table("flights", partitions=1)
    done = await table.put_many((b"key%03d" % number, b"the same words again " * 9) for number in range(100))
    await table.put(b"short", b"\x01\x8f")
    assert await flags_in_log(machine, done.table_id) == [ZSTD, 0]
    other = await connected()
    found = await other.table("flights").get_many([b"key000", b"key099", b"short"], after=done.token)
    assert found[:2] == [b"the same words again " * 9] * 2
    assert await other.table("flights").get(b"short", level="strong") == b"\x01\x8f"


@pytest.mark.embedded_log_only
async def test_a_writer_compresses_too(machine: Server, connected: Connected) -> None:
    database = await connected(compress=True)
    table = await database.create_table("flights", partitions=1)
    async with table.writer("words") as writer:
        await writer.put_rows([(b"key%03d" % number, b"again and again " * 9) for number in range(50)])
    description = await table.describe()
    assert await flags_in_log(machine, description.table.id) == [ZSTD]
    assert await table.get(b"key049", level="strong") == b"again and again " * 9


async def test_without_it_nothing_is_compressed(machine: Server, connected: Connected) -> None:
    database = await connected()
    table = await database.create_table("flights", partitions=1)
    done = await table.put(b"key", b"the same words again " * 99)
    assert await flags_in_log(machine, done.table_id) == [0]
