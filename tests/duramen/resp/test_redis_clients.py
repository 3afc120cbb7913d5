"""The RESP endpoint with clients and tools that others wrote: redis-py in all its forms, redis-cli, redis-benchmark."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis
import redis.asyncio
from kit.client.command_line import run_here
from kit.client.server_process import ServerProcess
from kit.deadlines import patience_s

import duramen

TIMEOUT_S = 60

GO_CLIENT = Path(__file__).parent / "go_client"


@pytest.fixture(params=[2, 3])
def client(port: int, request: pytest.FixtureRequest) -> Iterator[Any]:
    connected = redis.Redis(port=port, protocol=request.param)
    yield connected
    connected.close()


@pytest.fixture(params=[2, 3])
async def async_client(port: int, request: pytest.FixtureRequest) -> AsyncIterator[Any]:
    connected = redis.asyncio.Redis(port=port, protocol=request.param, max_connections=300)
    yield connected
    await connected.aclose()


class TestBlocking:
    def test_strings(self, client: Any, key: str) -> None:
        assert client.set(key, "value") is True
        assert client.get(key) == b"value"
        assert client.set(key, "other", nx=True) is None
        assert client.set(key, "other", xx=True, get=True) == b"value"
        assert client.getset(key, "x") == b"other"
        assert client.append(key, "yz") == 3
        assert client.strlen(key) == 3
        assert client.getrange(key, 1, -1) == b"yz"
        assert client.getdel(key) == b"xyz"
        assert client.mset({f"{key}1": "1", f"{key}2": "2"}) is True
        assert client.mget(f"{key}1", f"{key}2", key) == [b"1", b"2", None]
        assert client.msetnx({f"{key}2": "0", f"{key}3": "0"}) is False
        assert client.exists(f"{key}1", f"{key}2", f"{key}3") == 2
        assert client.delete(f"{key}1", f"{key}2") == 2

    def test_numbers(self, client: Any, key: str) -> None:
        assert client.incr(key) == 1
        assert client.incrby(key, 41) == 42
        assert client.decr(key) == 41
        assert client.decrby(key, 1) == 40
        assert client.incrbyfloat(key, 2.5) == 42.5
        with pytest.raises(redis.ResponseError, match="not an integer or out of range"):
            client.incr(key)

    def test_expiry(self, client: Any, key: str) -> None:
        assert client.set(key, "v", ex=100) is True
        assert client.ttl(key) == 100
        assert client.persist(key) in (True, 1)
        assert client.ttl(key) == -1
        assert client.expire(key, 50) in (True, 1)
        assert 0 < client.pttl(key) <= 50_000
        assert client.getex(key, ex=70) == b"v"
        assert client.ttl(key) == 70
        assert client.expireat(key, 1) in (True, 1)
        assert client.get(key) is None

    def test_pipelines(self, client: Any, key: str) -> None:
        with client.pipeline(transaction=True) as pipe:
            for number in range(100):
                pipe.set(f"{key}{number}", number)
            pipe.get(f"{key}7")
            pipe.incr(f"{key}8")
            assert pipe.execute()[-2:] == [b"7", 9]
        with client.pipeline(transaction=False) as pipe:
            for number in range(100):
                pipe.get(f"{key}{number}")
            assert pipe.execute()[:7] == [b"%d" % n for n in range(7)]

    def test_watch(self, client: Any, key: str) -> None:
        client.set(key, 1)

        def double(pipe: Any) -> None:
            value = int(pipe.get(key))
            pipe.multi()
            pipe.set(key, value * 2)

        client.transaction(double, key)
        assert client.get(key) == b"2"
        with client.pipeline() as pipe:
            pipe.watch(key)
            client.set(key, "meanwhile")
            pipe.multi()
            pipe.set(key, "late")
            with pytest.raises(redis.WatchError):
                pipe.execute()
        assert client.get(key) == b"meanwhile"

    def test_locks(self, client: Any, key: str) -> None:
        """redis-py's own lock asks for scripts to be released; taking it needs SET NX PX alone."""
        assert client.set(key, "token", nx=True, px=100_000)
        assert not client.set(key, "other", nx=True, px=100_000)

    def test_walks(self, client: Any, key: str) -> None:
        names = {f"{key}:{number}".encode() for number in range(100)}
        client.mset(dict.fromkeys(names, "v"))
        assert set(client.scan_iter(match=f"{key}:*", count=17)) == names
        assert set(client.keys(f"{key}:*")) == names
        assert client.dbsize() >= 100
        assert client.randomkey() is not None
        assert client.type(f"{key}:1") in (b"string", "string")

    def test_the_server(self, client: Any) -> None:
        assert client.ping() is True
        assert client.echo("hi") == b"hi"
        assert client.info()["server_name"] == "duramen"
        assert client.client_setname("tester")
        assert client.client_getname() in (b"tester", "tester")
        assert any(str(each["name"]) == "tester" for each in client.client_list())
        assert client.command_count() > 50
        assert client.wait(0, 10) == 0
        assert client.time()[0] > 1_700_000_000

    def test_subscriptions(self, client: Any, port: int, key: str) -> None:
        listener = client.pubsub()
        listener.psubscribe(f"__keyspace@0__:{key}*")
        assert listener.get_message(timeout=patience_s(10))["type"] == "psubscribe"
        heard: list[Any] = []
        for number in range(1000):  # the watch begins shortly after the reply
            client.set(f"{key}-{number}", "v")
            message = listener.get_message(timeout=0.05)
            if message is not None:
                heard.append(message)
                break
        assert heard[0]["type"] == "pmessage"
        assert heard[0]["data"] == b"set"
        listener.close()

    def test_what_is_not_there(self, client: Any, key: str) -> None:
        calls: list[Callable[[], object]] = [
            lambda: client.lpush(key, 1),
            lambda: client.flushall(),
            lambda: client.eval("return 1", 0),
        ]
        for call in calls:
            with pytest.raises(redis.ResponseError, match="unknown command"):
                call()


