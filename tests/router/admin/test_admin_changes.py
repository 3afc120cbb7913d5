"""Every command that changes something, on a real cluster: dry, for real, refused, aborted, resumed."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from kit.cluster.operated import DEADLINE_S, Operated, operated
from kit.deadlines import within

from duramen.aio import Table
from log_tier.catalog.commands import StartJob, TaskPlan
from log_tier.model.errors import (
    CommandRejected,
    InvalidRequest,
    InvalidToken,
    OffsetTrimmed,
    TableExists,
    TableNotFound,
    TokenAhead,
)
from log_tier.model.identifiers import Offset, Partition, PartitionId, TableId
from log_tier.model.tokens import Token
from router.admin.answers.argument_messages import arguments_of
from router.admin.answers.log_times import header_at, offset_at_time
from router.admin.planners.resume import job_of
from router.admin.verbs import (
    Compact,
    Drain,
    Move,
    Rebalance,
    RestoreNode,
    RestoreTable,
    Retire,
    SetReplicas,
    TakeSnapshots,
    Trim,
)
from router.proto import admin_pb2 as pb

ZERO = Partition(0)


async def filled(cluster: Operated, name: str = "flights", *, partitions: int = 3, replicas: int = 1) -> Table:
    """A table of 300 keys, level everywhere."""
    table = await cluster.database.create_table(name, partitions=partitions, replicas=replicas)
    await table.put_many({b"k%03d" % number: b"%d" % number for number in range(300)})
    await cluster.until_level(name)
    return table


async def check_filled(cluster: Operated, table: Table) -> None:
    found = {key: value async for key, value in table.scan(level="strong")}
    assert found == {b"k%03d" % number: b"%d" % number for number in range(300)}


async def test_move(cluster: Operated) -> None:
    table = await filled(cluster)
    assert await cluster.holders("flights") == ["n1", "n2", "n3"]
    before = cluster.router.catalog.map.version
    plan = await cluster.admin.start(Move("flights", ZERO, "n1", "n2"), dry_run=True)
    assert (plan.HasField("job"), plan.dry_run, len(plan.steps)) == (False, True, 1)
    assert plan.steps[0].source == "n1"
    assert (await cluster.router.catalog.refresh()).version == before, "a dry run wrote to the catalog"

    job = await cluster.done(Move("flights", ZERO, "n1", "n2"))
    assert await cluster.holders("flights") == ["n2", "n2", "n3"]
    assert job.task_list[0].note.startswith("came from")
    await check_filled(cluster, table)
    for change, reason in (
        (Move("flights", ZERO, "n1", "n3"), "node n1 holds no replica of flights/0"),
        (Move("flights", ZERO, "n2", "n2"), "node n2 holds a replica of flights/0 already"),
    ):
        for dry_run in (True, False):
            with pytest.raises(CommandRejected, match=reason):
                await cluster.admin.start(change, dry_run=dry_run)


async def test_reads_go_on_while_everything_moves(cluster: Operated) -> None:
    table = await filled(cluster, replicas=2)
    stop = asyncio.Event()

    async def read() -> int:
        number = 0
        while not stop.is_set():
            key = number % 300
            assert await table.get(b"k%03d" % key) == b"%d" % key
            number += 1
        return number

    reading = asyncio.ensure_future(read())
    try:
        for node in ("n1", "n2", "n3"):
            plan = await cluster.admin.start(Move("flights", ZERO, *await _one_move(cluster)), dry_run=False)
            assert (await cluster.ended(plan.job)).state == "done", node
    finally:
        stop.set()
        assert await reading > 0


async def _one_move(cluster: Operated) -> tuple[str, str]:
    held = (await cluster.holders("flights"))[0].split()
    return held[0], next(node for node in ("n1", "n2", "n3") if node not in held)


async def test_two_operators_at_once(cluster: Operated) -> None:
    await filled(cluster)
    results = await asyncio.gather(
        *(cluster.admin.start(Move("flights", ZERO, "n1", target)) for target in ("n2", "n3")), return_exceptions=True
    )
    (refused,) = [each for each in results if isinstance(each, CommandRejected)]
    assert "flights/0 are being changed by job" in refused.message
    (begun,) = [each for each in results if isinstance(each, pb.AdminPlan)]
    assert (await cluster.ended(begun.job)).state == "done"


async def test_the_plan_that_was_shown_is_begun_or_none(cluster: Operated) -> None:
    await filled(cluster)
    shown = await cluster.admin.start(Drain("n1"), dry_run=True)
    await cluster.done(Move("flights", ZERO, "n1", "n3"))
    with pytest.raises(CommandRejected, match="changed since the plan"):
        await cluster.admin.start(Drain("n1"), plan_id=shown.plan)
    shown = await cluster.admin.start(Drain("n3"), dry_run=True)
    begun = await cluster.admin.start(Drain("n3"), plan_id=shown.plan)
    assert begun.plan == shown.plan
    assert (await cluster.ended(begun.job)).state == "done"


async def test_of_two_that_begin_one_plan_one_does(cluster: Operated) -> None:
    """Two consoles show the same plan, and both are told to go on: at once, and one after the other."""
    await filled(cluster)
    shown = await cluster.admin.start(TakeSnapshots("flights"), dry_run=True)
    await cluster.database.create_table("ships", partitions=1)  # a change of the catalog, and no job
    again = await cluster.admin.start(TakeSnapshots("flights"), dry_run=True)
    assert (again.plan, again.version > shown.version) == (shown.plan, True)

    async def press() -> pb.AdminPlan:
        seen = Offset(shown.version)
        return await cluster.admin.start(TakeSnapshots("flights"), dry_run=False, plan_id=shown.plan, seen=seen)

    results = await asyncio.gather(press(), press(), press(), return_exceptions=True)
    (begun,) = [each for each in results if isinstance(each, pb.AdminPlan)]
    refused = [each for each in results if isinstance(each, CommandRejected)]
    assert len(refused) == 2
    assert all("the catalog changed, look again" in each.message for each in refused)
    assert (await cluster.ended(begun.job)).state == "done"
    with pytest.raises(CommandRejected, match=f"look again: .* job {begun.job}, snapshot flights, has begun since"):
        await press()
    after = await cluster.admin.start(TakeSnapshots("flights"), dry_run=True)
    assert after.version >= begun.job


async def test_drain_and_rebalance(cluster: Operated) -> None:
    table = await filled(cluster, partitions=6)
    await cluster.done(Drain("n2"))
    nodes = {each.node: each for each in await cluster.admin.nodes()}
    assert (nodes["n2"].draining, nodes["n2"].replicas) == (True, 0)
    assert (nodes["n1"].replicas, nodes["n3"].replicas) == (3, 3)
    await cluster.add_node("n4")
    await cluster.until_nodes(lambda nodes: "n4" in nodes and nodes["n4"].state == "alive")
    plan = await cluster.admin.start(Rebalance(), dry_run=True)
    assert plan.replicas_moved == 2
    await cluster.done(Rebalance())
    counts = {each.node: each.replicas for each in await cluster.admin.nodes()}
    assert counts == {"n1": 2, "n2": 0, "n3": 2, "n4": 2}
    nothing = await cluster.admin.start(Rebalance())
    assert (nothing.HasField("job"), nothing.dry_run, list(nothing.steps)) == (False, False, [])
    await check_filled(cluster, table)


async def test_retire_a_node_that_is_gone(cluster: Operated) -> None:
    table = await filled(cluster, replicas=2)
    await cluster.stop_node("n2")
    await cluster.done(Retire("n2"))
    assert [each.node for each in await cluster.admin.nodes()] == ["n1", "n3"]
    assert await cluster.holders("flights") == ["n1 n3"] * 3
    await check_filled(cluster, table)


async def test_set_replicas(cluster: Operated) -> None:
    table = await filled(cluster)
    job = await cluster.done(SetReplicas("flights", 3))
    assert (job.kind, job.tasks) == ("set-replicas", 6)
    assert await cluster.holders("flights") == ["n1 n2 n3"] * 3
    await cluster.until_level("flights")
    assert [each.verdict async for each in cluster.admin.verify("flights")] == ["equal"] * 3
    await cluster.stop_node("n3")
    await cluster.done(SetReplicas("flights", 2))
    assert await cluster.holders("flights") == ["n1 n2"] * 3
    await check_filled(cluster, table)
    with pytest.raises(CommandRejected, match="start more nodes"):
        await cluster.admin.start(SetReplicas("flights", 3))


async def test_trim_and_compact_only_below_snapshots(tmp_path: Path) -> None:
    async with operated(tmp_path, nodes=("n1", "n2"), segment_bytes=4096) as cluster:
        table = await filled(cluster, partitions=1, replicas=2)
        for _ in range(20):
            await table.put_many({b"k%03d" % number: b"%d" % number for number in range(50)})
        await cluster.until_level("flights")
        for change in (Trim("flights"), Compact("flights"), Trim("flights", ZERO, 1)):
            with pytest.raises(CommandRejected, match="no verified snapshot"):
                await cluster.admin.start(change)
        await cluster.done(TakeSnapshots("flights"))
        for refused in (Trim("flights", ZERO, 1301), Compact("flights", None, 1301)):
            with pytest.raises(CommandRejected, match="1301 of flights/0 is beyond"):
                await cluster.admin.start(refused, dry_run=True)
        old = str(Token.of(cluster.router.catalog.map.find("flights").id, ZERO, Offset(310)))
        assert (await cluster.admin.start(RestoreTable("flights", "past", token=old), dry_run=True)).steps

        compacted = await cluster.done(Compact("flights"))
        dropped = int(compacted.task_list[0].note.split()[0])
        assert dropped > 500
        trimmed = await cluster.done(Trim("flights"))
        (after,) = await cluster.admin.partitions("flights")
        assert after.earliest > 400
        assert trimmed.task_list[0].note == f"the log begins at {after.earliest}"
        await check_filled(cluster, table)
        with pytest.raises(OffsetTrimmed, match="earliest offset that can be restored is 1299"):
            await cluster.admin.start(RestoreTable("flights", "past", token=old))
        with pytest.raises(OffsetTrimmed):
            await cluster.admin.start(RestoreTable("flights", "past", time_ms=1))
        at_snapshot = str(Token.of(cluster.router.catalog.map.find("flights").id, ZERO, Offset(1299)))
        await cluster.done(RestoreTable("flights", "past", token=at_snapshot))
        await check_filled(cluster, cluster.database.table("past"))
        await cluster.done(RestoreNode("n2"))
        assert [each.verdict async for each in cluster.admin.verify("flights")] == ["equal"]


async def test_restore_a_node(cluster: Operated) -> None:
    table = await filled(cluster, replicas=3)
    await cluster.done(TakeSnapshots("flights"))
    index = cluster.replica("n2", "flights", 0).index
    with index._env.begin(index._data, write=True) as txn:
        for key in list(txn.cursor().iternext(values=False)):
            txn.put(key, bytes(txn.get(key))[:-1] + b"X")
    assert [each.verdict async for each in cluster.admin.verify("flights", ZERO)] == ["different"]
    plan = await cluster.admin.start(RestoreNode("n2", "snapshot"), dry_run=True)
    assert [(step.action, step.node) for step in plan.steps] == [("rebuild", "n2")] * 3
    job = await cluster.done(RestoreNode("n2", "snapshot"))
    assert all(task.note.startswith("came from snapshot") for task in job.task_list)
    await cluster.until_level("flights")
    assert [each.verdict async for each in cluster.admin.verify("flights")] == ["equal"] * 3
    await check_filled(cluster, table)
    with pytest.raises(InvalidRequest, match="flights is a table"):
        await cluster.admin.start(RestoreNode("flights"))
    with pytest.raises(InvalidRequest, match="there is no node"):
        await cluster.admin.start(RestoreNode("n9"))


async def test_restore_a_table_at_a_token_and_at_a_time(cluster: Operated) -> None:
    table = await filled(cluster, replicas=2)
    log, topic = cluster.log.log, cluster.router.catalog.map.find("flights")
    until = await table.put(b"k000", b"then")
    partition = Partition(until.partition)
    then_ms = await _written_ms(cluster, topic.id, partition, Offset(until.offset))
    async with within(DEADLINE_S):
        later = until
        while await _written_ms(cluster, topic.id, partition, Offset(later.offset)) <= then_ms:
            later = await table.put(b"k000", b"now")  # until the log's clock has moved on
    assert await offset_at_time(log, topic.partition(partition), then_ms) >= until.offset

    dry = await cluster.admin.start(RestoreTable("flights", "past", token=until.token), dry_run=True)
    assert arguments_of(dry.steps[until.partition].arguments)["offset"] == until.offset
    assert [each.name for each in await cluster.database.tables()] == ["flights"], "a dry run made a table"
    await cluster.done(RestoreTable("flights", "past", token=until.token))
    past = cluster.database.table("past")
    assert await past.get(b"k000", level="strong") == b"then"  # the copy is in the log; a replica may be behind it
    held = {key: value async for key, value in past.scan(level="strong")}
    assert held == {b"k%03d" % number: b"%d" % number for number in range(300)} | {b"k000": b"then"}
    assert await table.get(b"k000") == b"now"

    await cluster.done(RestoreTable("flights", "timed", time_ms=then_ms))
    assert await cluster.database.table("timed").get(b"k000", level="strong") in (b"then", b"now")
    await cluster.done(RestoreTable("flights", "empty", time_ms=1))
    assert [key async for key, _ in cluster.database.table("empty").scan(level="strong")] == []


async def _written_ms(cluster: Operated, table: TableId, partition: Partition, offset: Offset) -> int:
    header = await header_at(cluster.log.log, PartitionId(table, partition), offset)
    assert header is not None
    return header.timestamp_ms


async def test_what_cannot_be_restored(cluster: Operated) -> None:
    table = await filled(cluster, partitions=1)
    topic = cluster.router.catalog.map.find("flights")
    start = cluster.admin.start
    token = str(Token.of(topic.id, ZERO, Offset(5)))
    with pytest.raises(TableExists):
        await start(RestoreTable("flights", "flights", token=token))
    with pytest.raises(TableNotFound):
        await start(RestoreTable("nope", "past", token=token))
    with pytest.raises(InvalidRequest, match="give one of them"):
        await start(RestoreTable("flights", "past"))
    with pytest.raises(InvalidToken):
        await start(RestoreTable("flights", "past", token="d1.nonsense"))
    other = Token.of(TableId("AAAAAAAAAAAAAAAAAAAAAA"), ZERO, Offset(5))
    with pytest.raises(InvalidToken, match="is of table"):
        await start(RestoreTable("flights", "past", token=str(other)))
    with pytest.raises(TokenAhead, match="its log ends at 299"):
        await start(RestoreTable("flights", "past", token=str(Token.of(topic.id, ZERO, Offset(300)))))
    with pytest.raises(InvalidRequest, match="names no offset"):
        await start(RestoreTable("flights", "past", token=str(Token.of(topic.id, Partition(4), Offset(0)))))
    with pytest.raises(InvalidRequest, match="cannot name a table"):
        await start(RestoreTable("flights", "a/b", token=token))
    assert [each.name for each in await cluster.database.tables()] == ["flights"]
    assert table.name == "flights"


async def test_a_table_whose_restore_is_rejected_does_not_stay(
    cluster: Operated, monkeypatch: pytest.MonkeyPatch
) -> None:
    await filled(cluster, partitions=1)
    token = str(Token.of(cluster.router.catalog.map.find("flights").id, ZERO, Offset(5)))
    submit = cluster.router.catalog.submit

    async def rejecting(command: object, **how: float) -> object:
        if isinstance(command, StartJob):
            raise CommandRejected("somebody was faster", version=1)
        return await submit(command, **how)  # type: ignore[arg-type]

    monkeypatch.setattr(cluster.router.catalog, "submit", rejecting)
    with pytest.raises(CommandRejected, match="somebody was faster"):
        await cluster.admin.start(RestoreTable("flights", "past", token=token))
    assert [each.name for each in await cluster.database.tables()] == ["flights"]


async def test_a_job_whose_node_is_lost_waits_and_is_resumed_with_another(cluster: Operated) -> None:
    await filled(cluster)
    await cluster.stop_node("n3")
    # As if the node had died right after the plan was made.
    topic = cluster.router.catalog.map.find("flights")
    move = TaskPlan("move", topic.id, ZERO, "n3", {"from": "n1"})
    job_id, _ = await cluster.router.catalog.submit(StartJob("move", "flights/0", (move,)))
    (waiting,) = await cluster.admin.jobs()
    assert (waiting.job, waiting.state, list(waiting.waits_for)) == (int(job_id), "running", ["n3"])
    dry = await cluster.admin.resume(job_id, dry_run=True)
    assert [(step.node, step.source) for step in dry.steps] == [("n2", "n1")]
    await cluster.admin.resume(job_id)
    job = await cluster.ended(job_id)
    assert (job.state, job.task_list[0].node) == ("done", "n2")
    assert (await cluster.holders("flights"))[0] == "n2"
    with pytest.raises(CommandRejected, match="there is nothing to resume"):
        await cluster.admin.resume(job_id)


async def test_a_job_is_aborted_and_what_it_began_undone(cluster: Operated) -> None:
    await filled(cluster)
    await cluster.stop_node("n3")
    topic = cluster.router.catalog.map.find("flights")
    move = TaskPlan("move", topic.id, ZERO, "n3", {"from": "n1"})
    job_id, _ = await cluster.router.catalog.submit(StartJob("move", "flights/0", (move,)))
    assert (await cluster.holders("flights"))[0] == "n1 n3"
    plan = await cluster.admin.abort(job_id, dry_run=True)
    assert plan.steps[0].note == "was waiting: undone"
    assert job_of(cluster.router.catalog.map, job_id).state == "running"
    await cluster.admin.abort(job_id)
    assert (await cluster.ended(job_id)).state == "aborted"
    assert (await cluster.holders("flights"))[0] == "n1"
    with pytest.raises(CommandRejected, match="is aborted already"):
        await cluster.admin.abort(job_id)
    with pytest.raises(InvalidRequest, match="there is no job 99999"):
        await cluster.admin.job(99999)


async def test_a_job_is_followed_from_its_beginning_to_its_end(cluster: Operated) -> None:
    await filled(cluster)
    plan = await cluster.admin.start(SetReplicas("flights", 2))
    seen = [each async for each in cluster.admin.follow_job(plan.job)]
    assert [each.done for each in seen] == sorted(each.done for each in seen)
    assert (seen[-1].state, seen[-1].done, seen[-1].tasks) == ("done", 3, 3)
    assert all(each.state == "running" for each in seen[:-1])
    assert [each.job for each in await cluster.admin.jobs()] == [plan.job]


async def test_offsets_of_times(cluster: Operated) -> None:
    await filled(cluster, partitions=1)
    log, topic = cluster.log.log, cluster.router.catalog.map.find("flights")
    table = cluster.database.table("flights")
    stamps: dict[int, int] = {}
    offset = 300
    while len(set(stamps.values())) < 20:  # until the log's clock has shown twenty times
        offset = (await table.put(b"k", b"v")).offset
        stamps[offset] = await _written_ms(cluster, topic.id, ZERO, Offset(offset))
    for each_offset, stamp in stamps.items():
        last = max(each for each, time_ms in stamps.items() if time_ms <= stamp)
        assert await offset_at_time(log, topic.partition(ZERO), stamp) == last, each_offset
        before = max((each for each, time_ms in stamps.items() if time_ms < stamp), default=299)
        if before != 299:
            assert await offset_at_time(log, topic.partition(ZERO), stamp - 1) == before, each_offset
    assert await offset_at_time(log, topic.partition(ZERO), 0) == -1
    assert await offset_at_time(log, topic.partition(ZERO), 1 << 60) == offset
