"""Who has too much: nodes whose disk is nearly full, that lag where others do not, or serve much more. Pure.

    full     less than `FULL_PERCENT` of its disk is free.
    slow     some of its replicas have not been level with the log for `SLOW_MS`, and a live one elsewhere is level with
             the same log: so it is this node that is slow, and not the log.
    hot      it serves `HOT_PERCENT` of what the other live nodes serve on average, and `HOT_SERVED_S` a second more.

Served are keys that were read and records that were applied, on average over the last minutes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Literal, NamedTuple

from log_tier.model.identifiers import PartitionId
from router.admin.planners.cluster_view import Situation
from router.membership.views import ReportedState

__all__ = [
    "FULL_PERCENT",
    "HOT_PERCENT",
    "HOT_SERVED_S",
    "SLOW_MS",
    "Strain",
    "StrainKind",
    "lagging",
    "served_by_node",
    "strains_of",
]

StrainKind = Literal["full", "slow", "hot"]

FULL_PERCENT: Final = 15
"""A node with less of its disk free is full: snapshots and a compacted index need room, too."""
SLOW_MS: Final = 60_000
"""A node that opens an index again, or takes in a burst, is level sooner."""
HOT_PERCENT: Final = 200
HOT_SERVED_S: Final = 2000
"""Less than a tenth of what one process serves: to move a replica costs more than such a difference."""


class Strain(NamedTuple):
    """A node that has too much."""

    node: str
    kind: StrainKind
    why: str
    """For people: what the node has, or does."""


def strains_of(situation: Situation) -> list[Strain]:
    """The live nodes that have too much: the full ones, then the slow ones, then the hot ones; each once, by id.
    O(replicas).
    """
    alive = [node for node in sorted(situation.nodes) if situation.is_alive(node)]
    found = [Strain(node, "full", _why_full(situation, node)) for node in alive if _is_full(situation, node)]
    for node in alive:
        behind = sum(1 for _ in lagging(situation, node))
        if behind:
            found.append(Strain(node, "slow", f"lags with {behind} of its replicas, while others are level"))
    found += _hot(situation, alive)
    once: dict[str, Strain] = {}
    for strain in found:
        once.setdefault(strain.node, strain)
    return list(once.values())


def _is_full(situation: Situation, node: str) -> bool:
    view = situation.nodes[node]
    return view.disk_free * 100 < (view.disk_free + view.disk_used) * FULL_PERCENT


def _why_full(situation: Situation, node: str) -> str:
    view = situation.nodes[node]
    part = view.disk_free / (view.disk_free + view.disk_used)
    return f"has {view.disk_free >> 20:,} MiB of its disk free, {part:.0%}"


def lagging(situation: Situation, node: str) -> Iterator[PartitionId]:
    """What lags at a node and is level elsewhere."""
    for partition, replica in situation.nodes[node].replicas.items():
        if replica.state != ReportedState.BEHIND or replica.lag_ms < SLOW_MS:
            continue
        table = situation.cluster.tables.get(partition.table)
        assigned = () if table is None else table.assignments[partition.partition]
        if any(each.node != node and situation.is_ready(partition, each.node) for each in assigned):
            yield partition


def served_by_node(situation: Situation) -> dict[str, int]:
    """How much each live node serves a second."""
    return {
        node: sum(replica.served_s for replica in view.replicas.values())
        for node, view in situation.nodes.items()
        if view.alive
    }


def _hot(situation: Situation, alive: list[str]) -> Iterator[Strain]:
    served = served_by_node(situation)
    total = sum(served.values())
    for node in alive:
        if len(alive) < 2 or served[node] < HOT_SERVED_S:
            continue
        others = (total - served[node]) // (len(alive) - 1)
        if served[node] - others >= HOT_SERVED_S and served[node] * 100 >= others * HOT_PERCENT:
            why = f"serves {served[node]:,} keys and records a second, the others {others:,} on average"
            yield Strain(node, "hot", why)
