"""Which records changed nothing: a node says the same as its replica knows, when it has applied them."""

from __future__ import annotations

import asyncio

import pytest
from kit.cluster.two_nodes import DEADLINE_S, ZERO, TwoNodes
from kit.deadlines import patience_s

from log_tier.model.batch import Columns, encode_batch
from log_tier.model.errors import DuramenError, LimitExceeded, NotHosted, OffsetTrimmed, ReplicaBehind, TokenAhead
from log_tier.model.identifiers import Offset
from log_tier.model.record import Condition, Operation, attribute_of
from serving_tier.service.peer import NodePeer
from serving_tier.service.voids import VOIDS_MAX

IF_ABSENT = attribute_of(Operation.PUT, condition=Condition.ABSENT)
PUT = attribute_of(Operation.PUT)


async def append(nodes: TwoNodes, columns: Columns, *, producer: int = 0, sequence: int = 0) -> Offset:
    batch = encode_batch(columns, producer_id=producer, sequence=sequence)
    appended = await nodes.log.append(nodes.topic.partition(ZERO), batch)
    return appended.base_offset


async def voids(nodes: TwoNodes, first: int, last: int, *, timeout: float = DEADLINE_S) -> list[int]:
    peer = NodePeer("n1", nodes.nodes[0].target)
    return list(await peer.voids(nodes.topic.partition(ZERO), Offset(first), Offset(last), timeout=timeout))


async def test_rejected_records_and_second_copies_are_named(nodes: TwoNodes) -> None:
    conditional = Columns([b"a", b"a", b"b"], [b"1", b"2", b"3"], [PUT, IF_ABSENT, IF_ABSENT])
    assert await append(nodes, conditional) == 0
    for _ in range(2):
        await append(nodes, Columns([b"c", b"d"], [b"4", b"5"]), producer=7)
    # A retry that overlaps: its first record is known, its second is new.
    await append(nodes, Columns([b"d", b"e"], [b"5", b"6"]), producer=7, sequence=1)
    assert await voids(nodes, 0, 8) == [1, 5, 6, 7]
    assert await voids(nodes, 1, 5) == [1, 5]
    assert await voids(nodes, 2, 4) == []


async def test_it_waits_until_the_last_is_applied(nodes: TwoNodes) -> None:
    replica = nodes.nodes[0].node.replica(nodes.topic.partition(ZERO))
    await append(nodes, Columns([b"a"], [b"1"]))
    replica.hear(Offset(2), asked_s=replica.progress.clock())  # so it believes that the log goes on to there
    asked = asyncio.ensure_future(voids(nodes, 0, 2))
    await append(nodes, Columns([b"a"], [b"2"], [IF_ABSENT]))
    assert not asked.done()
    await append(nodes, Columns([b"b"], [b"3"]))
    assert await asked == [1]


async def test_what_is_beyond_the_log_is_refused(nodes: TwoNodes) -> None:
    await append(nodes, Columns([b"a"], [b"1"]))
    with pytest.raises(TokenAhead):
        await voids(nodes, 0, 1)


async def test_verdicts_that_cannot_be_had_are_an_error(nodes: TwoNodes) -> None:
    await append(nodes, Columns([b"a"], [b"1"]))
    with pytest.raises(LimitExceeded, match=f"at most {VOIDS_MAX} offsets"):
        await voids(nodes, 0, VOIDS_MAX)
    peer = NodePeer("n1", nodes.nodes[0].target)
    with pytest.raises(NotHosted):
        await peer.voids(nodes.topic.partition(5), Offset(0), Offset(0), timeout=DEADLINE_S)
    with pytest.raises(DuramenError):
        await NodePeer("n9", "127.0.0.1:1").voids(nodes.topic.partition(ZERO), Offset(0), Offset(0), timeout=DEADLINE_S)


async def test_verdicts_that_are_forgotten_are_not_guessed(nodes: TwoNodes) -> None:
    await append(nodes, Columns([b"a", b"b"], [b"1", b"2"]))
    replica = nodes.nodes[0].node.replica(nodes.topic.partition(ZERO))
    await replica.wait_applied(Offset(1), timeout=DEADLINE_S)
    state = replica.index._state
    replica.index._state = state._replace(verdicts_from=Offset(1))
    try:
        with pytest.raises(OffsetTrimmed, match="known from offset 1 on, offset 0 was requested") as caught:
            await voids(nodes, 0, 1)
        assert caught.value.fields["earliest"] == 1
        assert await voids(nodes, 1, 1) == []
    finally:
        replica.index._state = state


async def test_a_replica_that_stands_still_is_named_when_the_time_is_over(nodes: TwoNodes) -> None:
    """The log holds the record, the replica has not applied it: the asker learns both offsets."""
    replica = nodes.nodes[0].node.replica(nodes.topic.partition(ZERO))
    await append(nodes, Columns([b"a"], [b"1"]))
    await replica.wait_applied(Offset(0), timeout=DEADLINE_S)
    replica.hear(Offset(5), asked_s=replica.progress.clock())
    with pytest.raises(ReplicaBehind):
        await voids(nodes, 0, 5, timeout=patience_s(1.0))
