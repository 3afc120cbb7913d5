"""What a node does for each kind of task, against a real log, a real catalog and a real store."""

from __future__ import annotations

import pytest
from kit.flight_rows import FLIGHTS, UNNUMBERED_FLIGHTS, flight, flight_key
from kit.jobs.single_machine import DEADLINE_S, ZERO, SingleMachine, fill, plan

from log_tier.catalog.actions import Action
from log_tier.catalog.commands import CreateTable, TaskPlan
from log_tier.catalog.jobs import Job
from log_tier.model.batch import Columns, encode_batch
from log_tier.model.errors import CommandRejected, NotHosted, WriteUnknown
from log_tier.model.identifiers import Offset, PartitionId
from log_tier.model.log import Topic
from log_tier.model.record import Expiry, Operation, attribute_of
from serving_tier.jobs import bootstrapping, point_in_time, schedule, snapshotting
from serving_tier.jobs.actions import node_actions


async def test_a_snapshot_is_known_when_it_is_stored_and_old_ones_go(machine: SingleMachine) -> None:
    await machine.add_node("n1", keep=2)
    topic = await machine.make_table()
    offsets = []
    for _ in range(3):
        offsets.append(await fill(machine, topic, 20))
        await machine.level("n1", topic)
        job = await machine.job(plan("snapshot", topic, "n1"))
        assert job.state == "done", job
    known = machine.catalog.map.snapshots_of(topic.partition(ZERO))
    assert [entry.offset for entry in known] == offsets[1:], "the newest two stay"
    assert [stored.path for stored in await machine.store.snapshots()] == [entry.path for entry in known]
    assert (known[-1].node, known[-1].keys) == ("n1", 20)


async def test_the_log_is_trimmed_below_a_snapshot_and_no_further(machine: SingleMachine) -> None:
    await machine.add_node("n1")
    topic = await machine.make_table()
    last = await fill(machine, topic)
    replica = await machine.level("n1", topic)
    refused = await machine.job(plan("trim", topic, "n1", before=last))
    assert refused.state == "failed"
    assert f"before {last} of {topic.id}/0 is beyond what a snapshot covers (0)" in refused.tasks[0].note
    await machine.job(plan("snapshot", topic, "n1"))
    more = await fill(machine, topic, 10)
    assert (await machine.job(plan("trim", topic, "n1", before=more))).state == "failed"
    assert (await machine.job(plan("compact", topic, "n1", below=more))).state == "failed"
    done = await machine.job(plan("trim", topic, "n1", before=last + 1))
    earliest = (await machine.log.bounds(topic.partition(ZERO))).earliest
    assert done.tasks[0].note == f"the log begins at {earliest}"
    assert 0 < earliest <= last + 1
    # What was trimmed is in the snapshot: the index can be lost now.
    await machine.level("n1", topic)
    digest = replica.index.digest()
    rebuilt = await machine.job(plan("rebuild", topic, "n1"))
    assert rebuilt.state == "done", rebuilt
    assert rebuilt.tasks[0].note.startswith("came from snapshot ")
    assert (await machine.level("n1", topic)).index.digest() == digest


async def test_the_log_of_rows_is_not_compacted(machine: SingleMachine) -> None:
    """A row that does not fit would cover the one before it, for whoever folds what is left."""
    await machine.add_node("n1")
    topic = await machine.log.create_topic("flights", partitions=1)
    kind = FLIGHTS.partitioner
    definition = UNNUMBERED_FLIGHTS.to_document()
    await machine.catalog.submit(CreateTable(topic.id, "flights", 1, 1, partitioner=kind, definition=definition))
    last = await machine.put(topic, (flight_key("UA", 7), flight("UA", 7, "N1", 1.5)))
    await machine.level("n1", topic)
    assert (await machine.job(plan("snapshot", topic, "n1"))).state == "done"
    refused = await machine.job(plan("compact", topic, "n1", below=last + 1))
    assert refused.state == "failed"
    assert "is not compacted: the table has a definition" in refused.tasks[0].note


