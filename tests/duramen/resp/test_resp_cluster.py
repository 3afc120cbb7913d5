"""Several nodes: cluster-aware clients go to the node that holds a key, others are served by any."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import redis
from kit.client.command_line import lines, run_here
from kit.cluster.up_cluster import NODES, UpCluster
from kit.deadlines import patience_s, wait_until
from redis.backoff import NoBackoff
from redis.retry import Retry

import duramen
from log_tier.model.partitioner import slot_of

pytestmark = pytest.mark.embedded_log_only  # `up --nodes` has a log process of its own

GO_CLIENT = Path(__file__).parent / "go_client"
NODE_CLIENTS = Path(__file__).parent / "node_clients"


@pytest.fixture(scope="module", params=[0, 1], ids=["", "a reader each"])
def running(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[UpCluster]:
    running = UpCluster(tmp_path_factory.mktemp("cluster"), readers=request.param)
    # Two replicas of three: every node lacks some partition.
    done = run_here(
        "table", "create", "default", "--partitions", "6", "--replicas", "2", at=f"127.0.0.1:{running.port}"
    )
    assert done.returncode == 0, done.stderr
    yield running
    running.close()


@pytest.fixture
def cluster(running: UpCluster) -> UpCluster:
    """Whatever test comes before, every replica is ready, and every server knows where the others are.

    That is some time after they have started.
    """
    wait_until(partial(_is_ready, running), what="every replica is ready")
    nodes = {port for name, port in running.endpoints.items() if name != "router"}
    for name, resp_server in running.endpoints.items():
        wait_until(partial(_knows, resp_server, nodes), what=f"{name} knows every node")
    return running


def _is_ready(cluster: UpCluster) -> bool:
    partitions = lines(run_here("admin", "partitions", "default", "--json", at=f"127.0.0.1:{cluster.port}"))
    replicas = [replica["state"] for partition in partitions for replica in partition["replicas"]]
    return len(replicas) == 6 * 2 and set(replicas) == {"ready"}


def slots_of(resp_server: int) -> list[Any]:
    """CLUSTER SLOTS as the server says it: redis-py would make something else of it."""
    with redis.Redis(port=resp_server) as client:
        connection: Any = client.connection_pool.get_connection()
        connection.send_command("CLUSTER", "SLOTS")
        ranges: list[Any] = connection.read_response()
        client.connection_pool.release(connection)
        return ranges


def ports_of(ranges: list[Any]) -> set[int]:
    return {node[1] for each in ranges for node in each[2:]}


def _knows(client: Any, nodes: set[int]) -> bool:
    return ports_of(slots_of(client)) == nodes


def test_any_server_serves_any_client(cluster: UpCluster, key: str) -> None:
    for writer in cluster.endpoints:
        with redis.Redis(port=cluster.endpoints[writer]) as client:
            for number in range(20):
                assert client.set(f"{key}:{writer}:{number}", number)
            token = client.execute_command("DURAMEN.TOKEN")
        for resp_server in cluster.endpoints.values():
            with redis.Redis(port=resp_server) as client:
                client.execute_command("DURAMEN.AFTER", token)
                assert [client.get(f"{key}:{writer}:{n}") for n in range(20)] == [b"%d" % n for n in range(20)]
                assert client.mget([f"{key}:{writer}:{n}" for n in range(20)]) == [b"%d" % n for n in range(20)]
                assert client.exists(*(f"{key}:{writer}:{n}" for n in range(20))) == 20


def test_counters_over_all_endpoints(cluster: UpCluster, key: str) -> None:
    clients = [redis.Redis(port=resp_server) for resp_server in cluster.endpoints.values()]
    counts = [client.incr(f"{key}-{number}") for number in range(3) for _ in range(10) for client in clients]
    assert counts == [n for _ in range(3) for n in range(1, 10 * len(clients) + 1)]
    for client in clients:
        client.close()


def test_the_map_of_slots(cluster: UpCluster) -> None:
    for resp_server in cluster.endpoints.values():
        ranges = slots_of(resp_server)
        assert ranges[0][0] == 0
        assert ranges[-1][1] == 16383
        assert all(before[1] + 1 == after[0] for before, after in pairwise(ranges))
        assert all(len(each) == 2 + 1 for each in ranges), "every node is a master of something, and so no replica"


def test_moved_goes_to_those_who_know_what_it_means(cluster: UpCluster, key: str) -> None:
    """Of the three nodes, one does not hold the key."""
    plain, moved = 0, []
    for name in ("n1", "n2", "n3"):
        with redis.Redis(port=cluster.endpoints[name]) as client:
            connection: Any = client.connection_pool.get_connection()
            for words in (("SET", key, "v"), ("GET", key)):
                connection.send_command(*words)
                plain += connection.read_response() in (b"OK", b"v", "OK")
            connection.send_command("CLUSTER", "SLOTS")
            connection.read_response()
            connection.send_command("GET", key)
            try:
                assert connection.read_response() == b"v"
            except redis.exceptions.MovedError as error:
                moved.append(error)
            client.connection_pool.release(connection)
    assert plain == 6, "who has not asked for the map is served by every node"
    assert len(moved) == 1
    assert moved[0].slot_id == slot_of(key.encode())
    assert moved[0].port in cluster.endpoints.values()


def test_the_cluster_client(cluster: UpCluster, key: str) -> None:
    client = redis.RedisCluster(host="127.0.0.1", port=cluster.endpoints["n1"])
    try:
        assert len(client.get_nodes()) == NODES
        names = [f"{key}:{number}" for number in range(100)]
        for name in names:
            assert client.set(name, name)
        assert [client.get(name) for name in names] == [name.encode() for name in names]
        assert client.mset({f"{{{key}}}a": "1", f"{{{key}}}b": "2"})
        assert client.mget(f"{{{key}}}a", f"{{{key}}}b") == [b"1", b"2"]
        found = list(client.scan_iter(match=f"{key}:*", count=20))
        assert sorted(found) == sorted(name.encode() for name in names), "every node walks over its own, once"
        assert sum(client.dbsize(target_nodes=[node]) for node in client.get_primaries()) >= len(names)
        with client.pipeline() as pipe:
            for name in names:
                pipe.get(name)
            assert pipe.execute() == [name.encode() for name in names]
    finally:
        client.close()


def test_every_node_has_a_random_key(cluster: UpCluster, key: str) -> None:
    """Its own keys are the ones to choose from, whatever other nodes' partitions it holds copies of."""
    last = next(name for n in range(10_000) if not slot_of(name := f"\xff{key}{n}".encode("latin1")) * 6 // 16384)
    names = [f"{key}:{number}" for number in range(1200)]
    with redis.Redis(port=cluster.endpoints["router"]) as client:
        client.mset(dict.fromkeys([*names, last], "v"))
        for node in (f"n{number + 1}" for number in range(NODES)):
            with redis.Redis(port=cluster.endpoints[node]) as direct:
                pipeline = direct.pipeline(transaction=False)
                for _ in range(100):
                    pipeline.randomkey()
                assert None not in pipeline.execute(), node
        assert client.delete(*names, last) == len(names) + 1


def test_commands_that_mean_the_whole_cluster(cluster: UpCluster, key: str) -> None:
    """redis-py 8 has its own table instead of tips: one node for DBSIZE and KEYS, of a Redis Cluster too. With
    `target_nodes` set to all primaries, it puts the answers together.
    """
    primaries = redis.RedisCluster.PRIMARIES
    with duramen.connect(f"127.0.0.1:{cluster.port}") as database:
        expected = {name for name, _ in database.table("default").scan()}
    client = redis.RedisCluster(host="127.0.0.1", port=cluster.endpoints["n1"])
    try:
        names = {f"{key}:{number}".encode() for number in range(200)}
        for name in names:
            client.set(name, "v")
        expected |= names
        assert client.dbsize(target_nodes=primaries) == len(expected)
        found = client.keys("*", target_nodes=primaries)
        assert len(found) == len(expected)
        assert set(found) == expected
        wanted = sorted(name for name in names if name.startswith(f"{key}:1".encode()))
        assert sorted(client.keys(f"{key}:1*", target_nodes=primaries)) == wanted
        assert sorted(client.scan_iter(match=f"{key}:*")) == sorted(names), "each once"
        assert client.ping() is True
        assert client.randomkey() in expected
        assert client.wait(0, 100) >= 0
        assert client.exists(*names) == 200
        assert client.touch(*names) == 200
        assert client.mget_nonatomic(sorted(names)) == [b"v"] * 200
        assert client.mset_nonatomic(dict.fromkeys(names, "w"))
        assert client.unlink(*sorted(names)[:50]) == 50
        assert client.delete(*sorted(names)[50:]) == 150
        assert client.exists(*names) == 0
        assert {each["server_name"] for each in client.info(target_nodes=redis.RedisCluster.ALL_NODES).values()} == {
            "duramen"
        }
    finally:
        client.close()


def test_a_router_walks_over_everything(cluster: UpCluster, key: str) -> None:
    with redis.Redis(port=cluster.endpoints["router"]) as client:
        names = {f"{key}:{number}".encode() for number in range(50)}
        client.mset(dict.fromkeys(names, "v"))
        assert set(client.scan_iter(match=f"{key}:*", count=7)) == names
        # What the nodes said last, which is up to a quarter of a second old.
        wait_until(lambda: client.dbsize() >= 50, what="the nodes have said how many keys they have")


def test_wait_counts_the_other_replicas(cluster: UpCluster, key: str) -> None:
    with redis.Redis(port=cluster.endpoints["n1"]) as client:
        for number in range(20):
            client.set(f"{key}{number}", "v")
        assert client.wait(1, int(patience_s(10) * 1000)) >= 1


def test_resp_and_grpc(cluster: UpCluster, key: str) -> None:
    with redis.Redis(port=cluster.endpoints["router"]) as client:
        client.set(key, "fast")
        token = client.execute_command("DURAMEN.TOKEN").decode()
    with duramen.connect(f"127.0.0.1:{cluster.port}") as database:
        assert database.table("default").get(key.encode(), after=token) == b"fast"


def test_a_node_that_is_killed(cluster: UpCluster, key: str) -> None:
    """Clients of the router go on; the node comes back with its endpoint where it was."""
    names = [f"{key}:{number}" for number in range(60)]
    with redis.Redis(port=cluster.endpoints["router"]) as client:
        for name in names:
            client.set(name, name)
        os.kill(cluster.pids["n2"], signal.SIGKILL)
        for name in names:
            assert client.get(name) == name.encode()
            assert client.append(name, "!") == len(name) + 1
    wait_until(
        lambda: _answers(cluster.endpoints["n2"], names), what="n2 is back, and shows what was written meanwhile"
    )


def _answers(port: int, names: list[str]) -> bool:
    try:
        with redis.Redis(port=port, retry=Retry(NoBackoff(), 0)) as client:
            return bool(client.mget(names) == [f"{name}!".encode() for name in names])
    except redis.RedisError:
        return False


@pytest.mark.parametrize(("listens", "writes"), [("n1", "n2"), ("n2", "n3"), ("router", "n1")])
def test_a_confirmed_subscription_misses_nothing(cluster: UpCluster, key: str, listens: str, writes: str) -> None:
    """Acknowledged by another node, right after the confirmation, and reported here."""
    expected = {f"__keyspace@0__:{key}:{number}".encode() for number in range(60)}
    with (
        redis.Redis(port=cluster.endpoints[listens]) as listener,
        redis.Redis(port=cluster.endpoints[writes]) as writer,
    ):
        writer.ping()
        subscription = listener.pubsub()
        pattern = f"__keyspace@0__:{key}:*"
        subscription.psubscribe(pattern)
        confirmed = subscription.get_message(timeout=patience_s(30))
        assert confirmed is not None
        assert confirmed["type"] == "psubscribe"
        for number in range(60):
            assert writer.set(f"{key}:{number}", number)
        while expected:
            message = subscription.get_message(timeout=patience_s(30))
            assert message is not None, f"{len(expected)} of 60 were not notified"
            expected.remove(message["channel"])
        subscription.close()


def test_clients_of_node(cluster: UpCluster, key: str, tmp_path: Path) -> None:
    """node-redis and ioredis; what they expect is in `node_clients/main.mjs`."""
    npm, node = shutil.which("npm"), shutil.which("node")
    if npm is None or node is None:
        pytest.skip("node and npm are not installed")
    for file in ("package.json", "main.mjs"):
        shutil.copy(NODE_CLIENTS / file, tmp_path)
    install = [npm, "install", "--no-audit", "--no-fund", "--loglevel", "error"]
    installed = subprocess.run(
        install, cwd=tmp_path, capture_output=True, text=True, timeout=patience_s(150), check=False
    )
    if installed.returncode != 0:
        pytest.skip(f"the clients cannot be fetched here: {installed.stderr.strip()[-200:]}")
    program = [node, "main.mjs", str(cluster.endpoints["n1"]), key]
    done = subprocess.run(program, cwd=tmp_path, capture_output=True, text=True, timeout=patience_s(60), check=False)
    assert done.stdout == "all as expected\n", done.stdout + done.stderr


def test_go_redis_on_a_cluster(cluster: UpCluster, key: str, tmp_path: Path) -> None:
    """The cluster client of `go_client/main.go`."""
    go = shutil.which("go")
    if go is None:
        pytest.skip("go is not installed")
    program = tmp_path / "client"
    build = [go, "build", "-o", str(program), "."]
    built = subprocess.run(build, cwd=GO_CLIENT, capture_output=True, text=True, timeout=patience_s(150), check=False)
    if built.returncode != 0 and "main.go" not in built.stderr:
        pytest.skip(f"go-redis cannot be fetched here: {built.stderr.strip().splitlines()[-1]}")
    assert built.returncode == 0, built.stderr
    command = [str(program), "cluster", str(cluster.endpoints["n1"]), key]
    done = subprocess.run(command, capture_output=True, text=True, timeout=patience_s(90), check=False)
    assert done.stdout == "all as expected\n", done.stdout + done.stderr


def test_optimistic_increments_through_a_node(cluster: UpCluster, key: str) -> None:
    """WATCH, GET, MULTI, SET, EXEC by 8 connections: what was granted counts, all of it and nothing else."""
    clients, each = 8, 15  # each increment is tried again some four times, by calls of a cluster

    def work() -> None:
        with redis.Redis(port=cluster.endpoints["n1"]) as client:
            for _ in range(each):
                client.transaction(add_one, key, watch_delay=0.0)

    def add_one(pipe: Any) -> None:
        value = int(pipe.get(key) or 0) + 1
        pipe.multi()
        pipe.set(key, value)

    with ThreadPoolExecutor(clients) as pool:
        for done in [pool.submit(work) for _ in range(clients)]:
            done.result()
    with redis.Redis(port=cluster.endpoints["n1"]) as client:
        assert client.get(key) == b"%d" % (clients * each)
