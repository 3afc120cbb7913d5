"""Lettuce, Java's Redis client, over three nodes: the replies of redis-py, and the same keys at the same time."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import redis
from kit.client.server_process import run_duramen
from kit.clients.programs import need, run_checked
from kit.cluster.up_cluster import NODES, UpCluster
from kit.deadlines import patience_s, wait_until

pytestmark = [pytest.mark.languages, pytest.mark.timeout(600)]

FOLDER = Path(__file__).parent / "lettuce"
COUNT = 200
ROUNDS = 200


@pytest.fixture(scope="module")
def program() -> list[str]:
    """The command that runs a program, built; its class follows."""
    need(["java", "mvn"])
    run_checked(["mvn", "-q", "-B", "compile"], FOLDER)
    return ["java", "-cp", "target/classes:target/dependency/*"]


@pytest.fixture
def cluster(program: list[str], tmp_path: Path) -> Iterator[UpCluster]:
    """Three nodes and an empty table: two replicas of three, so every node lacks some partition."""
    running = UpCluster(tmp_path)
    created = run_duramen(
        "table", "create", "default", "--partitions", "6", "--replicas", "2", at=f"127.0.0.1:{running.port}"
    )
    assert created.returncode == 0, created.stderr
    yield running
    running.close()


def by_redis_py(port: int, prefix: str) -> dict[str, str]:
    """The same commands as in `ClusterWide.java`, up to the notifications; each result as Java prints it."""
    everywhere: dict[str, Any] = {"target_nodes": redis.RedisCluster.PRIMARIES}
    names = [f"{prefix}:{number}" for number in range(COUNT)]
    asked = [*names[:10], f"{prefix}:absent", *names[10:20]]
    found: dict[str, Any] = {}
    with redis.RedisCluster(host="127.0.0.1", port=port, decode_responses=True) as client:
        for name in names:
            client.set(name, name)
        found["primaries"] = len(client.get_primaries())
        found["dbsize"] = client.dbsize(**everywhere)
        keys = client.keys("*", **everywhere)
        found["keys"], found["keys in all"] = sorted(keys), len(keys)
        found["keys of a pattern"] = sorted(client.keys(f"{prefix}:1*", **everywhere))
        keys = list(client.scan_iter(match=f"{prefix}:*", count=7))
        found["scan"], found["scan in all"] = sorted(keys), len(keys)
        found["randomkey is one of them"] = {client.randomkey() for _ in range(20)} <= set(names)
        found["ping"] = "PONG" if client.ping() else "no answer"
        found["mset"] = "OK" if client.mset_nonatomic({name: f"new {name}" for name in names}) else "refused"
        found["mget"] = [value or "nothing" for value in client.mget_nonatomic(asked)]
        found["exists"], found["touch"] = client.exists(*names), client.touch(*names)
        found["unlink"], found["del"] = client.unlink(*names[:50]), client.delete(*names)
        found["exists afterwards"] = client.exists(*names)
        found["dbsize afterwards"] = client.dbsize(**everywhere)
    return {name: in_java(value) for name, value in found.items()}


def in_java(value: object) -> str:
    """How Java prints a result."""
    if isinstance(value, bool):
        return str(value).lower()
    return f"[{', '.join(value)}]" if isinstance(value, list) else str(value)


def knows_all_nodes(port: int) -> bool:
    with redis.RedisCluster(host="127.0.0.1", port=port) as client:
        return len(client.get_primaries()) == NODES


def test_cluster_wide_commands(cluster: UpCluster, program: list[str]) -> None:
    port = cluster.endpoints["n2"]
    wait_until(lambda: knows_all_nodes(port), what="n2 knows the three nodes")
    expected = by_redis_py(port, "key")
    assert expected["dbsize"] == expected["keys in all"] == expected["scan in all"] == str(COUNT)
    output = run_checked([*program, "ClusterWide", str(port), "key"], FOLDER)
    assert dict(line.split(": ", maxsplit=1) for line in output.splitlines()) == expected | {
        "all writes are heard": "true",
        "flushdb": "OK",
        "dbsize of nothing": "0",
        "keys of nothing": "[]",
        "randomkey of nothing": "null",
        "set": "OK",
        "get": "v",
        "dbsize of one": "1",
    }


def contended_by_redis_py(port: int) -> dict[str, int]:
    """The commands of `Contended.java`; what it won."""
    won = {"locks": 0, "optimistic": 0}
    with redis.RedisCluster(host="127.0.0.1", port=port, decode_responses=True) as client:
        for number in range(ROUNDS):
            client.incr("count")
            client.append("log", "p")
            won["locks"] += bool(client.setnx(f"lock:{number}", "python"))
            with client.pipeline(transaction=True) as transaction, suppress(redis.WatchError):
                transaction.watch("optimistic")
                found = int(transaction.get("optimistic") or 0)
                transaction.multi()
                transaction.set("optimistic", found + 1)
                transaction.execute()
                won["optimistic"] += 1
    return won


def test_both_at_the_same_keys(cluster: UpCluster, program: list[str]) -> None:
    """Lettuce by one node, redis-py by the two others: no increment is lost, and one of them gets each lock."""
    ports = [cluster.endpoints[name] for name in ("n1", "n2", "n3")]
    for port in ports:
        wait_until(lambda port=port: knows_all_nodes(port), what="each node knows the three")  # type: ignore[misc]
    lettuce = subprocess.Popen(
        [*program, "Contended", str(ports[0]), str(ROUNDS)],
        cwd=FOLDER,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        assert lettuce.stdout is not None
        assert lettuce.stdout.readline() == "ready\n"
        with ThreadPoolExecutor(2) as threads:
            pythons = [threads.submit(contended_by_redis_py, port) for port in ports[1:]]
            said, _ = lettuce.communicate("go\n", timeout=patience_s(300))
        assert lettuce.returncode == 0, said
    finally:
        lettuce.kill()
        lettuce.wait()
    won = [python.result() for python in pythons]
    won.append({name: int(count) for name, count in (line.split(": ") for line in said.splitlines())})
    with redis.RedisCluster(host="127.0.0.1", port=ports[1], decode_responses=True) as client:
        assert client.get("count") == str(3 * ROUNDS)
        log = client.get("log")
        assert (log.count("j"), log.count("p")) == (ROUNDS, 2 * ROUNDS)
        assert client.get("optimistic") == str(sum(each["optimistic"] for each in won))
    assert sum(each["locks"] for each in won) == ROUNDS
    assert all(each["optimistic"] for each in won)
