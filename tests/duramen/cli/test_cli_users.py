"""The commands on users, roles and grants, against a server that has none at first."""

from __future__ import annotations

import json
import os
import pty
import select
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from kit.client.command_line import lines, run_here
from kit.client.server_process import run_duramen
from kit.deadlines import patience_s

from duramen.cli.users.lifetime import parse_lifetime
from duramen.cli.users.sizes import parse_size
from duramen.server.roles.all_in_one import SingleServer as Server
from log_tier.access.tokens import read_token
from log_tier.model.errors import InvalidRequest
from log_tier.privacy.secret_files import write_secret_file

pytestmark = pytest.mark.embedded_log_only  # users in Kafka: server/roles/test_users_service.py

PASSWORD = "correct horse battery"


class Commands:
    """Commands at one server, as its first user `root` where nobody else is named."""

    def __init__(self, server: Server, folder: Path) -> None:
        self.at = f"127.0.0.1:{server.port}"
        self.folder = folder
        self.root = folder / "root.token"

    def by(self, token_file: Path | None, *arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess[str]:
        before = () if token_file is None else ("--token-file", str(token_file))
        return run_here(*before, *arguments, at=self.at, stdin=stdin)

    def run(self, *arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess[str]:
        done = self.by(self.root, *arguments, stdin=stdin)
        assert done.returncode == 0, done.stderr
        return done

    def refused(self, token_file: Path | None, *arguments: str, code: int, stdin: bytes = b"") -> str:
        done = self.by(token_file, *arguments, stdin=stdin)
        assert (done.returncode, done.stdout) == (code, ""), (done.stdout, done.stderr)
        return done.stderr


@pytest.fixture
def commands(served: Server, tmp_path: Path) -> Commands:
    made = Commands(served, tmp_path)
    done = made.by(None, "user", "add", "root", "--token-file", str(made.root), "--grant", "read,write,admin *")
    assert done.returncode == 0, done.stderr
    return made


def mode_of(path: Path) -> int:
    return path.stat().st_mode & 0o7777


def test_the_first_user_has_a_token_in_a_file(commands: Commands) -> None:
    assert mode_of(commands.root) == 0o600
    read = read_token(commands.root.read_text().strip())
    assert read is not None
    assert read.user == "root"
    said = lines(commands.by(commands.root, "whoami", "--json"))[0]
    assert (said["user"], said["proof"], said["grants"]) == ("root", "token", ["read,write,admin *"])
    assert commands.run("whoami").stdout.startswith("root, by token, at version ")
    assert "give a token or a password" in commands.refused(None, "whoami", code=6)


def test_users_roles_and_grants(commands: Commands) -> None:
    alice = commands.folder / "alice.token"
    commands.run("user", "add", "alice", "--token-file", str(alice), "--ttl", "30d")
    commands.run("grant", "alice", "read,write", "orders", "--key", "eu:")
    commands.run("role", "add", "clerks", "--grant", "read ships*")
    commands.run("grant", "clerks", "read", "notes", "--key", "a b")
    commands.run("role", "assign", "alice", "clerks")
    listed = {user["user"]: user for user in lines(commands.run("user", "list", "--json"))}
    assert listed["alice"]["grants"] == ["read,write orders --key eu:"]
    assert listed["alice"]["roles"] == ["clerks"]
    assert [set(token) for token in listed["alice"]["tokens"]] == [{"id", "expires_ms"}]
    roles = lines(commands.run("role", "list", "--json"))
    assert roles == [{"role": "clerks", "grants": ["read ships*", "read notes --key base64:YSBi"], "users": ["alice"]}]
    for shown in (commands.run("user", "list").stdout, commands.run("role", "list").stdout):
        assert "alice" in shown
        assert "clerks" in shown
        assert alice.read_text().strip() not in shown
    commands.run("table", "create", "orders")
    assert commands.by(alice, "put", "orders", "eu:1", "v").returncode == 0
    message = commands.refused(alice, "put", "orders", "us:1", "v", code=6)
    assert "user alice" in message
    assert "'write orders --key us:1'" in message
    error = json.loads(commands.refused(alice, "table", "drop", "orders", "--yes", "--json", code=6))
    assert (error["error"], error["retryable"]) == ("permission_denied", False)
    assert "'admin orders'" in error["message"]
    commands.run("revoke", "alice", "write,read", "orders", "--key", "eu:")
    assert "read orders" in commands.refused(alice, "get", "orders", "eu:1", code=6)
    commands.run("role", "unassign", "alice", "clerks")
    commands.run("role", "remove", "clerks")
    commands.run("user", "remove", "alice")
    assert "ask for another one" in commands.refused(alice, "whoami", code=6)
    assert commands.refused(None, "get", "orders", "k", code=6).startswith("error: nobody is no user")


def test_another_token_and_its_end(commands: Commands) -> None:
    commands.run("user", "add", "alice")
    made = commands.run("user", "token", "alice")
    text = made.stdout.strip()
    read = read_token(text)
    assert read is not None
    assert (read.user, read.id in made.stderr) == ("alice", True), "the token is alone on the standard output"
    file = commands.folder / "alice.token"
    write_secret_file(file, text)
    own = commands.folder / "own.token"
    shown = lines(commands.by(file, "user", "token", "--token-file", str(own), "--ttl", "1h", "--json"))[0]
    assert set(shown) == {"user", "token_id", "token_file", "expires_ms", "version"}
    assert mode_of(own) == 0o600
    assert commands.by(own, "whoami").returncode == 0
    commands.run("user", "token", "alice", "--revoke", shown["token_id"])
    commands.refused(own, "whoami", code=6)
    assert commands.by(file, "whoami").returncode == 0


def test_a_password_comes_from_standard_input_or_a_file(commands: Commands, monkeypatch: pytest.MonkeyPatch) -> None:
    file = commands.folder / "password"
    write_secret_file(file, PASSWORD)
    commands.run("user", "add", "alice", "--password-file", str(file))
    commands.run("user", "add", "bob", "--password", stdin=f"{PASSWORD}\n".encode())
    for name in ("alice", "bob"):
        monkeypatch.setenv("DURAMEN_USER", name)
        monkeypatch.setenv("DURAMEN_PASSWORD", PASSWORD)
        said = lines(commands.by(None, "whoami", "--json"))[0]
        assert (said["user"], said["proof"]) == (name, "password")
        assert commands.by(None, "user", "password", stdin=b"another horse\n").returncode == 0
        commands.refused(None, "whoami", code=6)
        monkeypatch.setenv("DURAMEN_PASSWORD", "another horse")
        assert commands.by(None, "whoami").returncode == 0
    monkeypatch.delenv("DURAMEN_PASSWORD")
    monkeypatch.delenv("DURAMEN_USER")
    commands.run("user", "password", "bob", "--none")
    assert {user["user"]: user["has_password"] for user in lines(commands.run("user", "list", "--json"))} == {
        "alice": True,
        "bob": False,
        "root": False,
    }


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["user", "add", "root"], 4, "a user 'root' already"),
        (["user", "add", "a b"], 2, "cannot name a user"),
        (["user", "add", "alice", "--ttl", "1d"], 2, "give --token-file too"),
        (["user", "add", "alice", "--token-file", "{root}"], 2, "never replaces another one"),
        (["user", "add", "alice", "--token-file", "{root}/x/y"], 2, "is no folder"),
        (["user", "add", "alice", "--token-file", "{new}", "--ttl", "soon"], 2, "like 30d"),
        (["user", "add", "alice", "--password"], 2, "the password is empty"),
        (["user", "add", "alice", "--grant", "fly orders"], 2, "are no rights"),
        (["user", "remove", "root"], 4, "no user with admin on"),
        (["user", "remove", "bob"], 4, "no user 'bob'"),
        (["user", "token", "--revoke", "x", "--ttl", "1d"], 2, "leave out --ttl"),
        (["user", "password", "bob", "--none"], 4, "no user 'bob'"),
        (["grant", "bob", "read", "orders"], 4, "no user and no role"),
        (["grant", "root", "read,fly", "orders"], 2, "are no rights"),
        (["grant", "root", "admin", "orders", "--key", "x"], 2, "without a key prefix"),
        (["grant", "root", "read", "orders", "--key", "base64:!"], 2, "is no base64"),
        (["revoke", "root", "read", "orders"], 4, "revoke it as it was granted"),
        (["role", "assign", "root", "none"], 4, "no role 'none'"),
        (["quota", "set", "--user", "bob", "--calls", "1"], 4, "no user 'bob'"),
        (["quota", "set", "--user", "root", "--bytes-in", "10mb"], 2, "like 10MB"),
        (["quota", "set", "--user", "root"], 2, "name a bound"),
        (["quota", "set", "--calls", "1"], 2, "--user NAME or --table NAME"),
        (["quota", "remove", "--user", "root", "--table", "orders"], 2, "--user NAME or --table NAME"),
        (["quota", "set", "--table", "orders", "--connections", "1"], 2, "has no connections that could be bounded"),
        (["quota", "set", "--user", "root", "--calls", str(1 << 60)], 2, "it is 0 (no bound) to"),
    ],
)
def test_what_cannot_be_is_refused(commands: Commands, arguments: list[str], code: int, words: str) -> None:
    new = commands.folder / "new.token"
    given = [each.format(root=commands.root, new=new) for each in arguments]
    message = commands.refused(commands.root, *given, code=code)
    assert words in message
    assert not new.exists(), "a refusal leaves no file"
    assert len(lines(commands.run("user", "list", "--json"))) == 1
    assert lines(commands.run("quota", "list", "--json")) == []