async def test_compaction_drops_what_is_void(machine: SingleMachine) -> None:
    await machine.add_node("n1")
    topic = await machine.make_table()
    last = await fill(machine, topic)
    digest = (await machine.level("n1", topic)).index.digest()
    await machine.job(plan("snapshot", topic, "n1"))
    done = await machine.job(plan("compact", topic, "n1", below=last))
    assert done.state == "done"
    assert int(done.tasks[0].note.split()[0]) > 0
    await machine.job(plan("rebuild", topic, "n1", source="log"))
    assert (await machine.level("n1", topic)).index.digest() == digest


async def test_a_move_and_its_way_back(machine: SingleMachine) -> None:
    await machine.add_node("n1")
    topic = await machine.make_table()
    await machine.add_node("n2")
    await fill(machine, topic, 30)
    digest = (await machine.level("n1", topic)).index.digest()
    for source, target in (("n1", "n2"), ("n2", "n1")):
        job = await machine.job(plan("move", topic, target, **{"from": source}))
        assert job.state == "done", job
        assert machine.catalog.map.table(topic.id).readable(ZERO) == (target,)
        assert (await machine.level(target, topic)).index.digest() == digest
        await machine.hostings[source].wait_version(machine.catalog.map.version)
        with pytest.raises(NotHosted, match=f"{target} does"):
            machine.hostings[source].node.replica(topic.partition(ZERO))


async def test_a_replica_more_and_one_less(machine: SingleMachine) -> None:
    await machine.add_node("n1")
    topic = await machine.make_table()
    await machine.add_node("n2")
    await fill(machine, topic, 30)
    added = await machine.job(plan("add", topic, "n2"))
    assert (added.state, added.tasks[0].note) == ("done", "came from log")
    assert machine.catalog.map.table(topic.id).readable(ZERO) == ("n1", "n2")
    assert (await machine.level("n2", topic)).index.digest() == (await machine.level("n1", topic)).index.digest()
    assert (await machine.job(plan("remove", topic, "n1"))).state == "done"
    assert machine.catalog.map.table(topic.id).readable(ZERO) == ("n2",)


async def copied(machine: SingleMachine, topic: Topic, name: str, offset: int) -> tuple[Job, dict[bytes, bytes]]:
    target = await machine.make_table(name)
    how: dict[str, int | str] = {"source_table": topic.id, "source_partition": 0, "offset": offset}
    job = await machine.job(TaskPlan("copy", target.id, ZERO, "n1", how))
    replica = await machine.level("n1", target)
    page = replica.index.scan(b"", None, limit=10_000)
    return job, {key: entry.value for key, entry in page.entries}


async def test_a_partition_as_it_was_at_any_offset(machine: SingleMachine) -> None:
    await machine.add_node("n1")
    topic = await machine.make_table()
    states: list[dict[bytes, bytes]] = []
    state: dict[bytes, bytes] = {}
    for number in range(40):
        pairs = [(b"key%d" % ((number * 3 + k) % 17), b"%d.%d" % (number, k)) for k in range(3)]
        await machine.put(topic, *pairs)
        for key, value in pairs:
            state = {**state, key: value}
            states.append(state)
        if number == 25:
            await machine.level("n1", topic)
            assert (await machine.job(plan("snapshot", topic, "n1"))).state == "done"
    for offset in (0, 1, 50, 77, 78, 100, 119):
        job, found = await copied(machine, topic, f"at{offset}", offset)
        assert job.state == "done", job
        assert found == states[offset]
    job, found = await copied(machine, topic, "before-all", -1)
    assert (job.state, found) == ("done", {})
    job, _ = await copied(machine, topic, "beyond", 120)
    assert (job.state, job.tasks[0].note.split(":")[0]) == ("failed", "token_ahead")


