"""The log of a cluster with certificates, as its router passes it on to users: tables, by grants, and nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from kit.certs_at_hand import CertsAtHand
from kit.client.server_process import run_duramen
from kit.cluster.up_cluster import UpCluster
from kit.deadlines import patience_s

import duramen
from log_tier.catalog.catalog import CATALOG_TOPIC
from log_tier.catalog.remote.cluster_view import fetch_view
from log_tier.model.batch import Columns, encode_batch
from log_tier.model.errors import DuramenError, PermissionDenied, Unauthenticated
from log_tier.model.identifiers import AUDIT_TABLE, Offset, Partition, PartitionId, TableId
from log_tier.remote.remote_log import RemoteLog
from log_tier.rpc.security import secured
from spark_bulk.source.model.cluster_login import ClusterLogin

pytestmark = pytest.mark.embedded_log_only

GRANTS = {
    "alice": ("read,write", "orders"),
    "reader": ("read", "orders"),
    "europe": ("read,write", "orders", "--key", "eu:"),
    "everything": ("read,write", "*"),
    "stranger": ("read", "ships"),
}


class PassedCluster:
    """Three nodes and a router, with users, and a table `orders` of one partition."""

    def __init__(self, folder: Path, *, users: bool) -> None:
        self.folder = folder
        self.certs = CertsAtHand(folder, hosts=("localhost", "127.0.0.1"))
        self.processes = UpCluster(folder, certs=self.certs.path, token_file=self.file_of("admin") if users else None)
        self.at = f"duramens://localhost:{self.processes.port}"

    def file_of(self, user: str) -> Path:
        return self.folder / f"{user}.token"

    def admin(self, *words: str) -> None:
        done = run_duramen(
            "--token-file", str(self.file_of("admin")), *words, "--at", self.at, "--ca", str(self.certs.ca)
        )
        assert done.returncode == 0, f"{words}: {done.stderr}"

    def add_user(self, name: str, *grant: str) -> None:
        self.admin("user", "add", name, "--token-file", str(self.file_of(name)))
        self.admin("grant", name, *grant)

    @asynccontextmanager
    async def log(self, user: str) -> AsyncIterator[RemoteLog]:
        """The router's log, as a user calls it; empty: nobody."""
        login = ClusterLogin.of(self.at, ca=self.certs.ca, token_file=self.file_of(user) if user else None)
        with login.used():
            log = await RemoteLog.open(login.servers[0])
        try:
            yield log
        finally:
            await log.close()

    async def catalog(self) -> TableId:
        """The topic of the catalog, of which the log tells servers."""
        with secured(self.certs.client("server")):
            log = await RemoteLog.open(f"localhost:{self.processes.ports['log']}")
        try:
            return next(topic.id for topic in await log.topics() if topic.name == CATALOG_TOPIC)
        finally:
            await log.close()

    async def partition(self, user: str, table: str = "orders") -> PartitionId:
        login = ClusterLogin.of(self.at, ca=self.certs.ca, token_file=self.file_of(user) if user else None)
        with login.used():
            view = await fetch_view(login.servers[0], timeout=patience_s(20))
        assert (view.passes_log, view.log_url) == (True, "")
        return view.map.find(table).topic.partition(Partition(0))


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PassedCluster]:
    made = PassedCluster(tmp_path_factory.mktemp("passed"), users=True)
    try:
        made.admin("grant", "admin", "read,write", "*")
        for user, grant in GRANTS.items():
            made.add_user(user, *grant)
        with duramen.connect(made.at, ca=made.certs.ca, token_file=made.file_of("admin")) as database:
            database.create_table("orders", partitions=1).put_many([(b"%d" % each, b"v") for each in range(10)])
        yield made
    finally:
        made.processes.close()


async def read_all(log: RemoteLog, partition: PartitionId) -> int:
    return sum([len(chunk.data) async for chunk in log.read(partition, Offset(0), follow=False)])


async def append(log: RemoteLog, partition: PartitionId, *keys: bytes) -> None:
    (outcome,) = await log.append_many([(partition, encode_batch(Columns(list(keys), [b"new"] * len(keys))))])
    if isinstance(outcome, DuramenError):
        raise outcome


CALLS: dict[str, Callable[[RemoteLog, PartitionId], Awaitable[Any]]] = {
    "read": read_all,
    "bounds": RemoteLog.bounds,
    "all_bounds": lambda log, partition: log.all_bounds(partition.table),
    "append eu:": lambda log, partition: append(log, partition, b"eu:1"),
    "append both": lambda log, partition: append(log, partition, b"eu:1", b"us:1"),
}
ALLOWED = {
    "alice": set(CALLS),
    "everything": set(CALLS),
    "reader": {"read", "bounds", "all_bounds"},
    "europe": {"bounds", "all_bounds", "append eu:"},
    "stranger": set(),
}


@pytest.mark.parametrize("user", ALLOWED)
async def test_each_call_is_as_far_as_the_grants_go(cluster: PassedCluster, user: str) -> None:
    partition = await cluster.partition("admin")
    async with cluster.log(user) as log:
        for name, call in CALLS.items():
            if name in ALLOWED[user]:
                await call(log, partition)
            else:
                with pytest.raises(PermissionDenied, match=user):
                    await call(log, partition)


async def test_nobody_is_let_in(cluster: PassedCluster) -> None:
    partition = await cluster.partition("admin")
    async with cluster.log("") as log:
        for call in CALLS.values():
            with pytest.raises(Unauthenticated):
                await call(log, partition)


async def test_what_is_no_users_table_is_for_servers(cluster: PassedCluster) -> None:
    """A grant for everything shows the audit and writes nothing there; no grant is about the catalog."""
    audit = await cluster.partition("admin", AUDIT_TABLE)
    async with cluster.log("alice") as log:
        with pytest.raises(PermissionDenied):
            await read_all(log, audit)
    async with cluster.log("everything") as log:
        with pytest.raises(PermissionDenied):
            await append(log, audit, b"forged")
        for topic in (await cluster.catalog(), TableId("A" * 22)):
            for call in CALLS.values():
                with pytest.raises(PermissionDenied):
                    await call(log, PartitionId(topic, Partition(0)))
        partition = await cluster.partition("admin")
        for upkeep in (log.topics(), log.trim(partition, Offset(1)), log.compact(partition, Offset(1))):
            with pytest.raises(PermissionDenied):
                await upkeep


async def test_an_open_read_ends_when_its_grant_goes(cluster: PassedCluster) -> None:
    cluster.add_user("passing", "read", "orders")
    partition = await cluster.partition("admin")
    begun = asyncio.Event()

    async def follow() -> None:
        async with cluster.log("passing") as log, aclosing(log.read(partition, Offset(0), follow=True)) as chunks:
            async for _ in chunks:
                begun.set()

    async with asyncio.timeout(patience_s(60)):
        reading = asyncio.create_task(follow())
        await begun.wait()
        await asyncio.to_thread(cluster.admin, "revoke", "passing", "read", "orders")
        with pytest.raises(PermissionDenied, match=r"passing.*read orders"):
            await reading


async def test_without_users_the_log_stays_the_servers_own(tmp_path: Path) -> None:
    made = PassedCluster(tmp_path, users=False)
    try:
        with duramen.connect(made.at, ca=made.certs.ca) as database:
            database.create_table("orders", partitions=1).put(b"k", b"v")
        partition = await made.partition("")
        async with made.log("") as log:
            for call in CALLS.values():
                with pytest.raises(PermissionDenied, match="no users"):
                    await call(log, partition)
    finally:
        made.processes.close()
