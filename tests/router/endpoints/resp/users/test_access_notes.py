"""Reads and writes of chosen tables: each that begins is noted once, by whatever path it runs, and no other one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import count
from typing import Any

import pytest
from kit.deadlines import until, wait_until
from kit.resp.raw_client import Raw, RawError, Status, packed
from kit.resp.server_thread import ServerThread

from log_tier.audit.audit_event import AuditEvent
from log_tier.audit.audit_queue import AuditQueue
from log_tier.audit.audit_settings import AuditSettings
from log_tier.audit.audit_trail import AuditTrail
from log_tier.concurrency.clocks import SYSTEM_CLOCK
from log_tier.model.batch import Columns, encode_batch
from log_tier.rows.table_spec import TableSpec
from log_tier.trust.trust_commands import RevokeRights, SetQuota
from router.endpoints.resp.commands.users.access_notes import AUDITED_AT_ONCE
from router.endpoints.resp.connection.client import Client
from router.endpoints.resp.server.sockets import RespSettings
from router.endpoints.resp.wire.limits import AT_ONCE_KEYS_MAX, AT_ONCE_WORDS_MAX

OK, QUEUED = Status("OK"), Status("QUEUED")
Noted = tuple[str, str, str, str]
"""Kind, action, table and key of an event."""

_names = count()


class AuditedThread(ServerThread):
    """Everything that is done to `default`, what is read in `orders`, and nothing else, is noted."""

    def drain(self) -> list[tuple[AuditEvent, int]]:
        """What was noted since the last time, each with its count, but for logins."""

        async def take() -> list[tuple[AuditEvent, int]]:
            assert self._audit is not None, "it was made with one"
            queue, self._audit.queue = self._audit.queue, AuditQueue(SYSTEM_CLOCK)
            queue.end()  # it gives rows at once
            rows = queue.ready(len(queue))
            return [(row.event, row.count) for row in rows if row.event.kind != "login"]

        return self.run(take)

    def noted(self) -> Counter[Noted]:
        """What was allowed since the last time."""
        found: Counter[Noted] = Counter()
        for event, times in self.drain():
            assert event.result == "allowed", event
            found[event.kind, event.action, event.table, event.key] += times
        return found


@pytest.fixture(scope="module", params=[0, 2], ids=["one process", "two readers"])
def audited(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[AuditedThread]:
    trail = AuditTrail(AuditSettings.parse(["default:read,write", "orders:read"]))
    running = AuditedThread(tmp_path_factory.mktemp("audited"), RespSettings(port=0, readers=request.param), trail)
    running.start()
    running.add_user("root", "admin *", "read,write *")
    for table in ("orders", "ships"):
        spec = TableSpec(table, 1)
        running.run(lambda spec=spec: running.data_plane.create_table(spec, timeout=20))  # type: ignore[misc]
    yield running
    running.close()


@pytest.fixture
def raw(audited: AuditedThread) -> Iterator[Raw]:
    """A connection of `root`; what was done before is forgotten."""
    with audited.connect_as("root") as connection:
        assert connection.call("SET", "eu:there", "1") == OK
        audited.drain()
        yield connection


def pipelined(raw: Raw, commands: Sequence[tuple[Any, ...]]) -> list[Any]:
    raw.send(b"".join(packed(*each) for each in commands))
    return [raw.reply() for _ in commands]


COMMANDS: dict[str, tuple[tuple[str | int, ...], list[str], str]] = {
    "get": (("GET", "eu:there"), ["read"], "eu:there"),
    "set": (("SET", "eu:1", "v"), ["write"], "eu:1"),
    "set with options": (("SET", "eu:1", "v", "NX"), ["read", "write"], "eu:1"),
    "mget": (("MGET", "eu:1", "eu:22", "eu:2"), ["read"], "eu:"),
    "mset": (("MSET", "a", "v", "b", "v"), ["write"], ""),
    "incr": (("INCR", "n"), ["read", "write"], "n"),
    "del": (("DEL", "gone"), ["read", "write"], "gone"),
    "exists": (("EXISTS", "eu:there"), ["read"], "eu:there"),
    "getex": (("GETEX", "eu:there", "EX", 1000), ["read", "write"], "eu:there"),
    "setex": (("SETEX", "eu:x", 100, "v"), ["write"], "eu:x"),
    "scan": (("SCAN", 0, "MATCH", "eu:*"), ["read"], "eu:"),
    "keys": (("KEYS", "*"), ["read"], ""),
    "randomkey": (("RANDOMKEY",), ["read"], ""),
    "dbsize": (("DBSIZE",), ["read"], ""),
    "watch": (("WATCH", "eu:there"), ["read"], "eu:there"),
    "duramen.setv": (("DURAMEN.SETV", "eu:v", "v", 0), ["read", "write"], "eu:v"),
    "duramen.getv": (("DURAMEN.GETV", "eu:there"), ["read"], "eu:there"),
    "subscribe": (("SUBSCRIBE", "__keyevent@0__:set"), ["read"], ""),
    "psubscribe": (("PSUBSCRIBE", "__keyevent@0__:*"), ["read"], ""),
    "of no table": (("PING",), [], ""),
    "about the table": (("DURAMEN.TOKEN",), [], ""),
    "of too few words": (("GET",), [], ""),
    "an option of no command": (("SCAN", 0, "NO", "x"), ["read"], ""),
}
"""What each command needs, and the key that is noted."""


@pytest.mark.parametrize("what", COMMANDS)
def test_a_command_is_noted_once_by_each_right_that_it_needs(audited: AuditedThread, raw: Raw, what: str) -> None:
    command, kinds, key = COMMANDS[what]
    for _ in range(3):
        raw.call(*command)
    action = str(command[0]).lower()
    assert audited.noted() == {(kind, action, "default", key): 3 for kind in kinds}


def test_the_event_says_who_from_where_and_by_which_version(audited: AuditedThread, raw: Raw) -> None:
    raw.call("GET", "eu:there")
    ((event, _),) = audited.drain()
    version = audited.run(_version_of(audited))
    assert event == AuditEvent(
        "read",
        "allowed",
        "root",
        "token",
        audited.tokens["root"].id,
        "127.0.0.1",
        "get",
        "default",
        "eu:there",
        version=version,
    )


def _version_of(audited: AuditedThread) -> Any:
    async def version() -> int:
        return audited.catalog.map.version

    return version


PIPELINES: dict[str, list[tuple[Any, ...]]] = {
    "gets": [("GET", f"k{number}") for number in range(3 * AUDITED_AT_ONCE)],
    "sets": [("SET", f"k{number}", "v") for number in range(3 * AUDITED_AT_ONCE)],
    "rounds": [("INCR", f"n{number % 7}") for number in range(3 * AUDITED_AT_ONCE)],
    "mixed": [
        command
        for number in range(AUDITED_AT_ONCE)
        for command in (("SET", f"m{number}", "v"), ("GET", f"m{number}"), ("PING",), ("APPEND", "all", "x"))
    ],
    "reads of many keys": [("MGET", f"k{number}", f"k{number}x") for number in range(100)],
    "two tables": [("SELECT", "ships"), ("SET", "k", "v"), ("SELECT", 0), ("SET", "k", "v"), ("GET", "k")] * 10,
}


def expected_of(commands: Sequence[tuple[Any, ...]]) -> Counter[Noted]:
    found: Counter[Noted] = Counter()
    table = "default"
    for name, *words in commands:
        if name == "SELECT":
            table = "default" if words[0] == 0 else words[0]
        elif name != "PING" and table == "default":
            kinds = {"GET": ["read"], "MGET": ["read"], "SET": ["write"]}.get(name, ["read", "write"])
            for kind in kinds:
                found[kind, name.lower(), table, words[0]] += 1
    return found


@pytest.mark.parametrize("what", PIPELINES)
def test_a_pipeline_is_noted_command_by_command(audited: AuditedThread, raw: Raw, what: str) -> None:
    replies = pipelined(raw, PIPELINES[what])
    assert not [reply for reply in replies if isinstance(reply, RawError)]
    assert audited.noted() == expected_of(PIPELINES[what])


def test_two_connections_at_once(audited: AuditedThread, raw: Raw) -> None:
    with audited.connect_as("root") as other:
        for connection in (raw, other):
            connection.send(b"".join(packed("INCR", "n") + packed("GET", "g") for _ in range(500)))
        for connection in (raw, other):
            assert len([connection.reply() for _ in range(1000)]) == 1000
    noted = audited.noted()
    assert noted == {
        ("read", "incr", "default", "n"): 1000,
        ("write", "incr", "default", "n"): 1000,
        ("read", "get", "default", "g"): 1000,
    }


def test_tables_that_are_not_chosen(audited: AuditedThread, raw: Raw) -> None:
    """Of `orders` reads are, of `ships` nothing is."""
    assert raw.call("SELECT", "orders") == OK
    pipelined(raw, [("SET", "k", "v"), ("INCR", "n"), ("GET", "k")])
    assert audited.noted() == {("read", "incr", "orders", "n"): 1, ("read", "get", "orders", "k"): 1}
    assert raw.call("SELECT", "ships") == OK
    pipelined(raw, [("SET", "k", "v"), ("INCR", "n"), ("GET", "k"), ("SCAN", 0)])
    assert raw.call("GET", "k") == b"v"
    assert audited.noted() == {}


def test_commands_that_name_another_table(audited: AuditedThread, raw: Raw) -> None:
    """The table that is selected is not the one that they are about."""
    tables = audited.data_plane.catalog.map
    orders, ships, default = (tables.find(name).id for name in ("orders", "ships", "default"))
    assert raw.call("SELECT", "ships") == OK
    batch = encode_batch(Columns([b"eu:1", b"eu:2"], [b"v", b"v"]))
    for table in (orders, ships, default):
        offset, _ = raw.call("DURAMEN.WRITE", str(table), 0, batch)
        raw.call("DURAMEN.AWAIT", str(table), 0, offset)
        assert raw.call("DURAMEN.READ", str(table), 0, offset, "eu:1")[1] == b"v"
    assert raw.call("DURAMEN.READ", "0" * 32, 0, 0, "k").text.startswith("ERR ")
    assert audited.noted() == {
        ("read", "duramen.read", "orders", "eu:1"): 1,
        ("read", "duramen.read", "default", "eu:1"): 1,
        ("write", "duramen.write", "default", "eu:"): 1,
    }


def test_a_transaction_is_noted_when_it_runs_as_one(audited: AuditedThread, raw: Raw) -> None:
    assert pipelined(raw, [("MULTI",), ("SET", "{eu}1", "v"), ("GET", "{eu}2"), ("PING",), ("INCR", "{eu}n")])[1:] == (
        [QUEUED] * 4
    )
    assert audited.noted() == {}, "nothing was done yet"
    assert raw.call("EXEC")[0] == OK
    assert audited.noted() == {("read", "exec", "default", "{eu}"): 1, ("write", "exec", "default", "{eu}"): 1}
    many = [("SET", "{eu}1", "v")] * 50
    assert pipelined(raw, [("MULTI",), *many, ("EXEC",), ("GET", "after")])[-2] == [OK] * 50
    assert audited.noted() == {("write", "exec", "default", "{eu}1"): 1, ("read", "get", "default", "after"): 1}


def test_a_transaction_that_does_not_run_leaves_nothing(audited: AuditedThread, raw: Raw) -> None:
    pipelined(raw, [("MULTI",), ("SET", "k", "v"), ("GET", "k"), ("WATCH", "k"), ("DISCARD",)])
    pipelined(raw, [("MULTI",), ("SET", "k", "v"), ("NONSENSE",), ("EXEC",)])
    pipelined(raw, [("MULTI",), ("SET", "k", "v"), ("RESET",)])
    assert audited.noted() == {}
    with audited.connect_as("root") as leaver:
        pipelined(leaver, [("MULTI",), ("SET", "k", "v")])
    assert audited.noted() == {}


def test_very_many_keys_are_noted_when_a_thread_has_judged_them(audited: AuditedThread, raw: Raw) -> None:
    keys = [f"eu:{number}" for number in range(AT_ONCE_WORDS_MAX + 1)]
    assert len(raw.call("MGET", *keys)) == len(keys)
    assert audited.noted() == {("read", "mget", "default", "eu:"): 1}
    assert raw.call("MULTI") == OK
    raw.call("DEL", *[f"{{us}}:{number}" for number in range(AT_ONCE_KEYS_MAX + 1)])
    assert raw.call("EXEC") == [0]
    assert audited.noted() == {("read", "exec", "default", "{us}:"): 1, ("write", "exec", "default", "{us}:"): 1}


def test_what_is_refused_is_not_noted_as_done(audited: AuditedThread, raw: Raw) -> None:
    name = f"refused{next(_names)}"
    audited.add_user(name, "read default --key eu:")
    audited.submit(lambda seen: SetQuota(f"user:{name}", seen, calls_s=4))
    with audited.connect_as(name) as user, audited.connect() as nobody:
        assert nobody.call("GET", "eu:there").text.startswith("NOAUTH")
        replies = pipelined(user, [("GET", "eu:there"), ("GET", "us:1"), ("SET", "eu:there", "v")])
        assert [reply.text[:6] for reply in replies[1:]] == ["NOPERM"] * 2
        pipelined(user, [("GET", "eu:over")] * 40)
        events = audited.drain()
    allowed = Counter({(event.action, event.key): times for event, times in events if event.result == "allowed"})
    assert allowed["get", "eu:there"] == 1
    assert 1 <= allowed["get", "eu:over"] <= 20, "what is over the quota is none"
    assert {event.key for event, _ in events if event.result == "refused"} >= {"us:1", "eu:there"}
    assert not [key for _, key in allowed if key == "us:1"]


def test_a_subscriber_may_do_nothing_else(audited: AuditedThread, raw: Raw) -> None:
    raw.call("SUBSCRIBE", "__keyevent@0__:nothing")
    assert raw.call("GET", "eu:there").text.startswith("ERR Can't execute")
    assert audited.noted() == {("read", "subscribe", "default", ""): 1}


def test_what_a_revocation_keeps_from_running_is_not_noted(audited: AuditedThread) -> None:
    """Also where it was let in before. What has begun is noted, and once."""
    name = f"revoked{next(_names)}"
    grant = "read default"
    audited.add_user(name, grant)
    with audited.connect_as(name):

        async def revoked_meanwhile() -> None:
            client = next(
                each
                for each in audited.server.clients.values()
                if isinstance(each, Client) and each.caller.name == name
            )
            admission = client.admission
            assert admission is not None, "there are users"
            assert admission.notes is not None, "a table is chosen"
            admission.arrived.extend([b"GET", b"eu:%d" % number] for number in range(6))
            assert admission.admit()
            assert len(client.queue) == 6
            client.queue.popleft()
            client.queue.popleft()
            await audited.catalog.submit(RevokeRights(name, audited.catalog.map.version, grant))
            await until(lambda: admission._filled != audited.server.trust_changes)
            admission.renew()
            assert admission.admit()
            client.queue.clear()
            admission.notes.begun()

        audited.drain()
        audited.run(revoked_meanwhile)
        assert audited.noted() == {("read", "get", "default", f"eu:{number}"): 1 for number in range(2)}


def test_a_connection_that_ends_with_commands_that_have_not_begun(audited: AuditedThread) -> None:
    """A hostile one: it waits for nothing. As many are noted as take effect."""
    with audited.connect_as("root") as raw:
        raw.call("SET", "n", "0")
        audited.drain()
        raw.send(b"".join(packed("INCR", "n") for _ in range(5000)))
        raw.close()
    with audited.connect_as("root") as raw:

        async def no_other_client() -> None:
            await until(lambda: len(audited.server.clients) == 1)

        audited.run(no_other_client)
        noted = audited.noted()
        begun = noted["write", "incr", "default", "n"]
        assert noted == ({(kind, "incr", "default", "n"): begun for kind in ("read", "write")} if begun else {})
        wait_until(lambda: int(raw.call("GET", "n")) == begun)
