"""A cluster on one machine, its clients on another one, and a firewall between: only servers reach the log."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from kit.certs_at_hand import CertsAtHand
from kit.cluster.up_cluster import UpCluster
from kit.deadlines import patience_s
from kit.two_machines import TwoMachines, missing

pytestmark = pytest.mark.embedded_log_only

COMMAND_S: Final = 60.0

# Whether a port answers a connection, from where it runs.
KNOCK: Final = """
import socket, sys
try:
    socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=3).close()
except OSError as error:
    sys.exit(f"no: {type(error).__name__}")
print("yes")
"""

# A call of the log by who has a certificate.
TOPICS: Final = """
import sys
from pathlib import Path
import grpc
from duramen.certificates.channel_files import ChannelFiles
from log_tier.rpc.security import channel_credentials
with grpc.secure_channel(sys.argv[1], channel_credentials(ChannelFiles(*map(Path, sys.argv[2:])))) as channel:
    try:
        channel.unary_unary("/duramen.v1.Log/Topics", None, None)(b"", timeout=5)
        print("answered")
    except grpc.RpcError as error:
        print("no", error.code().name)
"""

# A client that routes by itself, as programs do: puts and gets, a scan, a watch.
PROGRAM: Final = """
import sys
from contextlib import closing
import duramen
target, token_file, ca = sys.argv[1:]
with duramen.connect(target, token_file=token_file, ca=ca, timeout=30) as database:
    orders = database.table("orders")
    for number in range(50):
        orders.put(b"p%d" % number, b"v")
    assert [orders.get(b"p%d" % number, level="strong") for number in range(50)] == [b"v"] * 50
    assert sum(key.startswith(b"p") for key, *_ in orders.scan()) == 50
    with closing(orders.watch()) as changes:
        orders.put(b"watched", b"1")
        assert next(changes).key == b"watched"
    try:
        database.drop_table("orders")
    except duramen.PermissionDenied:
        print("works")
"""


class Firewalled:
    """The machines, a cluster on the servers' one, and how clients call it."""

    def __init__(self, folder: Path, machines: TwoMachines) -> None:
        self.machines = machines
        self.certs = CertsAtHand(folder, hosts=("localhost", machines.address))
        self.certs.issue("alice", user=True)
        self.admin_file = folder / "admin.token"
        self.user_file = folder / "alice.token"
        self.cluster = UpCluster(
            folder,
            certs=self.certs.path,
            token_file=self.admin_file,
            host=machines.address,
            within=machines.within(machines.servers),
        )

    def run(self, machine: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Python on one of the machines."""
        return subprocess.run(
            [*self.machines.within(machine), sys.executable, *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=patience_s(COMMAND_S),
            check=False,
        )

    def duramen(self, *words: str, name: str = "router", token: bool = True) -> subprocess.CompletedProcess[str]:
        """A command on the clients' machine."""
        at = f"duramens://{self.machines.address}:{self.cluster.ports[name]}"
        proof = ("--token-file", str(self.admin_file)) if token else ()
        return self.run(self.machines.clients, "-m", "duramen", *proof, *words, "--at", at, "--ca", str(self.certs.ca))

    def reaches(self, machine: str, port: int) -> bool:
        done = self.run(machine, "-c", KNOCK, self.machines.address, str(port))
        assert done.stdout.strip() == "yes" or done.stderr.startswith("no: "), done.stderr
        return done.returncode == 0


@pytest.fixture(scope="module")
def firewalled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Firewalled]:
    if reason := missing():
        pytest.skip(reason)
    with TwoMachines() as machines:
        made = Firewalled(tmp_path_factory.mktemp("machines"), machines)
        try:
            log = made.cluster.ports["log"]
            assert made.reaches(machines.clients, log), "before there is a firewall"
            machines.forbid(log)
            for words in (
                ("table", "create", "orders", "--partitions", "4", "--replicas", "2"),
                ("user", "add", "alice", "--token-file", str(made.user_file), "--grant", "read,write orders"),
            ):
                done = made.duramen(*words)
                assert done.returncode == 0, done.stderr
            yield made
        finally:
            made.cluster.close()


def test_the_log_is_reached_by_servers_alone(firewalled: Firewalled) -> None:
    machines, ports = firewalled.machines, firewalled.cluster.ports
    assert not firewalled.reaches(machines.clients, ports["log"])
    assert firewalled.reaches(machines.servers, ports["log"])
    assert all(firewalled.reaches(machines.clients, ports[name]) for name in ("router", "n1", "n2", "n3"))
    # Not even who has stolen a server's certificate.
    files = [str(firewalled.certs.path / name) for name in ("ca.crt", "server.crt", "server.key")]
    call = ("-c", TOPICS, f"{machines.address}:{ports['log']}", *files)
    silence = ("no UNAVAILABLE", "no DEADLINE_EXCEEDED")
    for machine, expected in ((machines.servers, ("answered",)), (machines.clients, silence)):
        done = firewalled.run(machine, *call)
        assert done.stdout.strip() in expected, done.stderr


@pytest.mark.parametrize("name", ["router", "n1", "n3"])
def test_a_client_works_with_a_token_and_tls(firewalled: Firewalled, name: str) -> None:
    target = f"duramens://{firewalled.machines.address}:{firewalled.cluster.ports[name]}"
    arguments = (target, str(firewalled.user_file), str(firewalled.certs.ca))
    done = firewalled.run(firewalled.machines.clients, "-c", PROGRAM, *arguments)
    assert (done.stdout.strip(), done.returncode) == ("works", 0), done.stderr


def test_who_is_nobody_is_refused(firewalled: Firewalled) -> None:
    refused = firewalled.duramen("get", "orders", "k", token=False)
    assert refused.returncode == 6
    plain = firewalled.run(
        firewalled.machines.clients,
        *("-m", "duramen", "get", "orders", "k"),
        *("--at", f"{firewalled.machines.address}:{firewalled.cluster.ports['router']}"),
    )
    assert plain.returncode != 0


def test_commands_of_operators(firewalled: Firewalled) -> None:
    for words in (("put", "orders", "k", "v"), ("admin", "nodes"), ("admin", "verify", "orders")):
        done = firewalled.duramen(*words)
        assert done.returncode == 0, (words, done.stderr)
        if words == ("admin", "nodes"):
            assert "the log's server at" in done.stdout, "servers see it with their certificates"
            assert "answers, " in done.stdout.splitlines()[-1]
