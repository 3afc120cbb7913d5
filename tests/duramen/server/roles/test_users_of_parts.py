"""A user of some keys of a table of rows sees nothing of the others by any way in; each refusal is audited once."""

from __future__ import annotations

import asyncio
import base64
import json
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import pytest
from kit.client.audited_server import AuditedCalls, audited_server
from kit.client.command_line import run_here
from kit.http import http_get
from kit.resp.raw_client import Raw, RawError, Status
from kit.rows.flights import Flight

from duramen import aio
from duramen.server.roles.all_in_one import SingleServer
from log_tier.audit.audit_settings import AuditSettings
from log_tier.model.errors import PermissionDenied
from log_tier.rows.tuple_key import key_range
from router.endpoints.resp.server.sockets import RespSettings
from router.proto import admin_pb2, console_pb2, console_pb2_grpc, kv_pb2

pytestmark = pytest.mark.embedded_log_only

OWN: Final = [Flight("UA", number, "N1", 60.0) for number in range(20)]
HIDDEN: Final = [Flight("ZZ", number, "HIDDEN", 61.0) for number in range(3)]
UA: Final = key_range("UA").start
GRANT: Final = f"read flights --key base64:{base64.b64encode(UA).decode()}"
JSON: Final = kv_pb2.KV_FORM_JSON


@dataclass
class SharedFlights:
    """A server with flights of two carriers: `part` may read those of UA, `other` the table `ships`."""

    server: SingleServer
    calls: AuditedCalls
    folder: Path

    @property
    def target(self) -> str:
        return f"127.0.0.1:{self.server.port}"

    async def rows(self, user: str) -> aio.Database:
        return await aio.connect(self.target, token=self.calls.tokens[user].text)

    async def command(self, user: str, *words: str) -> Any:
        """A command of `duramen`, in a thread."""
        file = self.folder / f"{user}.token"
        file.write_text(self.calls.tokens[user].text)
        file.chmod(0o600)
        return await asyncio.to_thread(run_here, "--token-file", str(file), *words, at=self.target)

    async def refused(self, user: str, count: int) -> Counter[tuple[str, str, str, str]]:
        """What was refused, when it was so often: actions, tables, keys and what is missing."""
        rows = await self.calls.until_rows(user=user, result="refused")
        while sum(row["count"] for row in rows) < count:
            rows = await self.calls.until_rows(len(rows) + 1, user=user, result="refused")
        found: Counter[tuple[str, str, str, str]] = Counter()
        for row in rows:
            lacks = row["detail"].rpartition("what is missing is ")[2]
            found[row["action"], row["table"], row["key_text"] or row["key"], lacks] += row["count"]
        return found


@pytest.fixture
async def parts(tmp_path: Path) -> AsyncIterator[SharedFlights]:
    audit = replace(AuditSettings(), window_s=0.05)
    async with audited_server(tmp_path / "data", audit=audit, resp=RespSettings(port=0)) as (server, calls):
        await server.serve_http(0)
        await calls.add_user("root", "admin *", "read,write *", "read _duramen_audit")
        await calls.add_user("part", GRANT)
        await calls.add_user("other", "read ships")
        made = SharedFlights(server, calls, tmp_path)
        async with await made.rows("root") as database:
            table = await database.create_table(
                "flights", row=Flight, key=("carrier", "flight"), indexes={"by_tail": ("tailnum", "dep_delay")}
            )
            await table.put_many([*OWN, *HIDDEN])
            assert len(await _all(table.scan())) == len(OWN) + len(HIDDEN), "others need not wait for them"
        yield made


async def _all(rows: Any) -> list[Any]:
    return [row async for row in rows]


async def _batches(table: Any, **how: Any) -> list[Any]:
    return [batch async for batch in table.arrow_batches(**how)]


