"""The plan that changes how many replicas a table has. Pure."""

from __future__ import annotations

from log_tier.catalog.actions import Action, JobKind
from log_tier.catalog.cluster_map import TableEntry
from log_tier.catalog.jobs import ArgumentValue
from log_tier.model.errors import InvalidRequest
from log_tier.model.identifiers import REPLICAS_MAX, Partition, PartitionId
from router.admin.planners.choices import Choices
from router.admin.planners.cluster_view import Situation
from router.admin.planners.plan import Plan, Step, plan_of

__all__ = ["plan_set_replicas"]


def plan_set_replicas(situation: Situation, *, table: str, replicas: int) -> Plan:
    """Add or remove replicas until each partition has so many. Raises `CommandRejected` where nodes are missing."""
    entry = situation.table(table)
    if not 1 <= replicas <= REPLICAS_MAX:
        raise InvalidRequest(f"a partition has 1 to {REPLICAS_MAX} replicas, not {replicas}")
    choices = Choices(situation)
    steps: list[Step] = []
    notes: list[str] = []
    for partition in entry.partition_ids():
        staying = [replica.node for replica in entry.assignments[partition.partition] if replica.role != "leaving"]
        size = situation.bytes_of(partition)
        for _ in range(replicas - len(staying)):
            taken = [step.node for step in steps if step.partition == partition]
            target = choices.taker(partition, without=taken)
            if target is None:
                takers = ", ".join(situation.takers()) or "none"
                raise situation.refusal(
                    f"{table}/{partition.partition} cannot have {replicas} replicas: the live nodes that take replicas "
                    f"are {takers}, and it has one on each; start more nodes, or ask for fewer"
                )
            steps.append(Step(Action.ADD, partition, entry.name, target, bytes=size))
        steps.extend(_removals(situation, choices, partition, len(staying) - replicas))
    ready_left = _partitions_without_ready(situation, entry, steps)
    if ready_left:
        notes.append(f"no replica that stays is ready in partition {', '.join(map(str, ready_left))}")
    arguments: dict[str, ArgumentValue] = {"table": entry.id, "replicas": replicas}
    is_other = entry.replicas != replicas
    return plan_of(
        JobKind.SET_REPLICAS, f"{table} to {replicas}", steps, arguments=arguments, notes=notes, begins_empty=is_other
    )


def _removals(situation: Situation, choices: Choices, partition: PartitionId, count: int) -> list[Step]:
    """The replicas that are missed least: on lost nodes, not ready, on draining nodes, on full nodes; in this order."""
    table = situation.cluster.table(partition.table)
    members = [replica.node for replica in table.assignments[partition.partition] if replica.role == "member"]

    def missed(node: str) -> tuple[bool, bool, bool, int, str]:
        entry = situation.cluster.nodes.get(node)
        return (
            situation.is_alive(node),
            situation.is_ready(partition, node),
            entry is not None and not entry.draining,
            -choices.replicas[node],
            node,
        )

    going = sorted(members, key=missed)[: max(0, count)]
    steps: list[Step] = []
    for node in going:
        choices.replicas[node] -= 1
        note = "" if situation.is_alive(node) else f"the node is not there: {situation.lost(node)}"
        steps.append(Step(Action.REMOVE, partition, table.name, node, note=note))
    return steps


def _partitions_without_ready(situation: Situation, table: TableEntry, steps: list[Step]) -> list[Partition]:
    going = {(step.partition, step.node) for step in steps if step.action == Action.REMOVE}
    return [
        partition.partition
        for partition in table.partition_ids()
        if any(where == partition for where, _ in going)
        and not any(
            situation.is_ready(partition, node)
            for node in table.readable(partition.partition)
            if (partition, node) not in going
        )
    ]
