"""From an empty folder to a cluster that obeys grants, by the commands that a person types."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from kit.client.server_process import START_SECONDS_MAX, ServerProcess, read_line
from kit.deadlines import patience_s
from kit.warm.warm_process import WarmProcess, run_warm

import duramen
from duramen import aio

pytestmark = pytest.mark.embedded_log_only  # what is asked is the server, and not where its log is

FIRST = ["--first-user", "admin", "--token-file"]


class Shell:
    """Commands in one folder, with one environment."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = {**os.environ, "COLUMNS": "200", "NO_COLOR": "1"}
        for name in ("DURAMEN_TOKEN", "DURAMEN_TOKEN_FILE", "DURAMEN_USER", "DURAMEN_PASSWORD", "DURAMEN_AT"):
            self.environment.pop(name, None)

    def run(self, line: str) -> subprocess.CompletedProcess[str]:
        return run_warm(
            [sys.executable, "-m", "duramen", *line.split()],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            text=True,
            timeout=patience_s(60),
        )

    def check(self, line: str) -> str:
        done = self.run(line)
        assert done.returncode == 0, f"{line}: {done.stderr}"
        return done.stdout


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    made = Shell(tmp_path)
    made.check("cert init --dir certs")
    made.check("cert issue server --server localhost,127.0.0.1 --dir certs")
    return made


@pytest.fixture
def server(shell: Shell, tmp_path: Path) -> Iterator[ServerProcess]:
    arguments = ["--certs", str(tmp_path / "certs"), *FIRST, str(tmp_path / "admin.token")]
    made = ServerProcess(tmp_path / "data", log=tmp_path / "server.log", arguments=arguments)
    shell.environment |= {"DURAMEN_AT": f"duramens://localhost:{made.announcement['port']}"}
    shell.environment |= {"DURAMEN_CA": "certs/ca.crt"}
    yield made
    made.close()


def test_the_commands(shell: Shell, server: ServerProcess) -> None:
    assert (server.announcement["first_user"], server.announcement["users"]) == ("made", 1)
    shell.check("--token-file admin.token user add alice --token-file alice.token")
    shell.check("--token-file admin.token table create orders")
    shell.check("--token-file admin.token grant alice read,write orders")
    shell.check("--token-file alice.token put orders k v")
    assert shell.check("--token-file alice.token get orders k") == "v\n"
    refused = shell.run("--token-file alice.token table drop orders --yes")
    assert refused.returncode == 6
    assert "user alice may not call Tables/Drop" in refused.stderr
    assert "'admin orders'" in refused.stderr
    nobody = shell.run("get orders k --json")
    assert nobody.returncode == 6
    assert json.loads(nobody.stderr)["error"] == "unauthenticated"
    assert shell.check("--token-file alice.token whoami").startswith("alice, by token")
    # The token is not shown by the server, and a restart makes no other user.
    server.restart()
    assert (server.announcement["first_user"], server.announcement["users"]) == ("there", 2)
    assert shell.check("--token-file alice.token get orders k") == "v\n"
    for name in ("admin.token", "alice.token"):
        file = shell.folder / name
        assert file.stat().st_mode & 0o7777 == 0o600
        assert file.read_text().strip() not in (shell.folder / "server.log").read_text()


def test_the_same_from_python(shell: Shell, server: ServerProcess) -> None:
    at, ca = shell.environment["DURAMEN_AT"], shell.folder / "certs" / "ca.crt"
    shell.check("--token-file admin.token user add alice --token-file alice.token")
    with duramen.connect(at, ca=ca, token_file=shell.folder / "admin.token") as admin:
        admin.create_table("orders")
    shell.check("--token-file admin.token grant alice read,write orders")
    with duramen.connect(at, ca=ca, token_file=shell.folder / "alice.token") as database:
        orders = database.table("orders")
        orders.put(b"k", b"v")
        assert orders.get(b"k") == b"v"
        with pytest.raises(duramen.PermissionDenied, match=r"user alice.*'admin orders'"):
            database.drop_table("orders")
    with pytest.raises(duramen.Unauthenticated):
        duramen.connect(at, ca=ca)
    with pytest.raises(duramen.InvalidRequest, match="is a token of the user alice, not of admin"):
        duramen.connect(at.replace("//", "//admin@"), ca=ca, token_file=shell.folder / "alice.token")


async def test_the_same_from_an_event_loop(shell: Shell, server: ServerProcess) -> None:
    at, ca = shell.environment["DURAMEN_AT"], shell.folder / "certs" / "ca.crt"
    shell.check("--token-file admin.token user add alice --token-file alice.token")
    shell.check("--token-file admin.token grant alice read,write,admin orders")
    async with await aio.connect(at, ca=ca, token_file=shell.folder / "alice.token") as database:
        orders = await database.create_table("orders")
        await orders.put(b"k", b"v")
        assert await orders.get(b"k") == b"v"
        with pytest.raises(duramen.PermissionDenied, match=r"user alice.*'admin ships'"):
            await database.create_table("ships")
    with pytest.raises(duramen.Unauthenticated):
        await aio.connect(at, ca=ca)


