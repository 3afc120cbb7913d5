"""The change feed of one partition, from an offset to an offset: the log's own batches, and which records are void.

The batches come straight from the log, and no node has to pass them on. The replicas know
which records changed nothing (`serving_tier.service.voids`). So a read asks one replica, once for some 65,000 records,
which answers when it has applied them. A program that sees a change here can read it at that replica.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from log_tier.concurrency.backoff import Backoff
from log_tier.model.batch_header import place_of, split_batches
from log_tier.model.errors import DuramenError, HandshakeFailed, TableNotFound, Unavailable
from log_tier.model.identifiers import Offset, Partition
from serving_tier.service.peer import NodePeer
from serving_tier.service.voids import VOIDS_MAX
from spark_bulk.source.log.changes import Changes, change_columns
from spark_bulk.source.model.table_place import TablePlace, opened_log

__all__ = ["FeedPart", "read_feed"]

# About the size of batch that Spark likes: 8,000 records of 100 bytes.
_CHUNK_BYTES: Final = 1 << 20

_ASK_TIMEOUT_S: Final = 30.0
_PAUSE_FIRST_S: Final = 0.1
_PAUSE_MAX_S: Final = 2.0


@dataclass(frozen=True, slots=True)
class FeedPart:
    """The range of one partition's log that one task reads."""

    place: TablePlace
    partition: Partition
    first: Offset
    last: Offset
    """Inclusive."""
    all_records: bool
    timeout_s: float


async def read_feed(
    part: FeedPart, schema: pa.Schema, *, chunk_bytes: int = _CHUNK_BYTES
) -> AsyncGenerator[pa.RecordBatch, None]:
    """The changes, in order, as columns. Some 2 M records a second where the log is near.

    Raises `OffsetTrimmed` where the log no longer holds the first of them, or nobody knows which are void;
    `Unavailable` where no replica answers within the time.
    """
    place, partition, last = part.place, part.partition, part.last
    known = Offset(part.first - 1)
    void: list[int] = []
    """Void offsets up to `known`, from the present chunk on."""
    async with opened_log(place) as log:
        reader: Any = log.read(place.topic.partition(partition), part.first, follow=False, chunk_bytes=chunk_bytes)
        async with aclosing(reader) as chunks:
            async for chunk in chunks:
                changes = Changes.of(split_batches(chunk.data), place_of(place.topic.partition(partition)))
                if not len(changes.offsets):
                    continue
                begin, end = Offset(int(changes.offsets[0])), Offset(min(int(changes.offsets[-1]), last))
                while known < end and not part.all_records:
                    until = Offset(min(known + VOIDS_MAX, last))
                    void = [each for each in void if each >= begin]
                    void.extend(await _voids(part, Offset(known + 1), until))
                    known = until
                batch = change_columns(
                    changes,
                    schema,
                    table=place.topic.name,
                    partition=partition,
                    first=part.first,
                    last=last,
                    void=void,
                    all_records=part.all_records,
                )
                if batch is not None:
                    yield batch
                if changes.offsets[-1] >= last:
                    return


async def _voids(part: FeedPart, first: Offset, last: Offset) -> Sequence[int]:
    """Ask one replica, or another one."""
    place, partition = part.place, part.partition
    deadline_s = asyncio.get_running_loop().time() + part.timeout_s
    backoff = Backoff(_PAUSE_FIRST_S, _PAUSE_MAX_S, deadline_s=deadline_s)
    peers = list(place.peers[partition])
    random.shuffle(peers)
    while True:
        tried: list[str] = []
        lasting: DuramenError | None = None
        for peer in peers:
            try:
                with place.login.used():
                    return await NodePeer(peer.name, peer.target).voids(
                        place.topic.partition(partition), first, last, timeout=_ASK_TIMEOUT_S
                    )
            except HandshakeFailed as error:
                lasting = error
                tried.append(f"{peer.name}: {error.message}")
            except (Unavailable, TableNotFound) as error:
                tried.append(f"{peer.name}: {error.message}")
            except DuramenError as error:
                lasting = error
                tried.append(f"{peer.name}: {error.message}")
        if lasting is not None and len(tried) == len(peers):
            raise lasting
        if not peers or not await backoff.pause():
            raise Unavailable(
                f"which records of {place.named(partition)} took effect is unknown: "
                f"{'; '.join(tried) or 'no node of it has an address'}; "
                "start a node that holds it, or read with records=all"
            )
