"""What is said of a whole cluster is said by threads, or in many turns of the event loop: counted, not timed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from types import ModuleType
from typing import Final

import grpc
import pytest
from kit.client.grpc_stubs import GrpcStubs, served
from kit.client.grpc_thread import GrpcThread
from kit.deadlines import wait_until
from kit.resp.loop_turns import LoopTurns

from log_tier.catalog import commands, job_fold
from log_tier.catalog import service as map_service
from log_tier.catalog.map_json import MapTexts
from log_tier.concurrency import sized_work
from log_tier.concurrency.sized_work import AT_ONCE_ITEMS_MAX, CALLS_AT_ONCE_MAX
from log_tier.embedded.engine import EmbeddedLog
from log_tier.proto import cluster_pb2
from router.admin.answers import jobs, listing, plans, versions
from router.admin.messages import start_request
from router.admin.planners import upkeep
from router.admin.verbs import TakeSnapshots
from router.data import catalog_tables as tables_of_the_log
from router.data import watch
from router.endpoints.grpc import services
from router.proto import admin_pb2, keyvalue_pb2, tables_pb2
from serving_tier.index.lmdb.lmdb_index import LmdbIndex
from serving_tier.proto import node_pb2
from serving_tier.service import status_feed

PARTITIONS: Final = 400


class Listings(GrpcStubs):
    """A table of many partitions, and what lists them."""

    def __init__(self, server: GrpcThread, channel: grpc.Channel) -> None:
        super().__init__(server, channel)
        self.wide = self.tables.Create(tables_pb2.CreateTableRequest(name="wide", partitions=PARTITIONS)).id

    def partitions(self) -> None:
        found = self.admin.Partitions(admin_pb2.AdminTableRequest()).partitions
        assert [each.partition for each in found] == list(range(PARTITIONS))
        assert {each.replicas[0].state for each in found} == {"ready"}

    def lag(self) -> None:
        assert len(self.admin.Lag(admin_pb2.AdminTableRequest(table="wide")).replicas) == PARTITIONS

    def versions(self) -> None:
        (version,) = self.admin.Versions(admin_pb2.AdminTableRequest()).versions
        assert (version.replicas, version.level) == (PARTITIONS, PARTITIONS)

    def status(self) -> None:
        (message,) = self.node.Status(node_pb2.StatusRequest(once=True))
        assert {each.partition for each in message.replicas} == set(range(PARTITIONS))

    def watch(self) -> None:
        """A watch of every partition, from its begin to its end."""
        stream = self.data.Watch(keyvalue_pb2.WatchRequest(table_id=self.wide))
        assert len(next(stream).positions) == PARTITIONS
        wait_until(lambda: self.watching() == PARTITIONS)
        stream.cancel()
        wait_until(lambda: self.watching() == 0)

    def watching(self) -> int:
        """How many partitions are followed for watches now."""

        async def count() -> int:
            return sum(task.get_name().startswith("watch ") for task in asyncio.all_tasks())

        return asyncio.run_coroutine_threadsafe(count(), self.server.loop).result()

    def producer(self) -> None:
        assert not self.data.Producer(keyvalue_pb2.ProducerRequest(table_id=self.wide, producer_id=7)).positions

    def plan(self) -> admin_pb2.AdminPlan:
        """A plan that is shown, of a snapshot of every partition."""
        plan = self.admin.Start(start_request(TakeSnapshots(), dry_run=True))
        assert isinstance(plan, admin_pb2.AdminPlan)
        assert len(plan.steps) == PARTITIONS
        return plan

    def job(self) -> None:
        """A job of as many tasks, from its begin to its abortion."""
        plan = self.admin.Start(start_request(TakeSnapshots(), dry_run=False))
        (job,) = self.admin.Job(admin_pb2.AdminJobRequest(job=plan.job))
        assert (len(plan.steps), len(job.task_list)) == (PARTITIONS, PARTITIONS)
        self.admin.Abort(admin_pb2.AdminGoOnRequest(job=plan.job))

    def map(self) -> cluster_pb2.ClusterView:
        (view,) = self.cluster.Follow(cluster_pb2.FollowRequest(once=True))
        assert isinstance(view, cluster_pb2.ClusterView)
        return view


@pytest.fixture(scope="module")
def listings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Listings]:
    with served(tmp_path_factory.mktemp("grpc listings"), Listings) as opened:
        yield opened


IN_THREADS: Final[dict[str, tuple[Callable[[Listings], None], ModuleType, str]]] = {
    "partitions": (Listings.partitions, listing, "_partition"),
    "lag": (Listings.lag, listing, "_replica"),
    "versions": (Listings.versions, versions, "has_version"),
    "the messages of a status": (Listings.status, status_feed, "status_message"),
}


@pytest.mark.parametrize("name", IN_THREADS)
def test_what_a_thread_says(listings: Listings, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    work, owner, function = IN_THREADS[name]
    with LoopTurns(listings.server, monkeypatch, owner, function) as counted:
        work(listings)
    assert (counted.calls, counted.elsewhere) == (0, PARTITIONS)


PLANNED_IN_THREADS: Final[dict[str, tuple[Callable[[Listings], object], ModuleType, str, int]]] = {
    "the steps of a plan": (Listings.plan, upkeep, "_worker", 1),
    "a plan tried on the map": (Listings.plan, job_fold, "_begin", 1),
    "a plan's answer": (Listings.plan, plans, "argument_messages", 1),
    "a job's command": (Listings.job, commands, "_built", 0),
    "a job's tasks on the map": (Listings.job, job_fold, "_begin", 2),
    "a job's answer": (Listings.job, jobs, "_source", 1),
}
"""What is worked on, what does it, and how often at least for each partition."""


@pytest.mark.parametrize("name", PLANNED_IN_THREADS)
def test_what_a_thread_plans(listings: Listings, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    work, owner, function, times = PLANNED_IN_THREADS[name]
    with LoopTurns(listings.server, monkeypatch, owner, function) as counted:
        work(listings)
    assert counted.most_in_one_turn <= AT_ONCE_ITEMS_MAX / 10
    assert counted.elsewhere >= max(1, times * PARTITIONS)


@pytest.mark.parametrize("ask", [Listings.status, Listings.partitions])
def test_replicas_are_looked_at_some_at_a_time(
    listings: Listings, monkeypatch: pytest.MonkeyPatch, ask: Callable[[Listings], None]
) -> None:
    with LoopTurns(listings.server, monkeypatch, status_feed, "status_of") as counted:
        ask(listings)
    assert (counted.calls, counted.elsewhere) == (PARTITIONS, 0)
    assert counted.most_in_one_turn <= AT_ONCE_ITEMS_MAX / 5


SPREAD: Final[dict[str, tuple[Callable[[Listings], None], type | ModuleType, str]]] = {
    "where a watch begins": (Listings.watch, EmbeddedLog, "bounds"),
    "a watch's followers": (Listings.watch, watch, "_follow"),
    "a producer's places": (Listings.producer, LmdbIndex, "producer"),
}


@pytest.mark.parametrize("name", SPREAD)
def test_partitions_are_worked_on_some_at_a_time(
    listings: Listings, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    work, owner, function = SPREAD[name]
    with LoopTurns(listings.server, monkeypatch, owner, function) as counted:
        work(listings)
    assert counted.calls >= PARTITIONS
    assert counted.most_in_one_turn <= AT_ONCE_ITEMS_MAX / 10


def test_a_watchs_followers_end_some_at_a_time(listings: Listings, monkeypatch: pytest.MonkeyPatch) -> None:
    with LoopTurns(listings.server, monkeypatch, sized_work, "end_tasks") as counted:
        listings.watch()
    assert counted.calls >= PARTITIONS / CALLS_AT_ONCE_MAX


def test_many_tables_are_listed_in_threads(listings: Listings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables_of_the_log, "REF_ITEMS", 2 * AT_ONCE_ITEMS_MAX)
    monkeypatch.setattr(services, "REF_ITEMS", 2 * AT_ONCE_ITEMS_MAX)
    for owner, function in ((tables_of_the_log, "listed"), (services, "table_message")):
        with LoopTurns(listings.server, monkeypatch, owner, function) as counted:
            assert [each.name for each in listings.tables.List(tables_pb2.ListTablesRequest()).tables] == ["wide"]
        assert (counted.calls, counted.elsewhere) == (0, 1)


def test_followers_of_one_status_miss_nothing(listings: Listings) -> None:
    def first() -> int:
        stream = listings.node.Status(node_pb2.StatusRequest())
        try:
            return len(next(stream).replicas)
        finally:
            stream.cancel()

    with ThreadPoolExecutor(8) as callers:
        assert {call.result() for call in [callers.submit(first) for _ in range(8)]} == {PARTITIONS}


def test_followers_share_one_map_which_a_thread_encodes(listings: Listings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(map_service, "TABLE_ITEMS", 2 * AT_ONCE_ITEMS_MAX)
    tables = listings.tables
    with LoopTurns(listings.server, monkeypatch, MapTexts, "encode") as counted:
        tables.Create(tables_pb2.CreateTableRequest(name="another", partitions=1))
        try:
            with ThreadPoolExecutor(8) as callers:
                views = [call.result() for call in [callers.submit(listings.map) for _ in range(8)]]
        finally:
            tables.Drop(tables_pb2.FindTableRequest(name="another"))
    assert all(b'"another"' in view.map for view in views)
    assert (counted.calls, counted.elsewhere) == (0, 1)