async def test_a_past_that_is_gone_is_said(machine: SingleMachine) -> None:
    await machine.add_node("n1")
    topic = await machine.make_table()
    last = await fill(machine, topic)
    await machine.level("n1", topic)
    await machine.job(plan("snapshot", topic, "n1"))
    await machine.job(plan("trim", topic, "n1", before=last + 1))
    assert (await machine.log.bounds(topic.partition(ZERO))).earliest > 10
    job, _ = await copied(machine, topic, "gone", 5)
    assert job.tasks[0].note.startswith("offset_trimmed: flights/0 cannot be restored at offset 5")
    job, found = await copied(machine, topic, "there", last)
    assert job.state == "done"
    assert len(found) == 50


async def test_expiries_are_carried_over(machine: SingleMachine) -> None:
    await machine.add_node("n1")
    topic = await machine.make_table()
    attributes = [attribute_of(Operation.PUT, expiry=Expiry.TTL), attribute_of(Operation.PUT)]
    columns = Columns([b"a", b"b"], [b"1", b"2"], attributes, expiries=[3_600_000, 0])
    await machine.log.append(topic.partition(ZERO), encode_batch(columns))
    source = await machine.level("n1", topic)
    target = await machine.make_table("copy")
    how: dict[str, int | str] = {"source_table": topic.id, "source_partition": 0, "offset": 1}
    assert (await machine.job(TaskPlan("copy", target.id, ZERO, "n1", how))).state == "done"
    replica = await machine.level("n1", target)
    for key in (b"a", b"b"):
        before, after = source.index.get(key), replica.index.get(key)
        assert before is not None
        assert after is not None
        assert (after.value, after.expires_at_ms) == (before.value, before.expires_at_ms)


