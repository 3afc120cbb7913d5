"""The catalog as a timeline: what changed, in order, cut, without secrets, and of kinds that are not known yet."""

from __future__ import annotations

import asyncio
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

from kit.cluster.operated import DEADLINE_S, Operated
from kit.deadlines import within

from duramen.server.roles.all_in_one import SingleServer
from log_tier.catalog.cluster_map import ClusterMap, SnapshotEntry
from log_tier.catalog.commands import COMMANDS, Command, NoteAudit, StartJob, TaskPlan
from log_tier.model.errors import CommandRejected
from log_tier.model.identifiers import Offset, Partition, TableId
from log_tier.rows.table_spec import TableSpec
from log_tier.tally.audit_note import AuditNote
from log_tier.trust.trust_commands import AddToken, AddUser, SetPassword
from router.admin.answers.changes import LIMIT_MAX, catalog_changes, describe_command
from router.admin.verbs import SetReplicas, TakeSnapshots
from router.proto import admin_pb2 as pb

SECRET = "5EcReT"


def described(command: Command, **names: str) -> pb.AdminCommand:
    return describe_command(command, ClusterMap(), {TableId(key): name for key, name in names.items()})


def test_no_secret_of_a_command_is_shown() -> None:
    seen = Offset(7)
    for command in (
        AddUser("alice", seen, SECRET, ("read orders*",), "id1", SECRET),
        SetPassword("alice", seen, SECRET),
        AddToken("alice", seen, "id2", SECRET),
        StartJob("stage", "orders", (), {"url": f"s3://key:{SECRET}@bucket/path"}),
    ):
        shown = described(command)
        assert SECRET not in str(shown), shown
    assert described(AddUser("alice", seen, SECRET, ("read orders*",))).detail == "grants=read orders*"
    assert described(AddToken("alice", seen, "id2", SECRET)).user == "alice"


def test_each_kind_of_command_is_described() -> None:
    for name, kind in COMMANDS.items():
        command = _any(kind)
        shown = described(command, t="orders")
        assert shown.command == name
        assert SECRET not in shown.detail
        assert len(shown.detail) <= 400


def _any(kind: Any) -> Any:
    """A command of a kind with some value in each field."""
    values: dict[str, Any] = {}
    for each in fields(kind):
        if each.default is MISSING and each.default_factory is MISSING:
            values[each.name] = {
                "snapshot": SnapshotEntry("s", TableId("t"), Partition(0), Offset(7), 1, 2, 3, "path", "n1"),
                "tasks": (TaskPlan("move", TableId("t"), Partition(0), "n1"),),
                "offsets": (Offset(1),),
                "ids": ("s",),
                "table": TableId("t"),
                "note": AuditNote("export", f"s3://key:{SECRET}@lake/x", ()) if kind is NoteAudit else "x",
            }.get(each.name, 3 if each.name in {"job", "task", "seen", "partitions", "replicas"} else "x")
    return kind(**values)


async def test_the_timeline_of_a_cluster(cluster: Operated) -> None:
    database = cluster.database
    await database.create_table("flights", partitions=2, replicas=1)
    await database.create_table("gone", partitions=1)
    await database.drop_table("gone")
    shown = await cluster.admin.start(SetReplicas("flights", 2), dry_run=False)
    async with within(DEADLINE_S):
        async for _ in cluster.admin.follow_job(shown.job):
            pass
    found = await cluster.admin.changes()
    named = [(each.command, each.table) for each in found.commands if each.command.endswith("-table")]
    assert named == [("create-table", "flights"), ("create-table", "gone"), ("drop-table", "gone")]
    (began,) = [each for each in found.commands if each.command == "start-job"]
    assert (began.job, began.offset) == (shown.job, shown.job)
    assert began.detail == "kind=set-replicas subject=flights to 2 tasks=2"
    done = [each for each in found.commands if each.command == "task-done"]
    assert {each.job for each in done} == {shown.job}
    offsets = [each.offset for each in found.commands]
    assert offsets == sorted(set(offsets))
    assert found.version == offsets[-1]
    times = [each.time_ms for each in found.commands]
    assert times == sorted(times)
    assert min(times) > 1_700_000_000_000


async def test_pages_of_it(tmp_path: Path) -> None:
    server = await SingleServer.open(tmp_path / "data", port=0)
    try:
        plane = server.data_plane
        for number in range(5):
            await plane.create_table(TableSpec(f"t{number}", 1), timeout=DEADLINE_S)
        every = await catalog_changes(plane.catalog, plane.log, pb.AdminChangesRequest())
        assert not every.more
        seen: list[int] = []
        request = pb.AdminChangesRequest(limit=2)
        while True:
            page = await catalog_changes(plane.catalog, plane.log, request)
            assert len(page.commands) <= 2
            seen = [each.offset for each in page.commands] + seen
            if not page.more:
                break
            request.before = page.commands[0].offset
        assert seen == [each.offset for each in every.commands]
        late = pb.AdminChangesRequest(since_ms=every.commands[-1].time_ms)
        found = await catalog_changes(plane.catalog, plane.log, late)
        assert found.commands[-1].offset == every.version
        assert len(found.commands) < len(every.commands)
        assert not (await catalog_changes(plane.catalog, plane.log, pb.AdminChangesRequest(before=0))).commands
        assert LIMIT_MAX == 500
    finally:
        await server.close()


async def test_what_was_refused_says_why(cluster: Operated) -> None:
    await cluster.database.create_table("flights", partitions=1, replicas=1)
    plan = await cluster.admin.start(TakeSnapshots("flights"), dry_run=True)

    async def press() -> pb.AdminPlan:
        seen = plan.version
        return await cluster.admin.start(TakeSnapshots("flights"), dry_run=False, plan_id=plan.plan, seen=seen)

    results = await asyncio.gather(press(), press(), return_exceptions=True)
    assert sum(isinstance(each, CommandRejected) for each in results) == 1
    found = await cluster.admin.changes()
    begun = [each for each in found.commands if each.command == "start-job"]
    assert sum(not each.rejected for each in begun) == 1
    assert all("look again" in each.rejected for each in begun if each.rejected)
