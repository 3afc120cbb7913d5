"""The KV service's watch over a stream that ends: it goes on behind what was sent, and nobody else's batch is shown."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from typing import Any, cast

import pytest

from log_tier.model.batch import Columns, encode_batch
from log_tier.model.batch_header import place_of, stamp_batch
from log_tier.model.errors import DuramenError
from log_tier.model.identifiers import Offset, Partition, PartitionId, TableId, table_id_from_bytes
from log_tier.model.table_ref import TableRef
from log_tier.rpc.stream_budget import StreamBudget
from router.data.requests import WatchEvent
from router.data.seam import Connection
from router.endpoints.grpc.kv.watches import ChangeStream
from router.proto import kv_pb2 as kv

TABLE = TableRef(table_id_from_bytes(bytes(16)), "cities", 1)
ZERO = Partition(0)


def stored(offset: int, key: bytes, *, partition: int = 0) -> bytes:
    batch = encode_batch(Columns([key], [b"v"]))
    place = place_of(PartitionId(TABLE.id, Partition(partition)))
    return stamp_batch(batch, base_offset=Offset(offset), timestamp_ms=1, unsynced=0, place=place)


class Streams:
    """Each watch shows one batch and ends."""

    def __init__(self, *batches: bytes, end: int) -> None:
        self.starts: list[dict[Partition, Offset]] = []
        self._batches, self._end = list(batches), end

    async def watch(self, table: TableId, start: Mapping[Partition, Offset]) -> AsyncGenerator[WatchEvent, None]:
        self.starts.append(dict(start))
        first = start.get(ZERO, Offset(self._end))
        yield WatchEvent(ZERO, b"", (), Offset(first - 1), {ZERO: first})
        if not self._batches:
            raise DuramenError("enough")
        yield WatchEvent(ZERO, self._batches.pop(0), (), first)


async def changes_of(streams: Streams) -> list[bytes]:
    """The keys that a watch shows until the streams have nothing more. Raises what else ends it."""
    shown: list[bytes] = []
    request = kv.KVWatchRequest(table=TABLE.name)
    try:
        with StreamBudget().stream() as held:
            async for message in ChangeStream(cast("Connection", cast("Any", streams)), TABLE, request, 5.0).messages(
                held
            ):
                shown += [change.key for change in message.changes]
    except DuramenError as error:
        if "enough" not in error.message:
            raise
    return shown


async def test_a_stream_that_ends_goes_on_behind_what_was_sent() -> None:
    streams = Streams(stored(7, b"a"), stored(8, b"b"), end=7)
    assert await changes_of(streams) == [b"a", b"b"]
    assert streams.starts == [{}, {ZERO: 8}, {ZERO: 9}]


async def test_a_batch_of_another_partition_is_not_shown() -> None:
    with pytest.raises(DuramenError, match="partition"):
        await changes_of(Streams(stored(7, b"a", partition=1), end=7))
