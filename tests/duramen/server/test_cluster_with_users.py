"""A cluster of real processes whose catalog has users: TLS for clients, mutual TLS between servers, grants at each."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import redis
from kit.certs_at_hand import CertsAtHand
from kit.client.command_line import run_here
from kit.client.server_process import run_duramen
from kit.cluster.up_cluster import UpCluster
from kit.deadlines import patience_s, wait_until
from redis.backoff import NoBackoff
from redis.retry import Retry

import duramen
from duramen.blocking import Database
from log_tier.access.tokens import read_token

pytestmark = pytest.mark.embedded_log_only


class ClusterOfUsers:
    """Three nodes, and what a client of it needs."""

    def __init__(self, folder: Path) -> None:
        self.certs = CertsAtHand(folder, hosts=("localhost", "127.0.0.1"))
        self.admin_file = folder / "admin.token"
        self.processes = UpCluster(folder, certs=self.certs.path, token_file=self.admin_file)

    def connect(self, name: str = "router", **proof: Any) -> Database:
        target = f"duramens://localhost:{self.processes.ports[name]}"
        return duramen.connect(target, ca=self.certs.ca, timeout=patience_s(30), **proof)

    def admin(self, *words: str) -> str:
        """A command of the administrator, and what it prints."""
        at = f"duramens://localhost:{self.processes.port}"
        done = run_here("--token-file", str(self.admin_file), *words, "--at", at, "--ca", str(self.certs.ca))
        assert done.returncode == 0, f"{words}: {done.stderr}"
        return done.stdout

    def redis(self, name: str, user: str, secret: str) -> redis.Redis:
        return redis.Redis(
            "localhost",
            self.processes.endpoints[name],
            username=user,
            password=secret,
            ssl=True,
            ssl_ca_certs=str(self.certs.ca),
            retry=Retry(NoBackoff(), 0),  # a wrong password is wrong the second time, too
        )


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterOfUsers]:
    made = ClusterOfUsers(tmp_path_factory.mktemp("users"))
    try:
        with made.connect(token_file=made.admin_file) as db:
            db.create_table("orders", partitions=6, replicas=2)
            db.create_table("ships", partitions=2)
        made.admin("grant", "admin", "read,write", "*")
        made.admin("user", "add", "alice", "--token-file", str(made.admin_file.parent / "alice.token"))
        made.admin("grant", "alice", "read,write", "orders")
        yield made
    finally:
        made.processes.close()


@pytest.fixture
def alice(cluster: ClusterOfUsers) -> str:
    return (cluster.admin_file.parent / "alice.token").read_text().strip()


@pytest.mark.parametrize("name", ["router", "n1", "n2", "n3"])
def test_a_user_works_at_every_server(cluster: ClusterOfUsers, alice: str, name: str) -> None:
    with cluster.connect(name, token=alice) as db:
        orders = db.table("orders")
        keys = [f"{name}{number}".encode() for number in range(30)]
        for key in keys:
            orders.put(key, b"v")
        assert [orders.get(key) for key in keys] == [b"v"] * 30
        assert orders.get(keys[0], level="strong") == b"v"
        assert set(keys) <= {key for key, *_ in orders.scan()}
        with closing(orders.watch()) as changes:
            orders.put(b"watched", b"1")
            assert next(changes).key == b"watched"
        with pytest.raises(duramen.PermissionDenied, match="what is missing is 'read ships"):
            # She is shown no such table, so her client asks a server for it by its name.
            db.table("ships").put(b"k", b"v")
        with pytest.raises(duramen.PermissionDenied, match="admin orders"):
            db.drop_table("orders")


@pytest.mark.parametrize("name", ["router", "n1", "n2", "n3"])
def test_nobody_is_let_in(cluster: ClusterOfUsers, name: str) -> None:
    with pytest.raises(duramen.Unauthenticated):
        cluster.connect(name).table("orders").get(b"k")


@pytest.mark.parametrize("name", ["router", "n1"])
def test_commands_of_the_redis_protocol(cluster: ClusterOfUsers, alice: str, name: str) -> None:
    read = read_token(alice)
    assert read is not None, "the file holds a token"
    with cluster.redis(name, read.user, alice) as client:
        client.execute_command("SELECT", "orders")
        assert client.set("redis", "1")
        assert client.get("redis") == b"1"
        with pytest.raises(redis.exceptions.NoPermissionError):
            client.flushdb()
    with cluster.redis(name, "alice", "wrong password") as client, pytest.raises(redis.exceptions.AuthenticationError):
        client.ping()


def test_a_revocation_holds_at_every_server(cluster: ClusterOfUsers) -> None:
    """For calls on connections that are open, and for one that watches."""
    token_file = cluster.admin_file.parent / "bob.token"
    cluster.admin("user", "add", "bob", "--token-file", str(token_file), "--grant", "read,write orders")
    databases = [cluster.connect(name, token_file=token_file) for name in ("router", "n1", "n2", "n3")]
    try:
        for db in databases:
            wait_until(lambda db=db: db.table("orders").put(b"bob", b"v") is not None)  # type: ignore[misc]
        cluster.admin("revoke", "bob", "read,write", "orders")

        def refused(db: Database) -> bool:
            try:
                db.table("orders").get(b"bob")
            except duramen.PermissionDenied:
                return True
            return False

        for db in databases:
            wait_until(lambda db=db: refused(db))  # type: ignore[misc]
            assert refused(db), "and stays so"
    finally:
        for db in databases:
            db.close()


@pytest.mark.parametrize("shows", ["nothing", "what another CA signed", "a user's"])
def test_a_node_of_a_stolen_disk_is_no_member(cluster: ClusterOfUsers, tmp_path: Path, shows: str) -> None:
    """A copy of a node's folder is started while its cluster works: it ends at once, and nobody hears of it."""
    folder = cluster.admin_file.parent
    shutil.copytree(folder / "data" / "nodes" / "n2", tmp_path / "n2", ignore=shutil.ignore_patterns("*.sock"))
    arguments = ["serve", "node", "--id", "n2", "--data", str(tmp_path / "n2"), "--port", "0", "--take-over"]
    arguments += ["--log", f"grpc://localhost:{cluster.processes.ports['log']}"]
    if shows != "nothing":
        (tmp_path / "certs").mkdir()
        if shows == "a user's":
            client = cluster.certs.issue("thief", user=True)
        else:
            client = CertsAtHand(tmp_path / "others").client("server")._replace(ca=cluster.certs.ca)
        for source, name in zip(client, ("ca.crt", "server.crt", "server.key"), strict=True):
            assert source is not None
            shutil.copy(source, tmp_path / "certs" / name)
        arguments += ["--certs", str(tmp_path / "certs")]
    before = cluster.admin("admin", "nodes", "--json")
    ended = run_duramen(*arguments)
    assert ended.returncode != 0
    [line] = ended.stderr.splitlines()
    assert ("no server's certificate" if shows == "a user's" else "closes on who shows no valid one") in line
    assert addresses_in(cluster.admin("admin", "nodes", "--json")) == addresses_in(before)
    with cluster.connect("n2", token_file=cluster.admin_file) as db:
        db.table("orders").put(b"after the thief", b"v")
        assert db.table("orders").get(b"after the thief", level="strong") == b"v"


