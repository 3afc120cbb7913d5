"""Choose the replica for each part of a request. Pure: knowledge and randomness are arguments.

A candidate has a **fitness**: what can be expected of it for this part. The best fitness wins; among equals, one that
gets a part anyway (parts that travel together cost one call), else the less loaded of two drawn at random. Two random
choices keep loads even without exact knowledge of them (Mitzenmacher, "The Power of Two Choices", 2001), where "the
least loaded" would send every read to the same node until the next status message.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence
from enum import IntEnum
from typing import Final, NamedTuple

from log_tier.model.identifiers import Offset, PartitionId
from router.data.freshness import is_level_within, may_answer
from router.membership.views import NodeView, ReportedState

__all__ = ["Candidate", "Fitness", "assign", "choose", "fitness_of"]


class Fitness(IntEnum):
    """What can be expected of a replica; the lower the better."""

    FRESH = 0
    """The replica has applied what the read needs."""
    SOON = 1
    """The replica is level with the log, by its last status, and will have it soon: a read may wait there."""
    BEHIND_FRESH = 2
    """The replica has applied what the read needs, but lags behind the log."""
    BEHIND = 3
    UNHEARD = 4
    """The map names the replica, and its node has not reported it yet."""
    STOPPED_FRESH = 5
    """The replica follows the log no more; what it has applied, it can show."""
    THROUGH = 6
    """No replica, but a server that may reach one."""
    LOST = 7
    """The replica's node does not answer now; it may answer again later."""
    ABSENT = 8
    """The replica is being brought up."""
    STOPPED = 9


class Candidate(NamedTuple):
    """A replica that could answer a part."""

    node: str
    fitness: int
    load: int


# What a node says of its load is up to 250 ms old, and one slow round of its event loop shows in it. Without some
# tolerance a node that was a little busier then would get nothing until it speaks again.
_NOISE: Final = 3

_LAGGING: Final = frozenset({ReportedState.REPLAYING, ReportedState.BEHIND})


def fitness_of(view: NodeView, name: PartitionId, after: Offset, lag_max_ms: int) -> int:
    """How fit a node's replica is for a read that needs `after` and at most that lag (0: any)."""
    replica = view.replicas.get(name)
    if not view.alive:
        return Fitness.LOST
    if replica is None:
        return Fitness.UNHEARD
    fresh = may_answer(replica.applied, after, None) and is_level_within(replica.lag_ms, lag_max_ms)
    if replica.state == ReportedState.READY:
        return Fitness.FRESH if fresh else Fitness.SOON
    if replica.state in _LAGGING:
        return Fitness.BEHIND_FRESH if fresh else Fitness.BEHIND
    if replica.state == ReportedState.STOPPED:
        return Fitness.STOPPED_FRESH if fresh and not lag_max_ms else Fitness.STOPPED
    return Fitness.ABSENT


def choose(candidates: Sequence[Candidate], preferred: Container[str], draw: Callable[[], float]) -> str | None:
    """The node to ask; None where there is no candidate. `draw` gives a random number from 0 to below 1."""
    if len(candidates) <= 1:
        return candidates[0].node if candidates else None
    best = min(candidate.fitness for candidate in candidates)
    equals = [candidate for candidate in candidates if candidate.fitness == best]
    for candidate in equals:
        if candidate.node in preferred:
            return candidate.node
    if len(equals) == 1:
        return equals[0].node
    first = int(draw() * len(equals))
    second = int(draw() * (len(equals) - 1))
    if second >= first:
        second += 1
    one, other = equals[first], equals[second]
    return one.node if one.load <= other.load + _NOISE else other.node


def assign(
    parts: Iterable[tuple[int, Sequence[Candidate]]], draw: Callable[[], float]
) -> tuple[dict[str, list[int]], list[int]]:
    """Assign parts to nodes; the parts without a candidate are returned too. O(parts × replicas).

    The first part's choice draws others along, so that a request goes to few nodes; different requests draw anew.
    """
    groups: dict[str, list[int]] = {}
    nowhere: list[int] = []
    for number, candidates in parts:
        node = choose(candidates, groups, draw)
        if node is None:
            nowhere.append(number)
        elif node in groups:
            groups[node].append(number)
        else:
            groups[node] = [number]
    return groups, nowhere
