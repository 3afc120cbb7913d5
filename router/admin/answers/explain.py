"""Where a key is, what each replica holds of it, and what was written to it last: the whole story of one key.

The answer shows three sources and judges none of them: each replica (a read of its present state, without waiting), the
log (its tail, backwards), and one replica's verdicts on the writes that the log holds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from log_tier.model.errors import DuramenError, InvalidKey, InvalidRequest
from log_tier.model.identifiers import NOTHING, PartitionId
from log_tier.model.log import Log
from log_tier.model.partitioner import slot_of
from log_tier.model.record import KEY_BYTES_MAX
from router.admin.answers.json_text import json_text
from router.admin.answers.key_history import SEARCHED_MAX, FoundWrite, KeyTail, last_writes
from router.admin.answers.node_client import AskNode
from router.admin.planners.cluster_view import Situation
from router.data.requests import OutcomesPart, ReadPart, ReadResult, WriteResult
from router.data.seam import DataPlane
from router.membership.views import ReportedState
from router.proto import admin_pb2 as pb

__all__ = ["WRITES_MAX", "explain_key"]

# A page of a terminal holds some ten; more is a job for `duramen watch`.
WRITES_MAX: Final = 1000

# A node that is there answers in milliseconds; one that does not shall not hold up what the others say.
_ASK_S: Final = 2.0

# What is shown of a value. The whole one is a `get` away.
_VALUE_BYTES: Final = 200


async def explain_key(
    situation: Situation,
    log: Log,
    ask: AskNode,
    *,
    table: str,
    key: bytes,
    writes: int,
    searched_max: int = SEARCHED_MAX,
) -> pb.AdminExplanation:
    """The story of a key; its last `writes` in the log, as far as they are among its last `searched_max` offsets.

    Costs a read at each replica and that search. A replica that does not answer is listed with its error.
    """
    entry = situation.table(table)
    if not 1 <= len(key) <= KEY_BYTES_MAX:
        raise InvalidKey(f"a key has 1 to {KEY_BYTES_MAX} bytes, this one {len(key)}")
    if not 0 <= writes <= WRITES_MAX:
        raise InvalidRequest(f"the last 0 to {WRITES_MAX} writes can be shown, not {writes}")
    partition = entry.partition(entry.ref.partition_of(key))
    assigned = entry.assignments[partition.partition]
    bounds = await log.bounds(partition)
    replicas, tail = await asyncio.gather(
        asyncio.gather(*(_held(situation, ask, partition, role, node, key) for node, role in assigned)),
        last_writes(log, partition, key, bounds, limit=writes, searched_max=searched_max),
    )
    judge, verdicts = await _verdicts(situation, ask, partition, tail)
    return pb.AdminExplanation(
        table=entry.name,
        key=json_text(key),
        partitioner=entry.partitioner,
        slot=slot_of(key) if entry.partitioner == "slot" else None,
        partition=partition.partition,
        earliest=bounds.earliest,
        latest=bounds.latest,
        replicas=replicas,
        searched_from=tail.searched_from,
        verdicts_of=judge,
        writes=[_write(found, verdict) for found, verdict in zip(tail.writes, verdicts, strict=True)],
    )


async def _held(
    situation: Situation, ask: AskNode, partition: PartitionId, role: str, node: str, key: bytes
) -> pb.AdminHeldKey:
    view = situation.replica(partition, node)
    held = pb.AdminHeldKey(
        node=node, role=role, state=view.state if situation.is_alive(node) else ReportedState.LOST, applied=view.applied
    )
    part = ReadPart(partition, [key])

    async def question(connection: DataPlane) -> Sequence[ReadResult | DuramenError]:
        return await connection.read([part], timeout=_ASK_S)

    try:
        async with asyncio.timeout(_ASK_S):
            (found,) = await ask(node, question)
    except DuramenError as error:
        found = error
    except TimeoutError:
        held.error = f"node {node} did not answer within {_ASK_S:g} s"
        return held
    if isinstance(found, DuramenError):
        held.error = found.message
        return held
    value = found.values[0]
    held.applied, held.present, held.version = found.applied, value is not None, found.versions[0]
    if value is not None:
        held.value, held.value_bytes = json_text(value[:_VALUE_BYTES]), len(value)
        if found.expiries and found.expiries[0]:
            held.expires_at_ms = found.expiries[0]
    return held


async def _verdicts(
    situation: Situation, ask: AskNode, partition: PartitionId, tail: KeyTail
) -> tuple[str | None, list[str]]:
    """Who judged, and what: of the live replicas the one that has come furthest."""
    if not tail.writes:
        return None, []
    live = situation.workers(partition)
    judge = max(live, key=lambda node: situation.replica(partition, node).applied, default=None)
    if judge is None:
        return None, ["unknown: no replica is there to say"] * len(tail.writes)
    parts = [OutcomesPart(partition, found.base_offset, found.timestamp_ms, found.last_offset) for found in tail.writes]

    async def question(connection: DataPlane) -> Sequence[WriteResult | DuramenError]:
        return await connection.outcomes(parts, timeout=_ASK_S)

    try:
        results = await ask(judge, question)
    except DuramenError as error:
        return judge, [f"unknown: {error.message}"] * len(tail.writes)
    return judge, [_verdict(found, result) for found, result in zip(tail.writes, results, strict=True)]


def _verdict(found: FoundWrite, result: WriteResult | DuramenError) -> str:
    if isinstance(result, DuramenError):
        return f"unknown: {result.message}"
    for outcome in result.outcomes:
        if outcome.record != found.offset - found.base_offset:
            continue
        if outcome.original != NOTHING:
            return f"void: a second copy of offset {outcome.original}"
        if outcome.rejected is not None:
            return f"void: {outcome.rejected.message.removeprefix(f'offset {found.offset}: ')}"
    return "accepted"


def _write(found: FoundWrite, verdict: str) -> pb.AdminWrite:
    return pb.AdminWrite(
        offset=found.offset,
        timestamp_ms=found.timestamp_ms,
        operation=found.operation,
        value=json_text(found.value[:_VALUE_BYTES]),
        value_bytes=len(found.value),
        condition=found.condition,
        expiry=found.expiry,
        grouped=found.grouped,
        producer_id=found.producer_id,
        verdict=verdict,
    )
