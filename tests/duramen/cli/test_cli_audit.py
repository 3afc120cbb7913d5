"""`duramen audit`: which rows it shows, for people and for programs."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from kit.client.audited_server import audited_server
from kit.client.command_line import run_here
from kit.deadlines import patience_s, until
from kit.flight_rows import UNNUMBERED_FLIGHTS, flight_key

import duramen
from duramen.blocking import Database
from duramen.cli.data.audit import parse_time_ms
from duramen.cli.terminal import connection
from log_tier.access.authenticator import basic_header
from log_tier.model.errors import InvalidRequest, PermissionDenied, Unauthenticated
from log_tier.model.identifiers import AUDIT_TABLE
from log_tier.rows.table_spec import TableSpec
from router.proto import kv_pb2

pytestmark = pytest.mark.embedded_log_only  # rows in Kafka: server/roles/test_auditing.py

NOW = 1_764_104_400_000


@pytest.mark.parametrize(
    ("text", "time_ms"),
    [
        ("30s", NOW - 30_000),
        ("2h", NOW - 7_200_000),
        ("1w", NOW - 604_800_000),
        ("2026-11-25T14:00+00:00", 1795615200000),
    ],
)
def test_times(text: str, time_ms: int) -> None:
    assert parse_time_ms(text, now_ms=NOW) == time_ms


@pytest.mark.parametrize("text", ["", "1", "1y", "-1h", "yesterday", "99999-01-01"])
def test_what_is_no_time(text: str) -> None:
    with pytest.raises(InvalidRequest, match="is no time"):
        parse_time_ms(text, now_ms=NOW)


async def _make_rows(folder: Path) -> None:
    async with audited_server(folder) as (_, calls):
        await calls.add_user("root", "admin *")
        await calls.add_user("alice", "read orders")
        await until(lambda: calls.catalog.map.named(AUDIT_TABLE) is not None)
        put = kv_pb2.KVPutRequest(table="ships", key=b"\x1b[2Jk", value=b"v")
        assert isinstance(await calls.error(calls.kv.Put(put, metadata=calls.of("alice"))), PermissionDenied)
        spec = TableSpec("flights", 1, definition=UNNUMBERED_FLIGHTS)
        await calls.connection.create_table(spec, timeout=patience_s(30))
        get = kv_pb2.KVGetRequest(table="flights", key=flight_key("UA", 1545))
        assert isinstance(await calls.error(calls.kv.Get(get, metadata=calls.of("alice"))), PermissionDenied)
        wrong = (("authorization", basic_header("alice", "wrong password")),)
        get = kv_pb2.KVGetRequest(table="orders", key=b"k")
        assert isinstance(await calls.error(calls.kv.Get(get, metadata=wrong)), Unauthenticated)


@pytest.fixture
def stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that a server has written. The command reads them from its folder: it has no credentials to give here."""
    asyncio.run(_make_rows(tmp_path / "data"))

    @contextmanager
    def opened(_at: str, _timeout: float) -> Iterator[Database]:
        with duramen.open(tmp_path / "data") as database:
            yield database

    monkeypatch.setattr(connection, "connected", opened)


@pytest.mark.usefixtures("stored")
def test_rows_for_people_and_for_programs() -> None:
    lines = [json.loads(line) for line in run_here("audit", "--json").stdout.splitlines()]
    assert [(row["kind"], row["result"], row["user"], row["proof"]) for row in lines] == [
        ("login", "allowed", "alice", "token"),
        ("write", "refused", "alice", "token"),
        ("read", "refused", "alice", "token"),
        ("login", "refused", "alice", "nothing"),
    ]
    assert [(row["table"], row["key_text"]) for row in lines if row["table"]] == [
        ("ships", ""),
        ("flights", '["UA",1545]'),
    ]
    shown = run_here("audit").stdout
    assert '["UA",1545]' in shown
    assert "KV/Put" in shown
    assert "(claimed)" in shown
    assert "\x1b" not in shown

    def kinds(*options: str) -> list[str]:
        done = run_here("audit", "--json", *options)
        assert done.returncode == 0, done.stderr
        return [json.loads(line)["kind"] for line in done.stdout.splitlines()]

    assert kinds("--refused") == ["write", "read", "login"]
    assert kinds("--table", "ships") == ["write"]
    assert kinds("--user", "bob") == []
    assert kinds("--limit", "1") == ["login"]
    assert kinds("--until", "1h", "--since", "2h") == []
    assert kinds("--since", "2020-01-01") == ["login", "write", "read", "login"]
    assert "nothing of this" in run_here("audit", "--user", "bob").stdout
    assert run_here("audit", "--since", "1h", "--until", "2h").returncode == 2


def test_without_users_there_is_no_such_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def opened(_at: str, _timeout: float) -> Iterator[Database]:
        with duramen.open(tmp_path / "data") as database:
            yield database

    monkeypatch.setattr(connection, "connected", opened)
    assert run_here("audit").returncode == 3
