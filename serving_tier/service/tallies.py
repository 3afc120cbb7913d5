"""What a replica has counted of its log, and its subscriptions, for callers that compare it with the log."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from log_tier.model.identifiers import Offset, Partition, PartitionId, table_id_from_bytes
from log_tier.tally.period import PartitionTally, Period
from serving_tier.node.node import Node
from serving_tier.proto import node_pb2

__all__ = ["subscriptions_from", "tally_from", "tally_reply"]


async def tally_reply(node: Node, request: node_pb2.TallyRequest) -> node_pb2.TallyReply:
    """The tally of one of the node's replicas, of the index that is read there, and of each subscription to it. Two
    lookups; a file at rest is opened.

    Raises `NotHosted`, `IndexDamaged`, and why the replica was closed.
    """
    replica = node.replica(PartitionId(table_id_from_bytes(request.table_id), Partition(request.partition)))

    def look() -> PartitionTally:
        with replica.reading() as index:
            return index.tally()

    counted = await asyncio.to_thread(look)
    return node_pb2.TallyReply(
        since=counted.since,
        applied=counted.applied,
        periods=_messages(counted.periods),
        subscriptions=[
            node_pb2.Subscription(name=name, since=given.since, applied=given.applied, periods=_messages(given.periods))
            for name, given in node.deliveries.of(replica.id)
        ],
    )


def tally_from(reply: node_pb2.TallyReply) -> PartitionTally:
    """The replica's tally in a node's reply."""
    return PartitionTally(Offset(reply.since), Offset(reply.applied), _periods(reply.periods))


def subscriptions_from(reply: node_pb2.TallyReply) -> dict[str, PartitionTally]:
    """The tallies of its subscriptions, by name."""
    return {
        each.name: PartitionTally(Offset(each.since), Offset(each.applied), _periods(each.periods))
        for each in reply.subscriptions
    }


def _messages(periods: Iterable[Period]) -> list[node_pb2.Period]:
    return [node_pb2.Period(**period._asdict()) for period in periods]


def _periods(messages: Iterable[node_pb2.Period]) -> tuple[Period, ...]:
    return tuple(
        Period(each.minute, each.minutes, Offset(each.first), Offset(each.last), each.offsets, each.checksum)
        for each in messages
    )