async def test_a_copy_that_was_interrupted_writes_nothing_twice(
    machine: SingleMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(point_in_time, "_BATCH_RECORDS", 10)
    await machine.add_node("n1")
    topic = await machine.make_table()
    last = await fill(machine, topic, 50)
    target = await machine.make_table("copy")
    inner, calls = machine.log.append, 0

    async def append(partition: PartitionId, batch: bytes) -> object:
        nonlocal calls
        found = await inner(partition, batch)
        if partition.table == target.id:
            calls += 1
            if calls in (2, 4):
                raise WriteUnknown("no reply")
        return found

    monkeypatch.setattr(machine.log, "append", append)
    how: dict[str, int | str] = {"source_table": topic.id, "source_partition": 0, "offset": int(last)}
    job = await machine.job(TaskPlan("copy", target.id, ZERO, "n1", how))
    assert (job.state, job.tasks[0].note) == ("done", f"50 keys of offset {last}")
    assert calls > 5, "it was begun again"
    replica = await machine.level("n1", target)
    versions = sorted(entry.version for _, entry in replica.index.scan(b"", None).entries)
    assert versions == sorted(set(versions))
    assert len(versions) == 50
    digest = {key: entry.value for key, entry in replica.index.scan(b"", None).entries}
    source = await machine.level("n1", topic)
    assert digest == {key: entry.value for key, entry in source.index.scan(b"", None).entries}


async def test_snapshots_by_schedule_are_taken_once_by_one(
    machine: SingleMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshotting, "_LOOK_S", 0.01)
    monkeypatch.setattr(schedule, "_RANK_SHARE", 600.0)  # the first has time for its snapshot, on a busy machine too
    await machine.add_node("n1", every_s=0.2)
    await machine.add_node("n2", every_s=0.2)
    topic = await machine.make_table(replicas=2)
    last = await fill(machine, topic, 20)
    await machine.level("n2", topic)
    cluster = await machine.catalog.wait_for(
        lambda map_: bool(map_.snapshots_of(topic.partition(ZERO))), timeout=DEADLINE_S
    )
    taken = cluster.snapshots_of(topic.partition(ZERO))
    assert {entry.node for entry in taken} == {cluster.table(topic.id).assignments[0][0].node}
    # The first may be due while the table is still being filled, and the next soon after.
    offsets = [entry.offset for entry in taken]
    assert offsets == sorted(set(offsets))
    assert 0 <= offsets[0] <= last


async def test_a_new_replica_of_a_large_table_begins_with_a_snapshot(
    machine: SingleMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bootstrapping, "REPLAY_RECORDS", 10)
    await machine.add_node("n1")
    topic = await machine.make_table()
    await fill(machine, topic, 30)
    await machine.level("n1", topic)
    await machine.job(plan("snapshot", topic, "n1"))
    await fill(machine, topic, 10)
    await machine.add_node("n2")
    added = await machine.job(plan("add", topic, "n2"))
    assert added.state == "done"
    (entry,) = machine.catalog.map.snapshots_of(topic.partition(ZERO))
    assert added.tasks[0].note == f"came from snapshot {entry.id} at {entry.offset}"
    assert (await machine.level("n2", topic)).index.digest() == (await machine.level("n1", topic)).index.digest()


def test_the_actions_are_those_that_the_catalog_knows() -> None:
    # A removal is done by the fold itself.
    assert set(node_actions(None, None, None)) == frozenset(Action) - {"remove"}  # type: ignore[arg-type]


async def over_a_trimmed_topic(machine: SingleMachine, *, replicas: int = 1) -> tuple[Topic, Offset]:
    """A table over a topic of 300 records, the first of which are gone; where it begins."""
    topic = await machine.log.create_topic("flights", partitions=1)
    last = await fill(machine, topic)
    start = await machine.log.trim(topic.partition(ZERO), Offset(last - 150))
    assert start > 50
    command = CreateTable(topic.id, "flights", 1, replicas, "murmur2", adopted=True, over="flights-v1", starts=(start,))
    await machine.catalog.submit(command)
    return topic, start


async def test_replicas_of_a_table_that_begins_above_0(machine: SingleMachine) -> None:
    await machine.add_node("n1")
    topic, start = await over_a_trimmed_topic(machine)
    digest = (await machine.level("n1", topic)).index.digest()
    await machine.add_node("n2")
    added = await machine.job(plan("add", topic, "n2"))
    assert (added.state, added.tasks[0].note) == ("done", "came from log")
    assert (await machine.level("n2", topic)).index.digest() == digest
    assert (await machine.job(plan("snapshot", topic, "n1"))).state == "done"
    last = await fill(machine, topic, 200)
    assert await machine.log.trim(topic.partition(ZERO), Offset(last - 100)) > start
    rebuilt = await machine.job(plan("rebuild", topic, "n2", source="log"))
    assert rebuilt.state == "failed"
    assert f"the table at {start}: what was between is trimmed" in rebuilt.tasks[0].note


async def test_a_snapshot_carries_where_its_table_begins(machine: SingleMachine) -> None:
    await machine.add_node("n1")
    topic, start = await over_a_trimmed_topic(machine)
    last = await fill(machine, topic, 10)
    digest = (await machine.level("n1", topic)).index.digest()
    assert (await machine.job(plan("snapshot", topic, "n1"))).state == "done"
    assert await machine.log.trim(topic.partition(ZERO), Offset(last)) > start
    rebuilt = await machine.job(plan("rebuild", topic, "n1"))
    assert rebuilt.tasks[0].note.startswith("came from snapshot "), rebuilt
    assert (await machine.level("n1", topic)).index.digest() == digest


async def test_the_past_of_a_table_that_begins_above_0(machine: SingleMachine) -> None:
    await machine.add_node("n1")
    topic, start = await over_a_trimmed_topic(machine)
    await machine.level("n1", topic)
    for offset, keys in ((start - 1, 0), (start, 1), (start + 9, 10)):
        job, found = await copied(machine, topic, f"at{offset}", offset)
        assert (job.state, len(found)) == ("done", keys), job


@pytest.mark.parametrize("action", ["trim", "compact"])
async def test_a_topic_of_others_is_not_shortened(machine: SingleMachine, action: str) -> None:
    await machine.add_node("n1")
    topic, _ = await over_a_trimmed_topic(machine)
    with pytest.raises(CommandRejected, match=f"is the topic 'flights-v1' of others: it is theirs to {action}"):
        await machine.job(plan(action, topic, "n1", before=1, below=1))