Read = Callable[[Any], Awaitable[Any]]
READS: Final[dict[str, Read]] = {
    "find": lambda table: _all(table.find(carrier="UA")),
    "find in another order": lambda table: _all(table.find(carrier="UA", order="-dep_delay")),
    "find of one partition's keys": lambda table: _all(table.find(carrier="UA", tailnum="N1", flight=(0, 20))),
    "scan": lambda table: _all(table.scan(carrier="UA")),
}
"""What the grant covers, though the conditions could be met by others' rows."""
REFUSED: Final[dict[str, Read]] = {
    "find of all": lambda table: _all(table.find()),
    "find by an index": lambda table: _all(table.find(tailnum="N1")),
    "find by an index, of hidden rows": lambda table: _all(table.find(tailnum="HIDDEN")),
    "find of another carrier": lambda table: _all(table.find(carrier="ZZ")),
    "explain by an index": lambda table: table.explain(tailnum="HIDDEN"),
    "explain of another carrier": lambda table: table.explain(carrier="ZZ"),
    "scan": lambda table: _all(table.scan()),
    "scan of another carrier": lambda table: _all(table.scan(carrier="ZZ")),
    "arrow": lambda table: table.to_arrow(),
    "arrow of another carrier": lambda table: _batches(table, where={"carrier": "ZZ"}),
    "get": lambda table: table.get("ZZ", 1),
    "get_many": lambda table: table.get_many([("UA", 1), ("ZZ", 1)]),
    "watch": lambda table: _all(table.watch()),
    "put": lambda table: table.put(HIDDEN[0]),
    "delete": lambda table: table.delete("UA", 1),
}


async def test_the_client(parts: SharedFlights) -> None:
    async with await parts.rows("part") as database:
        table = database.table("flights", row=Flight)
        for what, read in READS.items():
            assert len(await read(table)) == len(OWN), what
        assert (await table.to_arrow(where={"carrier": "UA"})).num_rows == len(OWN)
        assert (await table.explain(carrier="UA")).rows == len(OWN)
        for what, read in REFUSED.items():
            with pytest.raises(PermissionDenied) as refused:
                await read(table)
            assert "HIDDEN" not in refused.value.message, what
    found = await parts.refused("part", len(REFUSED))
    assert found.total() == len(REFUSED), found
    assert {table for _, table, _, _ in found} == {"flights"}
    assert not any("HIDDEN" in field for row in found for field in row)
    counted = "more keys than are shown one by one"
    assert all(lacks.startswith(("'read flights", "'write flights", counted)) for _, _, _, lacks in found), found
    # The first 8 of a second have rows of their own. A row that counts further ones has no key but that of all.
    assert {(action, key) for action, _, key, _ in found if key} <= {
        ("KeyValue/Scan", '["ZZ",…'),
        ("KeyValue/Read", '["ZZ",1]'),
        ("KeyValue/Read", '["UA",1]'),
        ("KeyValue/Write", '["ZZ",0]'),
        ("KeyValue/Write", '["UA",1]'),
    }
    async with await parts.rows("other") as database:
        with pytest.raises(PermissionDenied) as refused:
            await database.table("flights", row=Flight).get("UA", 1)
        with pytest.raises(PermissionDenied) as absent:
            await database.table("flight5", row=Flight).get("UA", 1)
    assert refused.value.message == absent.value.message.replace("flight5", "flights")
    assert {table for _, table, _, _ in await parts.refused("other", 2)} == {"flights", "flight5"}


