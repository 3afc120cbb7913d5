"""Duramen's own client at the RESP endpoint: values of keys with the applied offset, and batches as the client encoded
them.

    DURAMEN.READ   table-id partition after key    →  [applied offset, value or nil], or an error: ask by gRPC, or where
                                                       it is `TRYAGAIN`, after DURAMEN.AWAIT
    DURAMEN.FETCH  table-id partition after key …  →  [applied offset, values, versions, expiries], each of the last
                                                       three with an element for each key, or nil for no expiries; for
                                                       at most 256 keys
    DURAMEN.AWAIT  table-id partition offset       →  OK, when the replica here has applied it
    DURAMEN.WRITE  table-id partition batch        →  [offset, timestamp], when it is on stable storage; `NOTWRITTEN …`
                                                       where it is sure that nothing was, another error where it is not

The batch carries its client's producer id and sequence, so one whose reply was lost may be sent again, here or by gRPC,
and takes effect once.

These commands name their table themselves: what they fail with says nothing about the table that is selected.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from log_tier.model.errors import (
    BatchRefused,
    DiskFull,
    DuramenError,
    NotHosted,
    Overloaded,
    ShuttingDown,
    TableNotFound,
    UnknownFormat,
)
from log_tier.model.identifiers import Offset, Partition, PartitionId, TableId
from router.data.fresh_replicas import answers_now
from router.data.freshness import may_answer, needed_offset
from router.data.reply_budget import ReplyBudget, read_keys
from router.data.requests import ReadPart, WritePart
from router.endpoints.resp.command_spec import async_command, sync_command
from router.endpoints.resp.context import CommandContext
from router.endpoints.resp.wire.arguments import integer, text_of
from router.endpoints.resp.wire.error_replies import problem_of
from router.endpoints.resp.wire.replies import Problem, Simple

__all__ = ["AWAIT_S", "FETCH_BYTES_MAX", "FETCH_KEYS_MAX", "SPECS", "fetch", "read", "wait_applied", "write"]

_NOT_HERE: Final = Problem("TRYAGAIN this server has no replica of that partition which has applied it")

# Clients ask for what was just written; they wait for anything longer over gRPC.
AWAIT_S: Final = 1.0

FETCH_KEYS_MAX: Final = 256
FETCH_BYTES_MAX: Final = 1 << 20
"""Of one DURAMEN.FETCH: its turn of the event loop takes half a millisecond. gRPC carries more."""

_NOT_WRITTEN: Final = (BatchRefused, DiskFull, NotHosted, Overloaded, ShuttingDown, TableNotFound, UnknownFormat)


def read(client: CommandContext, args: Sequence[bytes]) -> list[Any]:
    """DURAMEN.READ: see the module's text."""
    node = client.server.node
    if node is None:
        raise _NOT_HERE
    try:
        replica = node.replica(PartitionId(TableId(text_of(args[0])), Partition(integer(args[1]))))
        index = replica.index
        after = Offset(integer(args[2]))
        if not may_answer(index.applied, needed_offset(after, replica.floor, replica.lost), replica.failure):
            raise _NOT_HERE
        value = index.get_value(args[3])
        return [int(index.shown), value]
    except DuramenError as error:
        raise problem_of(error) from error


def fetch(client: CommandContext, args: Sequence[bytes]) -> list[Any]:
    """DURAMEN.FETCH: see the module's text."""
    node, keys = client.server.node, args[3:]
    if node is None or len(keys) > FETCH_KEYS_MAX:
        raise _NOT_HERE
    try:
        place = PartitionId(TableId(text_of(args[0])), Partition(integer(args[1])))
        replica, part = node.replica(place), ReadPart(place, keys, Offset(integer(args[2])))
        if replica.index.is_at_rest or not answers_now(replica, part):
            raise _NOT_HERE
        budget = ReplyBudget()
        budget.left = FETCH_BYTES_MAX
        applied, values, versions, expiries, _ = read_keys(replica, keys, budget)
        return [int(applied), list(values), list(map(int, versions)), expiries and list(map(int, expiries))]
    except DuramenError as error:
        raise problem_of(error) from error


async def wait_applied(client: CommandContext, args: Sequence[bytes]) -> Simple:
    """DURAMEN.AWAIT: see the module's text."""
    node = client.server.node
    if node is None:
        raise _NOT_HERE
    try:
        replica = node.replica(PartitionId(TableId(text_of(args[0])), Partition(integer(args[1]))))
        await replica.wait_applied(Offset(integer(args[2])), timeout=AWAIT_S)
    except DuramenError as error:
        raise problem_of(error) from error
    return Simple("OK")


async def write(client: CommandContext, args: Sequence[bytes]) -> list[int]:
    """DURAMEN.WRITE: see the module's text."""
    part = WritePart(PartitionId(TableId(text_of(args[0])), Partition(integer(args[1]))), args[2])
    try:
        result = await client.server.batches.append(part)
    except _NOT_WRITTEN as error:
        raise Problem(f"NOTWRITTEN {problem_of(error).text}") from error
    except DuramenError as error:
        raise problem_of(error) from error
    refused = next((outcome.rejected for outcome in result.outcomes if outcome.rejected is not None), None)
    if refused is not None:
        raise problem_of(refused)
    return [int(result.base_offset), result.timestamp_ms]


SPECS: Final = (
    sync_command("duramen.read", 5, read, "alone", summary="For Duramen's own client: a value and its offset."),
    sync_command("duramen.fetch", -5, fetch, "alone", summary="For Duramen's own client: values, versions, expiries."),
    async_command("duramen.await", 4, wait_applied, "alone", summary="For Duramen's own client: waits for an offset."),
    async_command("duramen.write", 4, write, "alone", summary="For Duramen's own client: appends a batch."),
)
"""The commands of this module."""
