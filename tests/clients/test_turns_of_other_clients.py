"""Turns of users whose clients others wrote: one floods the Redis protocol while another one makes single calls.

What a call waits for is counted in commands of the flood, and not in seconds: with one line for all connections it
would be every command that the flood has sent and that is not answered.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest
from kit.clients.server_with_users import ServerWithUsers, go_users
from kit.deadlines import patience_s, wait_until
from kit.resp.real_redis import redis_tool

pytestmark = pytest.mark.embedded_log_only  # whose turn it is at a server's endpoints

CALLS: Final = 50
"""Single calls of each kind by redis-cli, one after the other."""

CONNECTIONS: Final = 100
PIPELINED: Final = 256
"""Of redis-benchmark: so many commands wait for it, and a server that is behind has nearly all of them."""

GO_CALLS: Final = 20
GO_WAITS: Final = 64 * 256
"""As in `go_users/turns`."""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerWithUsers]:
    grants = {name: ["read,write default", "read,write orders"] for name in ("alice", "mallory")}
    made = ServerWithUsers(tmp_path_factory.mktemp("turns"), ("orders",), grants)
    yield made
    made.server.close()


def by_redis(tool: str, served: ServerWithUsers, user: str, protocol: int, *more: str) -> list[str]:
    host, port = served.address("resp_port").split(":")
    command = [redis_tool(tool), "-h", host, "-p", port, "--tls", "--cacert", str(served.certs.ca)]
    return [*command, "--user", user, "-a", served.token(user), *(["-3"] if protocol == 3 else []), *more]


def called(served: ServerWithUsers, user: str, protocol: int, words: str, times: int = 1) -> list[str]:
    """What redis-cli prints for a command that it gives so many times, each when the one before is answered."""
    done = subprocess.run(
        by_redis("redis-cli", served, user, protocol, "--no-auth-warning"),
        input=f"{words}\n" * times,
        capture_output=True,
        text=True,
        timeout=patience_s(120),
        check=True,
    )
    return done.stdout.splitlines()


def commands(served: ServerWithUsers) -> int:
    """Commands that the server has answered, of all users."""
    (found,) = re.findall(r"total_commands_processed:(\d+)", "\n".join(called(served, "admin", 2, "INFO")))
    return int(found)


@contextmanager
def flood(served: ServerWithUsers, protocol: int, words: str) -> Iterator[subprocess.Popen[bytes]]:
    """redis-benchmark, once the server has answered as much as all of its connections can wait for."""
    load = ["-c", str(CONNECTIONS), "-P", str(PIPELINED), "-n", str(10**9), "-q", *words.split()]
    before = commands(served)
    process = subprocess.Popen(
        by_redis("redis-benchmark", served, "mallory", protocol, *load),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_until(lambda: commands(served) - before > CONNECTIONS * PIPELINED, "the flood has begun", seconds=60)
        yield process
    finally:
        process.kill()
        process.wait(patience_s(30))


@pytest.mark.timeout(600)
@pytest.mark.parametrize("protocol", [2, 3])
@pytest.mark.parametrize("words", ["GET k", "SET k v"])
def test_single_calls_by_redis_cli_next_to_redis_benchmark(served: ServerWithUsers, words: str, protocol: int) -> None:
    called(served, "alice", protocol, "DEL n")
    with flood(served, protocol, words) as process:
        before = commands(served)
        assert called(served, "alice", protocol, "PING", CALLS) == ["PONG"] * CALLS
        meanwhile = commands(served) - before
        assert called(served, "alice", protocol, "GET missing", CALLS) == [""] * CALLS
        assert called(served, "alice", protocol, "INCR n", CALLS) == [str(number + 1) for number in range(CALLS)]
        assert process.poll() is None, "the flood has ended"
    assert meanwhile < CALLS * CONNECTIONS * PIPELINED // 2, f"{meanwhile / CALLS:.0f} commands a call"


@pytest.mark.languages
@pytest.mark.timeout(600)
@pytest.mark.parametrize("protocol", ["2", "3"])
def test_single_calls_by_go_next_to_a_flood_by_go_redis(served: ServerWithUsers, protocol: str, tmp_path: Path) -> None:
    """By go-redis, and by gRPC of both users: the flood's own calls of gRPC wait, and are answered too."""
    program = go_users(tmp_path, "turns") / "turns"
    called(served, "alice", 2, "DEL n")
    command = [str(program), protocol, served.address("resp_port"), served.address("port"), "orders"]
    done = served.run(command, seconds=200, TOKEN=served.token("alice"), FLOOD=served.token("mallory"))
    kinds = ("ping", "get", "incr", "grpc TOKEN", "grpc FLOOD")
    found = {kind: re.findall(rf"^{kind} (\d+) (\d+)$", done.stdout, re.MULTILINE) for kind in kinds}
    assert {kind: right for kind, [(right, _)] in found.items()} == dict.fromkeys(kinds, str(GO_CALLS)), done
    assert done.stdout.splitlines()[-1] == "flood 0", done
    meanwhile = {kind: int(commands) for kind, [(_, commands)] in found.items()}
    assert meanwhile["ping"] < GO_WAITS // 2, meanwhile
    assert all(meanwhile[kind] > 0 for kind in kinds[2:]), f"the flood has ended: {meanwhile}"
