"""Clients that others wrote at a server with TLS and users: go-redis, gRPC for Go, and redis-cli."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from kit.clients.programs import ROOT
from kit.clients.server_with_users import GO_USERS, ServerWithUsers, go_users

pytestmark = pytest.mark.embedded_log_only  # TLS is of gRPC and RESP; the log is in the server's process

GRANTS = {
    "alice": ["read,write orders"],
    "reader": ["read orders"],
    "regional": ["read,write orders --key eu:"],
    "elsewhere": ["read,write flights"],
    "former": ["read,write orders"],
}
"""The users besides `admin`, with their grants. The token of `former` is revoked."""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerWithUsers]:
    made = ServerWithUsers(tmp_path_factory.mktemp("served"), ("orders", "flights"), GRANTS)
    try:
        made.administer("user", "token", "former", "--revoke", made.token("former").split("_")[1])
        yield made
    finally:
        made.server.close()


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the Go programs `grpc` and `redis`, built with the stubs of `examples/clients/go`."""
    return go_users(tmp_path_factory.mktemp("programs"), "grpc", "redis")


def lacks(command: str, user: str, grant: str) -> str:
    return f"NOPERM User {user} has no permissions to run the '{command}' command here: it lacks '{grant}'"


ALLOWED = ["whoami alice", "select OK", "set OK", "get by Go"]

REDIS_ANSWERS = {
    "alice": ALLOWED,
    "reader": ["whoami reader", "select OK", f"set {lacks('set', 'reader', 'write orders --key redis')}", "get by Go"],
    "regional": [
        "whoami regional",
        "select OK",
        f"set {lacks('set', 'regional', 'write orders --key redis')}",
        f"get {lacks('get', 'regional', 'read orders --key redis')}",
    ],
    # Without the table, the commands are for the one that a connection begins in.
    "elsewhere": [
        "whoami elsewhere",
        f"select {lacks('select', 'elsewhere', 'read orders')}",
        f"set {lacks('set', 'elsewhere', 'write default --key redis')}",
        f"get {lacks('get', 'elsewhere', 'read default --key redis')}",
    ],
    "": [f"{command} NOAUTH Authentication required." for command in ("whoami", "select", "set", "get")],
}


def by_go_redis(programs: Path, served: ServerWithUsers, protocol: str, user: str, token: str) -> list[str]:
    command = [str(programs / "redis"), protocol, served.address("resp_port"), user, "orders"]
    return served.run(command, TOKEN=token).stdout.splitlines()


@pytest.mark.languages
@pytest.mark.timeout(600)
@pytest.mark.parametrize("protocol", ["2", "3"])
@pytest.mark.parametrize("user", list(REDIS_ANSWERS))
def test_go_redis_and_grants(protocol: str, user: str, programs: Path, served: ServerWithUsers) -> None:
    assert by_go_redis(programs, served, protocol, "alice", served.token("alice")) == ALLOWED
    assert by_go_redis(programs, served, protocol, user, served.token(user)) == REDIS_ANSWERS[user]


@pytest.mark.languages
@pytest.mark.timeout(600)
@pytest.mark.parametrize("protocol", ["2", "3"])
def test_go_redis_with_a_token_for_a_password(protocol: str, programs: Path, served: ServerWithUsers) -> None:
    """A program that has no place for a user: the token says whose it is."""
    assert by_go_redis(programs, served, protocol, "", served.token("alice")) == ALLOWED


@pytest.mark.languages
@pytest.mark.timeout(600)
def test_go_redis_with_a_revoked_token(programs: Path, served: ServerWithUsers) -> None:
    lines = by_go_redis(programs, served, "3", "former", served.token("former"))
    wrong = "WRONGPASS invalid username-password pair or user is disabled."
    assert lines[0] == f"whoami {wrong}"
    assert [line.split()[0] for line in lines[1:]] == ["select", "set", "get"]
    assert [line for line in lines if not line.endswith(wrong)] == []


CALLS = ("put", "get", "scan")

GRPC_ANSWERS = {
    "alice": ["put done", "get by Go", "scan 1"],
    "reader": ["put PermissionDenied duramen permission_denied", "get by Go", "scan 1"],
    "regional": [f"{call} PermissionDenied duramen permission_denied" for call in CALLS],
    "elsewhere": [f"{call} PermissionDenied duramen permission_denied" for call in CALLS],
    "former": [f"{call} Unauthenticated duramen unauthenticated" for call in CALLS],
    "": [f"{call} Unauthenticated duramen unauthenticated" for call in CALLS],
}