async def test_calls_with_json(parts: SharedFlights) -> None:
    calls, of_part = parts.calls, parts.calls.of("part")
    console: Any = console_pb2_grpc.ConsoleStub(calls.channel)  # type: ignore[no-untyped-call]
    asked = {
        "KV/Find": calls.kv.Find(kv_pb2.KVFindRequest(table="flights", where='{"carrier":"UA"}'), metadata=of_part),
        "KV/Scan": calls.kv.Scan(kv_pb2.KVScanRequest(table="flights", form=JSON), metadata=of_part),
        "KV/Get": calls.kv.Get(kv_pb2.KVGetRequest(table="flights", key=b'["ZZ",1]', form=JSON), metadata=of_part),
        "KV/Watch": calls.kv.Watch(kv_pb2.KVWatchRequest(table="flights", form=JSON), metadata=of_part),
        "Console/Find": console.Find(console_pb2.ConsoleFindRequest(table="flights"), metadata=of_part),
        "Console/Records": console.Records(console_pb2.ConsoleRecordsRequest(table="flights"), metadata=of_part),
        "Admin/Explain": calls.admin.Explain(
            admin_pb2.AdminExplainRequest(table="flights", key=key_range("ZZ").start), metadata=of_part
        ),
    }
    for what, call in asked.items():
        error = await calls.error(call.read() if hasattr(call, "read") else call)
        assert isinstance(error, PermissionDenied), what
        assert "HIDDEN" not in error.message
    found = await parts.refused("part", len(asked))
    assert {action: count for (action, _, _, _), count in found.items()} == dict.fromkeys(asked, 1)
    assert {table for _, table, _, _ in found} == {"flights"}
    (key,) = {key for action, _, key, _ in found if action == "KV/Get"}
    assert key == '["ZZ",1]'


async def test_the_redis_protocol(parts: SharedFlights) -> None:
    commands = (("GET", '["ZZ",1]'), ("KEYS", "*"), ("SCAN", "0"), ("RANDOMKEY",), ("MGET", '["UA",1]', '["ZZ",1]'))

    def say() -> list[Any]:
        with Raw(("127.0.0.1", parts.server.resp_port)) as raw:
            for words in (("AUTH", "part", parts.calls.tokens["part"].text), ("SELECT", "flights")):
                assert raw.call(*words) == Status("OK")
            assert b'"N1"' in raw.call("GET", '["UA",1]')
            return [*(raw.call(*words) for words in commands), raw.call("DBSIZE"), raw.call("INFO", "keyspace")]

    *replies, size, keyspace = await asyncio.to_thread(say)
    for words, reply in zip(commands, replies, strict=True):
        assert isinstance(reply, RawError), words
        assert reply.text.startswith("NOPERM "), words
    assert isinstance(size, RawError) or size == 0
    assert f"keys={len(OWN) + len(HIDDEN)}".encode() not in bytes(keyspace)
    refused = [*commands, ("DBSIZE",)] if isinstance(size, RawError) else commands
    found = await parts.refused("part", len(refused))
    assert {action: count for (action, _, _, _), count in found.items()} == {words[0].lower(): 1 for words in refused}
    assert {table for _, table, _, _ in found} == {"flights"}


@pytest.mark.parametrize(
    "words",
    [
        ("find", "flights", "--field", "tailnum=HIDDEN"),
        ("find", "flights", "--field", "carrier=ZZ"),
        ("scan", "flights"),
        ("get", "flights", "ZZ", "1"),
    ],
    ids=lambda words: words[0],
)
async def test_commands(
    parts: SharedFlights, words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = await parts.command("part", *words)
    assert (done.returncode, "HIDDEN" in done.stdout) == (6, False), done
    assert "part may not" in done.stderr
    found = await parts.refused("part", 1)
    assert found.total() == 1, found
    assert {table for _, table, _, _ in found} == {"flights"}
    done = await parts.command("other", *words)
    assert (done.returncode, done.stdout) == (6, ""), done
    assert "carrier" not in done.stderr


async def test_the_registry_of_schemas(parts: SharedFlights) -> None:
    async def asked(user: str, path: str) -> tuple[int, Any]:
        [(name, value)] = parts.calls.of(user)
        code, _, body = await http_get(parts.server.http_port, path, f"{name}: {value}")
        return code, json.loads(body)

    assert await asked("part", "/subjects") == (200, ["flights-value"])
    assert await asked("other", "/subjects") == (200, [])
    for path in ("/subjects/flights-value/versions", "/schemas/ids/1", "/subjects/flights-value/versions/1"):
        code, hidden = await asked("other", path)
        assert code == 404, path
        assert await asked("other", path.replace("flights", "flight5").replace("ids/1", "ids/9")) == (
            404,
            json.loads(json.dumps(hidden).replace("flights", "flight5").replace("Schema 1", "Schema 9")),
        ), path