def test_quotas_are_set_again_listed_and_removed(commands: Commands) -> None:
    alice = commands.folder / "alice.token"
    commands.run("user", "add", "alice", "--token-file", str(alice), "--grant", "read,write orders")
    commands.run("table", "create", "orders")
    assert "no quotas" in commands.run("quota", "list").stdout
    given = ["quota", "set", "--user", "alice", "--calls", "1000", "--bytes-in", "10MB", "--connections", "20"]
    first = lines(commands.run(*given, "--json"))[0]
    assert first.pop("version") > 0
    bounds = {"calls_s": 1000, "bytes_in_s": 10_000_000, "connections": 20}
    assert first == {"user": "alice", "table": None, **bounds}
    assert "user alice has a quota: calls_s 1000, bytes_in_s 10000000, connections 20" in commands.run(*given).stdout
    commands.run("quota", "set", "--table", "ord*", "--bytes-out", "1MiB", "--scans", "3", "--watches", "4")
    assert lines(commands.run("quota", "list", "--json")) == [
        {"table": "ord*", "bytes_out_s": 1 << 20, "scans": 3, "watches": 4},
        {"user": "alice", **bounds},
    ]
    shown = commands.run("quota", "list").stdout
    assert "user alice" in shown
    assert "10000000" in shown
    assert commands.by(alice, "put", "orders", "k", "v").returncode == 0
    commands.run("quota", "set", "--user", "alice", "--bytes-in", "10")
    assert commands.by(alice, "put", "orders", "k", "v" * 2000, "--timeout", "60").returncode == 0, "one passes"
    refusal = json.loads(commands.refused(alice, "get", "orders", "k", "--timeout", "0.5", "--json", code=5))
    assert "user:alice has a quota of 10 bytes of requests a second" in refusal["message"], refusal
    for _ in range(2):
        commands.run("quota", "remove", "--user", "alice")
    assert commands.by(alice, "get", "orders", "k").returncode == 0
    commands.refused(alice, "quota", "set", "--user", "alice", "--calls", "9", code=6)
    commands.refused(alice, "quota", "list", code=6)