def test_a_single_server_on_loopback_may_have_users_without_tls(tmp_path: Path) -> None:
    token_file = tmp_path / "admin.token"
    server = ServerProcess(tmp_path / "data", log=tmp_path / "log", arguments=[*FIRST, str(token_file)])
    try:
        with duramen.connect(server.target, token_file=token_file) as database:
            database.create_table("orders").put(b"k", b"v")
        with pytest.raises(duramen.Unauthenticated):
            duramen.connect(server.target)
    finally:
        server.close()


def test_an_address_of_others_needs_certificates_and_users(shell: Shell) -> None:
    def ended(line: str) -> tuple[int, str]:
        done = shell.run(f"up --data data --port 0 --host 0.0.0.0 {line}")
        return done.returncode, done.stderr

    code, said = ended("--first-user admin --token-file admin.token")
    assert (code, "--certs certs" in said, "--insecure" in said) == (2, True, True), said
    code, said = ended("--certs certs")
    assert (code, "--first-user admin --token-file admin.token" in said, "--insecure" in said) == (2, True, True), said
    for arguments in (["--certs", "certs", *FIRST, "admin.token"], ["--certs", "certs"], ["--insecure"]):
        given = [str(shell.folder / each) if each in ("certs", "admin.token") else each for each in arguments]
        server = ServerProcess(shell.folder / "data", log=shell.folder / "log", arguments=["--host", "0.0.0.0", *given])
        server.close()
        assert server.announcement["users"] == 1
    assert "--insecure" in (shell.folder / "log").read_text()


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("--first-user admin", "go together"),
        ("--token-file admin.token", "go together"),
        ("--first-user a@b --token-file admin.token", "cannot name a user"),
        ("--first-user admin --token-file none/admin.token", "is no folder"),
        ("--first-user admin --token-file admin.token --nodes 1", "a cluster with users needs certificates"),
    ],
)
def test_a_first_user_that_cannot_be(tmp_path: Path, line: str, words: str) -> None:
    done = Shell(tmp_path).run(f"up --data data --port 0 {line}")
    assert (done.returncode, words in done.stderr) == (2, True), done.stderr
    assert not (tmp_path / "admin.token").exists()


def test_a_cluster_makes_its_first_user_once(shell: Shell) -> None:
    """The parent keeps the token; its processes have its id and SHA-256."""
    token_file = shell.folder / "admin.token"
    arguments = ["--nodes", "2", "--certs", str(shell.folder / "certs"), *FIRST, str(token_file)]
    said = []
    for number in range(2):
        cluster = ClusterStart(shell, arguments, shell.folder / f"log{number}")
        try:
            said.append(cluster.started["first_user"])
            shell.environment["DURAMEN_AT"] = f"duramens://localhost:{cluster.started['port']}"
            shell.environment["DURAMEN_CA"] = "certs/ca.crt"
            if number == 0:
                token = token_file.read_text().strip()
                secret = token.split("_")[2].encode()
                for pid in cluster.pids:
                    shown = Path(f"/proc/{pid}/environ").read_bytes() + Path(f"/proc/{pid}/cmdline").read_bytes()
                    assert secret not in shown, "a process of the cluster knows the token"
                token_file.rename(shell.folder / "kept")
            assert not token_file.exists(), "a token that proves nobody is removed"
            assert shell.check("--token-file kept whoami").startswith("admin, by token")
            assert shell.run("whoami").returncode == 6
        finally:
            cluster.close()
    assert said == ["made", "there"]


def test_a_cluster_says_how_clients_of_redis_reach_it(shell: Shell) -> None:
    """With TLS and without; what is said is what a person types."""
    for certs in ([], ["--certs", "certs"]):
        command = ["up", "--nodes", "1", "--data", f"data{len(certs)}", "--port", "0", "--resp-port", "0", *certs]
        process = WarmProcess[bytes](
            [sys.executable, "-m", "duramen", *command],
            cwd=shell.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        try:
            said = b""
            while b"\n  stop " not in said:
                line = read_line(process, START_SECONDS_MAX)
                assert line, said
                said += line
            (typed,) = re.findall(r"^  redis     redis-cli (.*), or any client", said.decode(), re.MULTILINE)
        finally:
            process.terminate()
            process.communicate(timeout=patience_s(60))
        tls = f"--tls --cacert {shell.folder / 'certs' / 'ca.crt'} "
        assert re.fullmatch(rf"{re.escape(tls) if certs else ''}-p \d+", typed), typed


class ClusterStart:
    """`duramen up --nodes`, until `close`."""

    def __init__(self, shell: Shell, arguments: list[str], log: Path) -> None:
        command = [sys.executable, "-m", "duramen", "up", "--data", "cluster", "--port", "0", "--json", *arguments]
        with log.open("ab") as errors:
            self.process = WarmProcess[bytes](
                command, cwd=shell.folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors
            )
        self.pids: list[int] = []
        while True:
            line = read_line(self.process, START_SECONDS_MAX)
            assert line, log.read_text()
            event = json.loads(line)
            if event["event"] == "started":
                self.started = event
                return
            self.pids.append(event["pid"])

    def close(self) -> None:
        self.process.terminate()
        self.process.communicate(timeout=patience_s(60))
