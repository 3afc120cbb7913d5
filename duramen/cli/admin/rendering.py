"""Answers for people: a job with its tasks, a compared partition, and what stands in the cells of tables."""

from __future__ import annotations

from duramen.cli.admin.change import say_plan
from duramen.cli.admin.figures import duration, local_time, offset, place, size
from duramen.cli.terminal.output import say, say_table
from duramen.cli.terminal.text import counted
from router.proto.admin_pb2 import (
    AdminComparison,
    AdminHealing,
    AdminHeldKey,
    AdminJob,
    AdminNode,
    AdminPlan,
    AdminRelief,
    AdminReplica,
    AdminTask,
)

__all__ = [
    "cut_text",
    "held_value",
    "held_version",
    "node_state",
    "replica_status",
    "say_comparison",
    "say_healing",
    "say_job",
    "say_relief",
]

_PROBLEMS = {
    "missing": "has no entry",
    "stale": "has an entry that is not its row's",
    "doubled": "has values that another row has, and the index is unique",
}


def say_job(found: AdminJob) -> None:
    """A job and its tasks."""
    say(f"job {found.job}: {found.kind} {found.subject}, {found.state}, begun {local_time(found.started_ms)}")
    columns = ["task", "action", "partition", "node", "from", "state", "progress", "note"]
    rows = [
        (
            task.task,
            task.action,
            place(task),
            task.node,
            task.source,
            task.state,
            _progress(task),
            task.note,
        )
        for task in found.task_list
    ]
    say_table(columns, rows, right=["task"])
    for node in found.waits_for:
        say(f"node {node} cannot be reached: `duramen admin resume {found.job}` gives its tasks to others")


def _progress(task: AdminTask) -> str:
    if not task.phase:
        return ""
    return f"{task.phase} {size(task.done)} of {size(task.total)}" if task.total else str(task.phase)


def say_comparison(each: AdminComparison) -> None:
    """What the replicas of one partition held, and where they differ."""
    held = ", ".join(f"{replica.node} {counted(replica.keys, 'key')}" for replica in each.replicas)
    at = "" if not each.HasField("offset") else f" at offset {offset(each.offset)}"
    reason = f": {each.reason}" if each.reason else ""
    say(f"{place(each)}  {each.verdict}{at}  {held}{reason}")
    for difference in each.differences:
        replicas = "  ".join(
            f"{replica.node}: " + (f"version {replica.version}, {replica.hash[:8]}" if replica.present else "absent")
            for replica in difference.replicas
        )
        say(f"  key {difference.key} at offset {difference.offset}  {replicas}")
    for wrong in each.wrong_entries:
        problem = _PROBLEMS.get(wrong.problem, "has an entry that is not its row's")
        say(f"  {wrong.node}: in the index {wrong.index} the key {wrong.key} {problem}")
    more = sum(replica.wrong for replica in each.replicas) - len(each.wrong_entries)
    if more > 0:
        say(f"  and {more:,} more")
    for node in sorted({wrong.node for wrong in each.wrong_entries}):
        say(
            f"  `duramen admin restore {node}` builds its replicas anew; drop and create an index, and it is built anew"
        )
    if each.differing_buckets and not each.differences:
        say(f"  {each.differing_buckets} of {each.buckets} buckets of keys differed; no key does any more")


def node_state(each: AdminNode) -> str:
    """A node's state: `alive, draining`."""
    return f"{each.state}, draining" if each.draining else each.state


def replica_status(replica: AdminReplica) -> str:
    """A replica by its node, with its role and state where it is not simply a ready member."""
    notes = [replica.role] if replica.role != "member" else []
    if replica.state != "ready":
        notes.append(replica.state)
    if replica.state in ("replaying", "behind"):
        notes.append(f"-{replica.lag_records:,}")
    return f"{replica.node} ({', '.join(notes)})" if notes else replica.node


def held_value(each: AdminHeldKey) -> str:
    """The value that a replica holds of a key, cut to fit a line."""
    if each.error:
        return f"({each.error})"
    return "(absent)" if not each.present else cut_text(each.value, each.value_bytes)


def held_version(each: AdminHeldKey) -> str:
    """The version that a replica holds of a key."""
    return offset(each.version if each.HasField("version") else None)


def cut_text(text: str, size: int) -> str:
    """At most 60 characters of a text, on one line, with its size."""
    line = " ".join(text.split())
    return line if len(line) <= 60 else f"{line[:60]}… ({counted(size, 'byte')})"


def say_healing(found: AdminHealing) -> None:
    """What a router would do about lost nodes, and why."""
    for each in found.lost:
        waits = "" if not each.left_s else f"; it is waited for {duration(each.left_s)} more"
        say(f"node {each.node} is lost for {duration(each.lost_s)}{waits}: {each.reason}")
    if not found.after_s:
        say("healing is off (--heal-after 0): an operator retires lost nodes (`duramen admin retire NODE`)")
    elif found.off:
        say("healing is off (`duramen admin automate heal` switches it on): an operator retires lost nodes")
    if found.short:
        say(f"replicas that are missing: {found.short}")
    if found.action == "undo":
        say(f"job {found.job} is undone: {found.reason}")
    elif found.action == "wait":
        say(f"job {found.job} heals: `duramen admin job {found.job}` shows how far it is")
    elif found.action == "begin":
        _say_begin(found.plan, found.pause_s, is_off=found.off or not found.after_s)
    elif not found.lost:
        say("no node is lost: there is nothing to heal")
    elif not found.short and not any(each.left_s for each in found.lost):
        say("no replica is missing: there is nothing to heal")
    for text in () if found.action == "begin" else found.blocked:  # a plan says it in its notes
        say(f"in the way: {text}")


def say_relief(found: AdminRelief) -> None:
    """What a router would do about nodes that have too much, and why."""
    for each in found.strained:
        watched = f"; it is watched for {duration(each.left_s)} more" if each.left_s else ""
        say(f"node {each.node} is {each.kind} for {duration(each.seen_s)}{watched}: it {each.reason}")
    if not found.after_s:
        say("relief is off (--relieve-after 0): an operator relieves nodes (`duramen admin rebalance --auto`)")
    elif found.off:
        say("relief is off (`duramen admin automate relieve` switches it on)")
    if found.action == "undo":
        say(f"job {found.job} is undone: {found.reason}")
    elif found.action == "wait":
        say(f"job {found.job} relieves: `duramen admin job {found.job}` shows how far it is")
    elif found.action == "begin":
        _say_begin(found.plan, found.pause_s, is_off=found.off or not found.after_s)
    elif not found.strained:
        say("no node is full, slow or hot: there is nothing to relieve")
    for text in () if found.action == "begin" else found.blocked:
        say(f"in the way: {text}")


def _say_begin(plan: AdminPlan, pause_s: float, *, is_off: bool) -> None:
    if is_off:
        say("if it were on, a job would begin:")
    elif pause_s:
        say(f"a job begins in {duration(pause_s)}, for its bound of bytes:")
    else:
        say("a job begins now:")
    say_plan(plan)