def test_who_drops_a_table_is_reminded_of_its_quota(commands: Commands) -> None:
    """A quota is of a name, and of a prefix for others as well: only the former is said, to who may know of it."""
    alice = commands.folder / "alice.token"
    commands.run("user", "add", "alice", "--token-file", str(alice), "--grant", "admin ships")
    for name in ("orders", "ships", "notes"):
        commands.run("table", "create", name)
    for name in ("orders", "ships", "n*"):
        commands.run("quota", "set", "--table", name, "--calls", "1000")
    assert "deletes its 0 keys for ever; its quota stays: say --yes" in commands.refused(
        commands.root, "table", "drop", "orders", code=2
    )
    said = commands.run("table", "drop", "orders", "--yes").stdout
    assert said.splitlines() == [
        "dropped orders with its 0 keys",
        "its quota stays for a table of this name: `duramen quota remove --table orders` takes it away",
    ]
    assert lines(commands.by(alice, "table", "drop", "ships", "--yes", "--json"))[0]["kept_quota"] is False
    dropped = lines(commands.run("table", "drop", "notes", "--yes", "--json"))[0]
    assert list(dropped) == ["table", "id", "dropped", "keys", "kept_topic", "kept_quota"]
    assert dropped["kept_quota"] is False
    assert len(lines(commands.run("quota", "list", "--json"))) == 3
    commands.run("table", "create", "orders")
    assert lines(commands.run("table", "drop", "orders", "--yes", "--json"))[0]["kept_quota"] is True


