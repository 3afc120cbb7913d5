"""A cluster with TLS and users whose log is a Kafka with SASL_SSL and ACLs: real processes, end to end."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from kit.certs_at_hand import CertsAtHand
from kit.client.server_process import run_duramen
from kit.cluster.up_cluster import UpCluster
from kit.deadlines import patience_s, wait_until
from kit.kafka.kafka_brokers import skip_where_there_is_no_kafka
from kit.kafka.secured_broker import PASSWORD, SecuredBroker

import duramen
from duramen.blocking import Database

pytestmark = pytest.mark.kafka

WRONG: Final = "wrong-battery-9037"


class SecuredCluster:
    """`duramen up --nodes 3 --log kafka://… --certs … --first-user admin`, and its broker."""

    def __init__(self, folder: Path, broker: SecuredBroker) -> None:
        self.folder, self.broker = folder, broker
        self.certs = CertsAtHand(folder, hosts=("localhost", "127.0.0.1"))
        self.admin_file = folder / "admin.token"
        broker.allow("duramen")
        log = broker.url("duramen", broker.properties(folder / "kafka.properties"))
        self.processes = UpCluster(folder, certs=self.certs.path, token_file=self.admin_file, log=log)

    def connect(self, name: str, token_file: Path) -> Database:
        target = f"duramens://localhost:{self.processes.ports[name]}"
        return duramen.connect(target, ca=self.certs.ca, token_file=token_file, timeout=patience_s(30))

    def admin(self, *words: str) -> str:
        """A command of the administrator, and what it prints."""
        at = f"duramens://localhost:{self.processes.port}"
        done = run_duramen("--token-file", str(self.admin_file), *words, "--at", at, "--ca", str(self.certs.ca))
        assert done.returncode == 0, f"{words}: {done.stderr}"
        return done.stdout

    def rows(self, *words: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.admin(*words, "--json").splitlines()]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredCluster]:
    skip_where_there_is_no_kafka()
    folder = tmp_path_factory.mktemp("cluster")
    with SecuredBroker(folder / "broker") as broker:
        made = SecuredCluster(folder, broker)
        try:
            made.admin("grant", "admin", "read,write", "*")
            made.admin("table", "create", "orders", "--partitions", "3", "--replicas", "2")
            yield made
        finally:
            made.processes.close()


def test_a_user_writes_at_one_node_and_reads_at_another(cluster: SecuredCluster) -> None:
    token_file = cluster.folder / "alice.token"
    cluster.admin("user", "add", "alice", "--token-file", str(token_file), "--grant", "read,write orders")
    with cluster.connect("n1", token_file) as one, cluster.connect("n3", token_file) as other:
        done = [one.table("orders").put(b"k%d" % number, b"v") for number in range(20)]
        for number, each in enumerate(done):
            assert other.table("orders").get(b"k%d" % number, after=each.token) == b"v"
        with pytest.raises(duramen.PermissionDenied):
            other.drop_table("orders")
    cluster.admin("grant", "admin", "read", "_duramen_audit")
    wait_until(lambda: any(row["table"] == "orders" for row in cluster.rows("audit", "--user", "alice", "--refused")))


def test_a_node_is_restored(cluster: SecuredCluster) -> None:
    with cluster.connect("router", cluster.admin_file) as database:
        orders = database.table("orders")
        for number in range(20):
            orders.put(b"r%d" % number, b"v")
        cluster.admin("admin", "snapshot", "orders")
        cluster.admin("admin", "restore", "n2")
        wait_until(lambda: all(job["state"] == "done" for job in cluster.rows("admin", "jobs")))
        assert [orders.get(b"r%d" % number, level="strong") for number in range(20)] == [b"v"] * 20
        cluster.admin("admin", "verify", "orders")


def test_an_acl_that_is_missing_is_named_to_users(cluster: SecuredCluster) -> None:
    """By servers, to their clients; what was acknowledged is there, and writes go on when the ACL is back."""
    broker, topic = cluster.broker, "duramen.orders"
    with cluster.connect("router", cluster.admin_file) as database:
        orders = database.table("orders")
        orders.put(b"before", b"v")
        broker.deny("Write", topic)
        try:
            with pytest.raises(duramen.AccessDenied, match=f"allow it Write on topic {topic}"):
                orders.put(b"denied", b"v")
            assert orders.get(b"before", level="strong") == b"v"
            assert orders.get(b"denied", level="strong") is None
        finally:
            broker.give_back("Write", topic)

        def works() -> bool:
            try:
                orders.put(b"after", b"v")
            except duramen.AccessDenied:
                return False
            return True

        wait_until(works)
        assert orders.get(b"after", level="strong") == b"v"


def test_the_password_is_nowhere_to_be_seen(cluster: SecuredCluster, tmp_path: Path) -> None:
    """In no argument, log, answer or error; in the one file that only its user can read."""
    questions = (("nodes",), ("jobs",), ("lag", "orders"), ("partitions", "orders"), ("explain", "orders", "k1"))
    shown = "".join(cluster.admin("admin", *question, "--json") for question in questions)
    wrong = cluster.broker.properties(tmp_path / "wrong.properties", password=WRONG)
    url = cluster.broker.url("duramen", wrong)
    refused = run_duramen("up", "--data", str(tmp_path / "data"), "--port", "0", "--log", url)
    assert refused.returncode != 0
    assert "see the TLS and SASL settings of the kafka:// URL" in refused.stderr
    shown += refused.stdout + refused.stderr
    for pid in (cluster.processes.process.pid, *cluster.processes.pids.values()):
        shown += Path(f"/proc/{pid}/cmdline").read_bytes().decode()
    data = cluster.folder / "data"
    logs = [cluster.folder / "cluster.log", *data.rglob("*.err")]
    assert len(logs) >= 5, f"of the supervisor, three nodes and the router: {logs}"
    shown += "".join(log.read_text() for log in logs)
    for secret in (PASSWORD, WRONG):
        assert secret not in shown
        kept = [file for file in data.rglob("*") if file.is_file() and secret.encode() in file.read_bytes()]
        assert not kept, f"indexes and settings of nodes hold {secret}"
        records = [file.read_bytes() for file in (cluster.folder / "broker" / "kafka").rglob("duramen.*/*.log")]
        assert sum(map(len, records)) > 0
        assert secret.encode() not in b"".join(records), "a record of the log holds it"
    assert (cluster.folder / "kafka.properties").stat().st_mode & 0o077 == 0
