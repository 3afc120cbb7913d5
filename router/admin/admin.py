"""The core of administration: questions answered, changes planned, begun, followed. It knows no protocol.

Every answer begins with a look at the catalog's end, so that it shows changes that were made at other servers; after
that, it costs what is said below. Nothing is kept between two calls. While the log does not answer, `nodes` and `lag`
report what is known here, and `lag` gives the silence as the reason; everything else raises.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Any, Final

from log_tier.catalog.catalog import Catalog
from log_tier.catalog.cluster_map import EMPTY
from log_tier.catalog.commands import CreateTable
from log_tier.catalog.jobs import Job
from log_tier.catalog.placement import candidates
from log_tier.catalog.version_fold import empty_url, versions_job
from log_tier.concurrency.sized_work import Turn
from log_tier.model.errors import (
    CommandRejected,
    DeadlineExceeded,
    TableExists,
    TableNotFound,
    Unavailable,
)
from log_tier.model.identifiers import Offset, Partition, TableId, check_name
from log_tier.model.log import Bounds, Log
from log_tier.privacy.masked_url import check_no_secret
from log_tier.rows.table_spec import TableSpec
from router.admin.answers.changes import catalog_changes
from router.admin.answers.explain import explain_key
from router.admin.answers.listing import (
    known_bounds,
    list_lags,
    list_nodes,
    list_partitions,
    list_snapshots,
)
from router.admin.answers.node_client import AskNode
from router.admin.answers.verify import verify_partition
from router.admin.answers.versions import list_versions
from router.admin.audits.audit_data import audit_partition
from router.admin.audits.note_audit import note_audit
from router.admin.find_planner import planner_of
from router.admin.planners.cluster_view import Situation
from router.admin.planners.plan import Plan, check_plan
from router.admin.planners.restore import plan_restore_table
from router.admin.planners.resume import job_of, plan_abort, plan_resume
from router.admin.planners.shown_plan import Shown
from router.admin.planners.upkeep import LogBounds
from router.admin.planners.versions import clear_command, lacking, plan_stage
from router.admin.restore_offsets import restore_offsets
from router.admin.set_retention import set_retention
from router.admin.situations import job_answer, jobs_answer, plan_answer, plan_for, said_of
from router.admin.verbs import AdminChange, RestoreTable, Rollback, Stage, Swap, verb_of
from router.data.catalog_tables import CatalogTables
from router.membership.views import Membership
from router.proto import admin_pb2 as pb
from serving_tier.locations.allowed import ANY_LOCAL, AllowedLocations
from serving_tier.locations.opening import open_version
from serving_tier.node.staging import check_version_of
from serving_tier.versions.empty import empty_offsets, is_empty

__all__ = ["Admin", "OpenAdmin"]

# How often a job's progress is reported while nothing else happens to it.
_PROGRESS_S: Final = 0.5

# A replica that has just become level reports that to the catalog, and to this process within a heartbeat.
_HEARD_S: Final = 1.0

# A log that takes longer to answer is reported as silent: that is what the operator who asks for the lag needs to know.
_SILENT_S: Final = 3.0

_Planner = Callable[[Situation], Plan]

# In a plan that is only shown, a table that is yet to be made has this id.
_PLANNED: Final = TableId("planned")


class Admin:
    """Administers one cluster. `ask`: the way to one node's reads, for `explain`. `allowed`: the locations of
    versions that callers may name. All of it belongs to others.
    """

    def __init__(
        self, catalog: Catalog, log: Log, membership: Membership, ask: AskNode, allowed: AllowedLocations = ANY_LOCAL
    ) -> None:
        self._catalog = catalog
        self._log = log
        self._membership = membership
        self._ask = ask
        self._allowed = allowed
        self._tables = CatalogTables(log, catalog)

    async def _situation(self) -> Situation:
        await self._membership.measure()
        return Situation(await self._catalog.refresh(), self._membership.nodes())

    def _known(self) -> Situation:
        return Situation(self._catalog.map, self._membership.nodes())

    async def _bounds(self, situation: Situation, table: str) -> LogBounds:
        """The bounds of a table's log, or of all; a table that has just been dropped is left out."""
        tables = situation.tables(table)
        found: dict[TableId, list[Bounds]] = {}
        turn = Turn()
        for entry in tables:
            with suppress(TableNotFound):
                found[entry.id] = await self._log.all_bounds(entry.id)
            if turn.is_full(4 + entry.partitions):
                await turn.end()
        return found

    # --- questions

    async def nodes(self) -> list[pb.AdminNode]:
        """Every registered node; as it was last known while the log does not answer."""
        try:
            async with asyncio.timeout(_SILENT_S):
                situation = await self._situation()
        except (Unavailable, TimeoutError):
            situation = self._known()
        return await said_of(situation, list_nodes)

    async def partitions(self, table: str = "") -> list[pb.AdminPartition]:
        """Every partition of a table, or of all, and its replicas. One question to the log for each table."""
        situation = await self._situation()
        bounds = await self._bounds(situation, table)
        return await said_of(situation, lambda seen: list_partitions(seen, bounds, table=table), table=table)

    async def lag(self, table: str = "") -> list[pb.AdminLag]:
        """Every replica and how far it is behind, the furthest first."""
        try:
            async with asyncio.timeout(_SILENT_S):
                situation = await self._situation()
                bounds = await self._bounds(situation, table)
                return await said_of(situation, lambda seen: list_lags(seen, bounds, table=table), table=table)
        except (Unavailable, TimeoutError) as error:
            situation = self._known()
            why = f"the log does not answer: {str(error) or f'nothing came within {_SILENT_S:g} s'}"
            return await said_of(
                situation,
                lambda seen: list_lags(seen, known_bounds(seen, table), table=table, silent=why),
                table=table,
            )

    async def snapshots(self, table: str = "") -> list[pb.AdminSnapshot]:
        """The snapshots that the catalog knows."""
        situation = await self._situation()
        bounds = await self._bounds(situation, table)
        return await said_of(situation, lambda seen: list_snapshots(seen, bounds, table=table), table=table)

    async def versions(self, table: str = "") -> list[pb.AdminVersion]:
        """The versions of a table, or of all tables."""
        return await said_of(await self._situation(), lambda seen: list_versions(seen, table=table), table=table)

    async def log_ends(self, table: str) -> list[Offset]:
        """The latest offset of each partition of a table that this process knows. One question to the log."""
        return [each.latest for each in await self._log.all_bounds(self._catalog.map.find(table).id)]

    async def changes(self, request: pb.AdminChangesRequest) -> pb.AdminChanges:
        """The last commands of the catalog; see `router.admin.answers.changes`."""
        return await catalog_changes(self._catalog, self._log, request)

    async def jobs(self) -> list[pb.AdminJobSummary]:
        """The jobs that the catalog remembers: those that are not over first, then the newest."""
        return await jobs_answer(await self._situation())

    async def job(self, job_id: int) -> pb.AdminJob:
        """One job with its tasks. Raises `InvalidRequest`."""
        situation = await self._situation()
        return await job_answer(situation, job_of(situation.cluster, job_id))

    async def follow_job(self, job_id: int) -> AsyncIterator[pb.AdminJob]:
        """The job now, at every change, and with its progress every half second; ends with the job."""
        situation = await self._situation()
        shown: pb.AdminJob | None = None
        while True:
            job = job_of(situation.cluster, job_id)
            described = await job_answer(situation, job)
            if described != shown:
                shown = described
                yield described
            if job.state != "running":
                return
            version = situation.cluster.version
            with suppress(DeadlineExceeded):
                await self._catalog.wait_for(_newer_than(version), timeout=_PROGRESS_S)
            situation = Situation(self._catalog.map, self._membership.nodes())

    async def explain(self, table: str, key: bytes, *, writes: int = 10) -> pb.AdminExplanation:
        """Where a key is, what each replica holds, its last writes in the log; see `router.admin.answers.explain`."""
        return await explain_key(await self._situation(), self._log, self._ask, table=table, key=key, writes=writes)

    async def verify(
        self, table: str, partition: Partition | None = None, *, timeout: float = 120.0
    ) -> AsyncIterator[pb.AdminComparison]:
        """Compare the replicas of each partition of a table (of one), one after the other."""
        situation = await self._situation()
        entry = situation.table(table, partition)
        chosen = range(entry.partitions) if partition is None else [partition]
        for place in map(entry.partition, chosen):
            yield await verify_partition(situation, self._log, self._membership, place, timeout=timeout)
            situation = Situation(self._catalog.map, self._membership.nodes())

    async def audit_data(
        self, request: pb.AdminAuditDataRequest, *, timeout: float = 120.0
    ) -> AsyncIterator[pb.AdminMinute]:
        """Compare what the tiers of each partition of a table counted with what the log holds."""
        partition = Partition(request.partition) if request.HasField("partition") else None
        situation = await self._situation()
        entry = situation.table(request.table, partition)
        for place in map(entry.partition, range(entry.partitions) if partition is None else [partition]):
            for minute in await audit_partition(
                situation, self._log, self._membership, place, request, timeout=timeout
            ):
                yield minute
            situation = self._known()

    # --- changes

    async def start(
        self, change: AdminChange, *, dry_run: bool, plan_id: str = "", seen: Offset | None = None
    ) -> pb.AdminPlan:
        """Plan a change; begin it, unless `dry_run`. Returns the plan, with its job's id where one began.

        `plan_id`: begin that plan and no other, as it was shown; `seen`: and only if no job began since that version of
        the catalog. Raises `CommandRejected` where the cluster does not
        allow it, `InvalidRequest` and `TableNotFound` for what is not there, and what the catalog raises.
        """
        situation = await self._situation()
        if isinstance(change, RestoreTable):
            return await self._restore_table(situation, change, Shown(plan_id, seen), dry_run=dry_run)
        if isinstance(change, (Swap, Rollback)):
            situation = await self._heard(situation, change)
        plan = await plan_for(situation, await self._planner(situation, change))
        return await self._begin(situation, plan, Shown(plan_id, seen), dry_run=dry_run)

    async def clear(self, table: str, *, keep: int) -> int:
        """Begin to clear a table, and return the job: what a server does by itself, for `FLUSHDB`.

        Nobody is shown a plan, no node is looked at, and the catalog alone decides. Raises what `start` does.
        """
        entry = (await self._catalog.refresh()).find(table)
        job, _ = await self._catalog.submit(clear_command(entry, await self._log.all_bounds(entry.id), keep))
        return job

    async def until_free(self, table: str) -> None:
        """Return when no job changes the versions of a table that this process knows. Raises `TableNotFound`."""
        await self._catalog.wait_for(lambda cluster: versions_job(cluster, cluster.find(table).id) is None)

    async def ended(self, job_id: int) -> Job:
        """The job when it is over, however long that takes."""
        cluster = await self._catalog.wait_for(lambda cluster: job_of(cluster, job_id).state != "running")
        return cluster.jobs[job_id]

    async def set_retention(self, table: str, *, ms: int | None, size: int | None) -> pb.AdminRetention:
        """Change how much of its log a table keeps; see `router.admin.set_retention`."""
        situation = await self._situation()
        return await set_retention(self._catalog, self._log, situation, table=table, ms=ms, size=size)

    async def note_audit(self, request: pb.AdminNoteAuditRequest) -> pb.AdminNoteAuditReply:
        """Keep what an audit of a table's exports or of a session found; see `router.admin.audits.note_audit`."""
        return await note_audit(self._catalog, await self._situation(), request)

    async def abort(self, job_id: int, *, dry_run: bool) -> pb.AdminPlan:
        """Undo what a job has begun and not finished."""
        return await self._go_on(partial(plan_abort, job_id=job_id), job_id, dry_run=dry_run)

    async def resume(self, job_id: int, *, dry_run: bool) -> pb.AdminPlan:
        """Take up failed tasks again, and give those of lost nodes to live ones."""
        return await self._go_on(partial(plan_resume, job_id=job_id), job_id, dry_run=dry_run)

    async def _go_on(self, planner: _Planner, job_id: int, *, dry_run: bool) -> pb.AdminPlan:
        situation = await self._situation()
        plan = await plan_for(situation, planner)
        if not dry_run:
            await self._catalog.submit(plan.command)
        return await plan_answer(plan, situation.cluster.version, dry_run=dry_run, job=job_id)

    async def _planner(self, situation: Situation, change: AdminChange) -> _Planner:
        if isinstance(change, Stage):
            return await self._stage_planner(situation, change)
        verb, wanted = verb_of(change), change._asdict()
        if verb.reads_log:
            wanted["bounds"] = await self._bounds(situation, situation.table(wanted["table"]).name)
        return partial(planner_of(verb), **wanted)

    async def _heard(self, situation: Situation, change: Swap | Rollback) -> Situation:
        """The situation once every live replica has reported the version that the change is about, or `_HEARD_S` later:
        the catalog may know of it a status message earlier than this process.
        """
        if not lacking(situation, table=change.table, version=change.version):
            return situation
        with suppress(CommandRejected, DeadlineExceeded):
            await self._membership.wait_for(
                lambda: not lacking(self._known(), table=change.table, version=change.version), timeout=_HEARD_S
            )
        return self._known()

    async def _stage_planner(self, situation: Situation, change: Stage) -> _Planner:
        """The version is looked at from here first: what is not one of this table is refused before anything begins."""
        entry = situation.table(change.table)
        if change.url == EMPTY:
            bounds = await self._log.all_bounds(entry.id)
            change = change._replace(url=empty_url([each.latest for each in bounds], situation.cluster.version))
        if is_empty(change.url):
            empty_offsets(change.url, entry.partitions)
            return partial(plan_stage, **change._asdict())
        check_no_secret(change.url)
        version = await (await open_version(change.url, self._allowed)).get()
        check_version_of(entry, version.table, version.partitions, version.partitioner, change.url)
        sizes = [part.bytes for part in version.parts]
        return partial(plan_stage, table=change.table, url=change.url, part_bytes=sizes)

    async def _begin(self, situation: Situation, plan: Plan, shown: Shown, *, dry_run: bool) -> pb.AdminPlan:
        command, seen = shown.checked(plan, situation.cluster), situation.cluster.version
        if dry_run or not (plan.steps or plan.begins_empty):
            return await plan_answer(plan, seen, dry_run=dry_run)
        job, _ = await self._catalog.submit(command)
        return await plan_answer(plan, seen, dry_run=False, job=job)

    # --- a table as it was

    async def _restore_table(
        self, situation: Situation, change: RestoreTable, shown: Shown, *, dry_run: bool
    ) -> pb.AdminPlan:
        """Make the new table and begin to copy into it.

        A process that dies between the two leaves an empty table and no job; `restore` then says that the name is
        taken.
        """
        source = situation.table(change.table)
        check_name(change.target)
        if situation.cluster.named(change.target) is not None:
            raise TableExists(
                f"there is a table {change.target!r} already, and a restore makes a new one: choose another name",
                table=change.target,
            )
        offsets = await restore_offsets(situation, self._log, source, change)
        replicas = min(source.replicas, max(1, len(candidates(situation.cluster))))
        plan = plan_restore_table(situation, table=source, target=_PLANNED, target_name=change.target, offsets=offsets)
        planned = CreateTable(_PLANNED, change.target, source.partitions, replicas, source.partitioner)
        check_plan(check_plan(situation.cluster, planned), plan.command)
        shown.checked(plan, situation.cluster)
        if dry_run:
            return await plan_answer(plan, situation.cluster.version, dry_run=True)
        spec = TableSpec(
            change.target, source.partitions, replicas, partitioner=source.partitioner, definition=source.definition
        )
        made = await self._tables.create(spec)
        plan = plan_restore_table(situation, table=source, target=made.id, target_name=change.target, offsets=offsets)
        try:
            job, _ = await self._catalog.submit(plan.command)
        except CommandRejected:
            await self._tables.drop(change.target)
            raise
        return await plan_answer(plan, situation.cluster.version, dry_run=False, job=job)

    async def close(self) -> None:
        """Carry through what was begun. Idempotent."""
        await self._tables.close()


def _newer_than(version: Offset) -> Callable[[Any], bool]:
    return lambda cluster: cluster.version > version


OpenAdmin = Callable[[], Awaitable[Admin]]
"""Gives the administration, opened where it was not yet (`router.admin.lazy.admin_on_demand`)."""
