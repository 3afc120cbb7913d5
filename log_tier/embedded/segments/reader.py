"""Reading a partition: its newest batches from memory, older ones from its files.

A reader holds one open file at a time, of the segment that it is in. So retention and compaction need not wait for
readers: a removed or replaced file stays readable for a reader that has it open, and the next step goes by names again.

Files are read in threads of their own, one chunk ahead of the consumer, so that checking the next megabyte costs the
consumer no time.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from concurrent.futures import Executor
from typing import Final

from log_tier.concurrency.descriptors import OUT_OF_DESCRIPTORS, out_of_descriptors
from log_tier.embedded.segments.cold_reader import ColdReader, trimmed
from log_tier.embedded.segments.partition_log import PartitionLog
from log_tier.model.batch_header import offsets_in
from log_tier.model.errors import InvalidRequest, TokenAhead
from log_tier.model.identifiers import Offset
from log_tier.model.log import Bounds, ReadChunk
from log_tier.tracing.written import TracedWrite

__all__ = ["CHUNK_BYTES_MAX", "read_partition"]

# A chunk is held whole by everyone who passes it on.
CHUNK_BYTES_MAX: Final = 64 << 20

# How often a follower tries again to open a segment while the process is out of descriptors.
_DESCRIPTOR_PAUSE_S: Final = 0.1

_Ahead = asyncio.Future[tuple[bytes, Offset]]


async def read_partition(
    partition: PartitionLog, start: Offset, *, follow: bool, chunk_bytes: int, threads: Executor
) -> AsyncGenerator[ReadChunk, None]:
    """What `Log.read` promises, for one partition."""
    bounds = partition.bounds()
    _check_start(partition, start, bounds, chunk_bytes)
    loop = asyncio.get_running_loop()
    cold: ColdReader | None = None
    ahead: _Ahead | None = None
    offset = start
    try:
        while True:
            if partition.refusal is not None:
                raise partition.refusal
            if offset >= partition.next_offset or (offset > bounds.latest and not follow):
                if partition.damage is not None and partition.lost:
                    raise partition.damage
                if not follow:
                    return
                await _wait_past(partition, offset, loop)
                continue
            if ahead is None:
                warm = partition.tail.read(offset, chunk_bytes)
                if warm is not None:
                    data, offset = warm
                    latest, compacted = Offset(partition.next_offset - 1), partition.checkpoint.compacted
                    traced = _traced_in(partition, data) if partition.id in partition.traced.of else ()
                    yield ReadChunk(data, latest, compacted=compacted, traced=traced)
                    del data, warm  # who waits for more holds nothing
                    continue
                cold = cold or ColdReader(partition, chunk_bytes)
                ahead = _read_ahead(loop, threads, cold, offset)
            try:
                data, offset = await ahead
            except OSError as error:
                if error.errno not in OUT_OF_DESCRIPTORS:
                    raise
                if not follow:
                    raise out_of_descriptors(f"{partition.folder} cannot be read", error) from error
                # A follower has all the time there is; what it follows for must not end for want of a descriptor.
                ahead = None
                await asyncio.sleep(_DESCRIPTOR_PAUSE_S)
                continue
            ahead = None
            latest = Offset(partition.next_offset - 1)
            if offset <= latest and partition.refusal is None and cold and not partition.tail.holds(offset):
                ahead = _read_ahead(loop, threads, cold, offset)
            elif cold is not None:
                cold.close()
                cold = None
            if data:
                traced = _traced_in(partition, data) if partition.id in partition.traced.of else ()
                yield ReadChunk(data, latest, compacted=partition.checkpoint.compacted, traced=traced)
            del data
    finally:
        if cold is not None:
            cold.close()


def _traced_in(partition: PartitionLog, data: bytes) -> tuple[TracedWrite, ...]:
    return partition.traced.between(partition.id, *offsets_in(data))


def _check_start(partition: PartitionLog, start: Offset, bounds: Bounds, chunk_bytes: int) -> None:
    if start < 0 or not 0 < chunk_bytes <= CHUNK_BYTES_MAX:
        raise InvalidRequest(
            f"cannot read from offset {start} in chunks of {chunk_bytes} bytes; offsets begin at 0, chunks have 1 to "
            f"{CHUNK_BYTES_MAX} bytes"
        )
    if start < bounds.earliest:
        if partition.damage is not None and start >= partition.checkpoint.earliest:
            raise partition.damage  # nobody trimmed it: its file is missing
        raise trimmed(partition, start, bounds.earliest)
    if start > bounds.latest + 1:
        if partition.damage is not None and partition.lost:
            raise partition.damage
        raise TokenAhead(
            f"{partition.name} ends at offset {bounds.latest}, offset {start} was requested: "
            "the token is of another log, or this log lost its end",
            partition=partition.id.partition,
            asked=start,
            latest=bounds.latest,
        )


async def _wait_past(partition: PartitionLog, offset: Offset, loop: asyncio.AbstractEventLoop) -> None:
    waiter = partition.wait_past(offset, loop)
    if waiter is None:
        return
    try:
        await waiter
    finally:
        if not waiter.done() or waiter.cancelled():
            partition.forget(waiter)


def _read_ahead(loop: asyncio.AbstractEventLoop, threads: Executor, cold: ColdReader, offset: Offset) -> _Ahead:
    ahead = loop.run_in_executor(threads, cold.read, offset)
    # A reader that is closed before it takes this chunk does not want its error either.
    ahead.add_done_callback(lambda done: done.cancelled() or done.exception())
    return ahead
