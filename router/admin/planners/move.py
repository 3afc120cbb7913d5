"""Plans that move replicas by name: one of them, or all that a node holds. Pure."""

from __future__ import annotations

from log_tier.catalog.actions import Action, JobKind
from log_tier.model.identifiers import Partition
from router.admin.planners.choices import Choices
from router.admin.planners.cluster_view import Situation
from router.admin.planners.plan import Plan, Step, plan_of

__all__ = ["plan_drain", "plan_move", "plan_retire"]


def plan_move(situation: Situation, *, table: str, partition: Partition, source: str, target: str) -> Plan:
    """Move one replica. A lost source is fine: its copy is not needed where a snapshot, a peer or the log has it."""
    entry = situation.table(table, partition)
    situation.check_node(source)
    situation.check_node(target)
    place = entry.partition(partition)
    where = situation.cluster.name_of(place)
    if not situation.is_alive(target):
        raise situation.refusal(
            f"node {target} is not there ({situation.lost(target)}): {where} cannot go to it; start it, or name another"
        )
    notes = []
    if situation.cluster.nodes[target].draining:
        notes.append(f"node {target} is being drained: a later drain would move this replica again")
    if not situation.is_alive(source):
        notes.append(f"node {source} is not there ({situation.lost(source)}): its copy is given up, not read")
    step = Step(Action.MOVE, place, entry.name, target, source=source, bytes=situation.bytes_of(place))
    return plan_of("move", where, [step], notes=notes)


def plan_drain(situation: Situation, *, node: str, undo: bool = False) -> Plan:
    """Move everything away from a node, and give it nothing new. Raises `CommandRejected` if no other node can take a
    replica.

    `undo`: let it take replicas again; a rebalance brings it some.
    """
    situation.check_node(node)
    draining = situation.cluster.nodes[node].draining
    if undo:
        return plan_of(JobKind.UNDRAIN, f"node {node}", [], arguments={"node": node}, begins_empty=draining)
    return plan_of(
        JobKind.DRAIN, f"node {node}", _emptied(situation, node), arguments={"node": node}, begins_empty=not draining
    )


def plan_retire(situation: Situation, *, node: str) -> Plan:
    """Drain a node, and forget it when it is empty."""
    situation.check_node(node)
    steps = _emptied(situation, node)
    notes = [f"node {node} is forgotten when its last replica has gone: started again, it is a new node"]
    return plan_of(JobKind.RETIRE, f"node {node}", steps, arguments={"node": node}, notes=notes, begins_empty=True)


def _emptied(situation: Situation, node: str) -> list[Step]:
    choices = Choices(situation)
    steps: list[Step] = []
    stuck: list[str] = []
    for table, partition, replica in situation.held_by(node):
        if replica.role == "leaving":
            continue  # another move takes it away already
        target = choices.taker(partition, without=(node,))
        if target is None:
            stuck.append(situation.cluster.name_of(partition))
        else:
            size = situation.bytes_of(partition)
            steps.append(Step(Action.MOVE, partition, table.name, target, source=node, bytes=size))
    if stuck:
        named = ", ".join(stuck[:5]) + (f" and {len(stuck) - 5} more" if len(stuck) > 5 else "")
        others = ", ".join(each for each in situation.takers() if each != node) or "none"
        raise situation.refusal(
            f"node {node} cannot be emptied: every other node that could take a replica ({others}) holds one of "
            f"{named} already; start another node, or lower the number of replicas first (`duramen admin set-replicas`)"
        )
    return steps