class TestAsync:
    async def test_many_callers(self, async_client: Any, key: str) -> None:
        await asyncio.gather(*(async_client.set(f"{key}{number}", number) for number in range(200)))
        values = await asyncio.gather(*(async_client.get(f"{key}{number}") for number in range(200)))
        assert values == [b"%d" % number for number in range(200)]
        counts = await asyncio.gather(*(async_client.incr(key) for _ in range(100)))
        assert sorted(counts) == list(range(1, 101))

    async def test_pipelines(self, async_client: Any, key: str) -> None:
        async with async_client.pipeline(transaction=True) as pipe:
            assert await pipe.set(key, 1).incr(key).get(key).execute() == [True, 2, b"2"]


def test_the_cluster_client_of_a_cluster_of_one(port: int, key: str) -> None:
    cluster = redis.RedisCluster(host="127.0.0.1", port=port)
    try:
        assert cluster.set(key, "v")
        assert cluster.get(key) == b"v"
        assert cluster.mget_nonatomic(key, f"{key}-absent") == [b"v", None]
        assert cluster.cluster_keyslot("foo") == 12182
    finally:
        cluster.close()


def test_both_endpoints_show_the_same(resp_server: ServerProcess, client: Any, key: str) -> None:
    client.set(key, "by redis")
    token = client.execute_command("DURAMEN.TOKEN").decode()
    with duramen.connect(resp_server.target) as database:
        table = database.table("default")
        assert table.get(key.encode(), after=token) == b"by redis"
        done = table.put(key.encode(), b"by duramen")
    assert client.execute_command("DURAMEN.AFTER", str(done.token)) in (b"OK", "OK", True)
    assert client.get(key) == b"by duramen"


def tool(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed (apt-get install redis-tools)")
    return found


def test_redis_cli(port: int, key: str) -> None:
    def cli(*words: str, stdin: str = "") -> str:
        command = [tool("redis-cli"), "-p", str(port), *words]
        return subprocess.run(
            command, input=stdin, capture_output=True, text=True, timeout=patience_s(TIMEOUT_S), check=True
        ).stdout

    assert cli("set", key, "hello") == "OK\n"
    assert cli("-3", "get", key) == "hello\n"
    assert cli("incr", key) == "ERR value is not an integer or out of range\n\n"
    assert cli(stdin=f"set {key} 5\nincr {key}\nget {key}\n") == "OK\n6\n6\n"
    assert "server_name:duramen" in cli("info", "server")
    assert f"{key}\n" in cli("--scan", "--pattern", f"{key}*")
    piped = "".join(f"SET {key}:{number} {number}\r\n" for number in range(1000))
    assert "errors: 0, replies: 1000" in cli("--pipe", stdin=piped)


@pytest.mark.embedded_log_only
def test_redis_benchmark(port: int) -> None:
    command = f"{tool('redis-benchmark')} -p {port} -n 2000 -c 20 -P 4 -r 100 --csv"
    done = subprocess.run(
        [*command.split(), "-t", "ping_inline,ping_mbulk,set,get,incr,mset"],
        capture_output=True,
        text=True,
        timeout=patience_s(TIMEOUT_S),
        check=True,
    )
    lines = [line.split(",")[0] for line in done.stdout.splitlines()[1:]]
    assert lines == ['"PING_INLINE"', '"PING_MBULK"', '"SET"', '"GET"', '"INCR"', '"MSET (10 keys)"']


def test_without_the_option_there_is_no_resp_endpoint(resp_server: ServerProcess) -> None:
    assert "resp_port" in resp_server.announcement
    help_text = run_here("up", "--help").stdout
    assert "--resp-port" in help_text
    refused = run_here("up", "--resp-port", "70000")
    assert refused.returncode != 0
    assert "a port is 0 to 65535" in refused.stderr + refused.stdout


@pytest.mark.embedded_log_only
def test_go_redis(port: int, key: str, tmp_path: Path) -> None:
    """The client that most Go programs use; what it expects is in `go_client/main.go`."""
    go = shutil.which("go")
    if go is None:
        pytest.skip("go is not installed")
    program = tmp_path / "client"
    built = subprocess.run(
        [go, "build", "-o", str(program), "."],
        cwd=GO_CLIENT,
        capture_output=True,
        text=True,
        timeout=patience_s(150),
        check=False,
    )
    if built.returncode != 0 and "main.go" not in built.stderr:
        pytest.skip(f"go-redis cannot be fetched here: {built.stderr.strip().splitlines()[-1]}")
    assert built.returncode == 0, built.stderr
    done = subprocess.run(
        [str(program), str(port), key], capture_output=True, text=True, timeout=patience_s(90), check=False
    )
    assert done.stdout == "all as expected\n", done.stdout + done.stderr