def addresses_in(nodes: str) -> list[tuple[str, str]]:
    return [(node["node"], node["address"]) for node in map(json.loads, nodes.splitlines())]


def test_servers_are_administered_by_those_who_may(cluster: ClusterOfUsers, alice: str) -> None:
    cluster.admin("admin", "nodes")
    cluster.admin("admin", "verify", "orders")
    with cluster.connect(token=alice) as db, pytest.raises(duramen.PermissionDenied):
        db.create_table("new")


def test_the_audit_says_who_did_what(cluster: ClusterOfUsers, alice: str) -> None:
    cluster.admin("grant", "admin", "read", "_duramen_audit")
    for name in ("router", "n1"):
        with cluster.connect(name, token=alice) as db, pytest.raises(duramen.PermissionDenied):
            db.table("ships").get(b"k")

    def rows(*words: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in cluster.admin("audit", "--json", *words).splitlines()]

    def refused_at() -> int:
        return sum(row["table"] == "ships" for row in rows("--user", "alice", "--refused"))

    wait_until(lambda: refused_at() >= 2)
    changes = [row for row in rows("--user", "admin") if row["kind"] == "change"]
    assert any("alice" in row["detail"] for row in changes), f"no change of alice is in {changes}"
    assert all(row["offset"] >= 0 for row in changes)
    everything = json.dumps(rows())
    assert alice not in everything, "a token is in the audit"
    assert cluster.admin_file.read_text().strip() not in everything, "a token is in the audit"
    with cluster.connect(token_file=cluster.admin_file) as db:
        for forbidden in (lambda: db.table("_duramen_audit").put(b"k", b"v"), lambda: db.drop_table("_duramen_audit")):
            with pytest.raises(duramen.DuramenError):
                forbidden()