@pytest.mark.languages
@pytest.mark.timeout(600)
@pytest.mark.parametrize("user", list(GRPC_ANSWERS))
def test_grpc_for_go_and_grants(user: str, programs: Path, served: ServerWithUsers) -> None:
    command = [str(programs / "grpc"), served.address("port"), "orders"]
    assert served.run(command, TOKEN=served.token("alice")).stdout.splitlines() == GRPC_ANSWERS["alice"]
    done = served.run(command, TOKEN=served.token(user))
    assert done.stdout.splitlines() == GRPC_ANSWERS[user], done.stderr
    missing = re.findall(r"^put (user \w+ may not) .*('write orders --key grpc')", done.stderr, re.MULTILINE)
    refused = "PermissionDenied" in GRPC_ANSWERS[user][0]
    assert missing == ([(f"user {user} may not", "'write orders --key grpc'")] if refused else []), done.stderr


@pytest.mark.languages
@pytest.mark.timeout(600)
def test_programs_in_go_with_the_ca_of_others(programs: Path, served: ServerWithUsers) -> None:
    token = served.token("alice")
    by_redis = [str(programs / "redis"), "3", served.address("resp_port"), "alice", "orders"]
    done = served.run(by_redis, folder=served.elsewhere, TOKEN=token)
    assert done.stdout.count("x509: certificate signed by unknown authority") == len(ALLOWED), done
    done = served.run([str(programs / "grpc"), served.address("port"), "orders"], folder=served.elsewhere, TOKEN=token)
    assert done.stdout.splitlines() == [f"{call} Unavailable" for call in CALLS], done.stderr
    assert "x509: certificate signed by unknown authority" in done.stderr


def test_the_pages_go_is_that_of_the_program() -> None:
    """Each line of docs/GRPC.md in its order, so the page compiles and works."""
    (page,) = re.findall(r"```go\n(.*?)```", (ROOT / "docs" / "GRPC.md").read_text(), re.DOTALL)
    rest = iter((GO_USERS / "grpc" / "main.go").read_text().splitlines())
    lines = [line.strip() for line in page.replace('"localhost:7070"', "address").splitlines() if line]
    assert len(lines) > 5
    assert [line for line in lines if line not in map(str.strip, rest)] == []


def redis_cli(served: ServerWithUsers, line: str, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    """A line with redis-cli, in bash, at the server's port."""
    if shutil.which("redis-cli") is None:
        pytest.skip("redis-cli is not installed (apt-get install redis-tools)")
    host, port = served.address("resp_port").split(":")
    return served.run(["bash", "-c", line.replace("redis-cli ", f"redis-cli -h {host} -p {port} ")], folder=folder)


def test_redis_cli_as_the_page_has_it(served: ServerWithUsers) -> None:
    page = (ROOT / "docs" / "REDIS.md").read_text()
    lines = re.findall(r"^(?:\w+=.* )?redis-cli .*--cacert.*$", page, re.MULTILINE)
    assert [line.endswith("ACL WHOAMI") for line in lines] == [True, True]
    for line in lines:
        done = redis_cli(served, line)
        assert (done.stdout, done.returncode) == ("alice\n", 0), done
        another = redis_cli(served, line.replace("alice", "reader"))
        assert (another.stdout, another.returncode) == ("reader\n", 0), another


def test_redis_cli_and_who_may_not(served: ServerWithUsers) -> None:
    tls = "redis-cli --tls --cacert certs/ca.crt"
    nobody = redis_cli(served, f"{tls} ACL WHOAMI")
    assert nobody.stdout.strip() == "NOAUTH Authentication required."
    wrong = redis_cli(served, f"{tls} --user alice --pass wrong ACL WHOAMI")
    assert wrong.stdout.strip() == "NOAUTH Authentication required."
    assert "AUTH failed: WRONGPASS" in wrong.stderr
    refused = redis_cli(served, f"{tls} --user elsewhere --pass $(cat elsewhere.token) GET redis")
    assert refused.stdout.strip() == lacks("get", "elsewhere", "read default --key redis")


def test_redis_cli_and_tls(served: ServerWithUsers) -> None:
    alice = "--user alice --pass $(cat ../alice.token) ACL WHOAMI"
    other_ca = redis_cli(served, f"redis-cli --tls --cacert certs/ca.crt {alice}", served.elsewhere)
    assert (other_ca.stdout, other_ca.returncode) == ("", 1)
    assert "certificate verify failed" in other_ca.stderr
    plain = redis_cli(served, f"redis-cli {alice}", served.elsewhere)
    assert (plain.stdout, plain.returncode) == ("", 1), plain