def test_sizes() -> None:
    given = ("0", "4096", "7B", "500kB", "10MB", "2GB", "1KiB", "3MiB", "1GiB")
    assert [parse_size(each) for each in given] == [
        0, 4096, 7, 500_000, 10_000_000, 2_000_000_000, 1024, 3 << 20, 1 << 30,
    ]  # fmt: skip
    for wrong in ("", "MB", "-1", "1.5MB", "10 MB", "10mb", "1TB", "1" * 16):
        with pytest.raises(InvalidRequest, match="like 10MB"):
            parse_size(wrong)


def test_no_user_is_said(served: Server, tmp_path: Path) -> None:
    commands = Commands(served, tmp_path)
    assert "everybody may do everything" in commands.by(None, "whoami").stdout
    assert "everybody may do everything" in commands.by(None, "user", "list").stdout
    assert "no roles" in commands.by(None, "role", "list").stdout


def typed(arguments: list[str], answers: list[str], at: str, folder: Path) -> tuple[int, str]:
    """The exit code of a command at a terminal, and what the terminal showed."""
    main, terminal = pty.openpty()
    environment = {**os.environ, "DURAMEN_AT": at, "NO_COLOR": "1"}
    process = subprocess.Popen(
        [sys.executable, "-m", "duramen", *arguments],
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        env=environment,
        cwd=folder,
        start_new_session=True,
    )
    os.close(terminal)
    shown = b""
    left = list(answers)
    try:
        while data := _read(main):
            shown += data
            if left and shown.endswith(b": "):  # the space comes when the echo is off
                os.write(main, left.pop(0).encode() + b"\n")
                shown += b"|"
        return process.wait(patience_s(60)), shown.decode()
    finally:
        process.kill()
        process.wait()
        os.close(main)


def _read(descriptor: int) -> bytes:
    assert select.select([descriptor], [], [], patience_s(60))[0], "the command says nothing more"
    try:
        return os.read(descriptor, 4096)
    except OSError:  # the terminal's other end is closed
        return b""


def test_a_password_is_typed_twice_and_not_shown(commands: Commands) -> None:
    before = ["--token-file", str(commands.root)]
    code, shown = typed([*before, "user", "add", "alice", "--password"], [PASSWORD] * 2, commands.at, commands.folder)
    assert (code, PASSWORD in shown) == (0, False), shown
    code, shown = typed(["whoami"], [PASSWORD], f"alice@{commands.at}", commands.folder)
    assert (code, "alice, by password" in shown, PASSWORD in shown) == (0, True, False), shown


def test_a_token_that_cannot_be_kept_is_named(commands: Commands, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device", "new.token")

    monkeypatch.setattr("duramen.cli.users.rendering.write_secret_file", full)
    new = commands.folder / "new.token"
    message = commands.refused(commands.root, "user", "add", "alice", "--token-file", str(new), code=1)
    token_id = lines(commands.run("user", "list", "--json"))[0]["tokens"][0]["id"]
    assert f"the token {token_id} was made and could not be kept" in message


def test_a_process_of_its_own(commands: Commands) -> None:
    """What the commands import by themselves is all they need."""
    done = run_duramen("--token-file", str(commands.root), "user", "list", "--json", at=commands.at)
    assert [json.loads(line)["user"] for line in done.stdout.splitlines()] == ["root"], done.stderr


def test_lifetimes() -> None:
    given = (None, "90s", "15m", "12h", "30d", "8w")
    assert [parse_lifetime(each) for each in given] == [
        0, 90_000, 900_000, 43_200_000, 2_592_000_000, 4_838_400_000,
    ]  # fmt: skip
    for wrong in ("", "0d", "30", "d", "-1d", "1.5h", "30 d", "1y"):
        with pytest.raises(InvalidRequest, match="like 30d"):
            parse_lifetime(wrong)


@pytest.fixture(autouse=True)
def no_secrets_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DURAMEN_TOKEN", "DURAMEN_TOKEN_FILE", "DURAMEN_USER", "DURAMEN_PASSWORD"):
        monkeypatch.delenv(name, raising=False)
