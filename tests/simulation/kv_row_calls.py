"""Callers who write and find rows as JSON by `duramen.v1.KV`, at one server after the other.

A group has one row or many, and perhaps a misfit: then none of it may take effect, and nothing of it reaches the log.
What was acknowledged is read at another server by its token: by its key, and by its fields.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Sequence
from contextlib import aclosing
from typing import Any, Final, cast

from duramen.client.model.results import Entry
from log_tier.model.errors import DuramenError, InvalidKey, InvalidRow
from log_tier.model.identifiers import Offset
from log_tier.rpc.wire import Wire
from router.proto import kv_pb2 as kv
from router.proto import kv_pb2_grpc
from simulation.book import Broken
from simulation.json_row_calls import DrawnRows, JsonWorld, TextRow, stored
from simulation.row_ledger import RowWrite

__all__ = ["KVRowCaller"]

_CARRIERS: Final = ("AA", "UA")
_FITS_CHANCE: Final = 0.7
_SIZES: Final = (1, 1, 3, 9)
_FORM: Final = kv.KV_FORM_JSON
_WRITE_S: Final = 1.0
_SURE_S: Final = 10.0


class KVRowCaller:
    """One caller of one table."""

    def __init__(self, world: JsonWorld, table: str, chance: random.Random) -> None:
        self._world, self._table, self._chance = world, table, chance
        self._drawn = DrawnRows(world, chance)

    async def write(self, servers: Sequence[str], *, sure: bool = False) -> None:
        """A group at one server, which is read at another. `sure`: nothing is at fault. Raises `Broken`."""
        chance = self._chance
        carrier, fits = chance.choice(_CARRIERS), chance.random() < _FITS_CHANCE
        rows = [self._drawn.row(carrier) for _ in range(chance.choice(_SIZES))]
        writes = [kv.KVWrite(key=chance.choice((row.key_text, b"")), put=row.text) for row in rows]
        if not fits:
            key, text, _ = self._drawn.misfit(carrier)
            writes.insert(chance.randrange(len(writes) + 1), kv.KVWrite(key=key, put=text))
        for row in rows if fits else ():
            self._world.rows.tries(self._table, row.key, row.value, fits=True)
        timeout = _SURE_S if sure else _WRITE_S
        try:
            request = kv.KVWriteRequest(table=self._table, writes=writes, form=_FORM)
            reply = await _asked(chance.choice(servers), "Write", request, timeout)
        except (InvalidRow, InvalidKey) as error:
            if fits:
                raise Broken("fitting", f"rows by KV for {self._table} were refused: {error.message}") from error
            self._world.story.met["rows: misfit refused by KV"] += 1
            return
        except DuramenError as error:
            self._may_fail("a group", error, sure=sure)
            return
        if not fits:
            raise Broken("fitting", f"a group with a misfit for {self._table} was acknowledged by KV: {writes}")
        self._world.story.met["rows: written by KV"] += len(rows)
        last = {row.key: (row, Offset(each.version)) for row, each in zip(rows, reply.results, strict=True)}
        for row, version in last.values():
            self._world.rows.wrote(self._table, row.key, RowWrite(version, row.value))
        await self._read(servers, *chance.choice(list(last.values())), reply.token, timeout, sure=sure)

    async def _read(
        self, servers: Sequence[str], row: TextRow, version: Offset, token: str, timeout: float, *, sure: bool
    ) -> None:
        """By its key and by its fields at once, at other servers: it is there, or something later."""
        fields = json.loads(row.text)
        where = json.dumps({name: fields[name] for name in ("carrier", "flight")})
        get = kv.KVGetRequest(table=self._table, key=row.key_text, after=token, form=_FORM)
        find = kv.KVFindRequest(table=self._table, where=where, after=token, form=_FORM)
        server, other = self._chance.choice(servers), self._chance.choice(servers)
        calls = (_asked(server, "Get", get, timeout), _found(other, find))
        replies: list[Any] = await asyncio.gather(*calls, return_exceptions=True)
        for each in replies:
            if isinstance(each, DuramenError):
                self._may_fail("a read", each, sure=sure)
                return
            if isinstance(each, BaseException):
                raise each
        got, found = replies
        least = RowWrite(version, row.value)
        shown = [Entry(got.value, got.version, 0)] if got.HasField("value") else []
        for how, entries in (("got", shown), ("found", found)):
            if len(entries) > 1:
                raise Broken("fitting", f"{row.key_text!r} of {self._table} is found {len(entries)} times by KV")
            entry = self._stored(entries[0]) if entries else None
            if what := self._world.rows.difference(self._table, row.key, entry, least):
                raise Broken("fitting", f"of {self._table}, {how} by KV: {what}")
            self._world.story.met[f"rows: {how} by KV"] += 1

    def _stored(self, entry: Any) -> Entry:
        return Entry(stored(json.loads(entry.value), self._world.rows.row_schema), Offset(entry.version), 0)

    def _may_fail(self, what: str, error: DuramenError, *, sure: bool) -> None:
        if sure:
            raise Broken("fitting", f"{what} by KV for {self._table} failed: {error!r}") from error
        self._world.story.met[f"rows: KV failed, {error.code}"] += 1


async def _asked(server: str, method: str, request: Any, timeout: float) -> Any:
    wire = Wire(f"{server}:7070")
    try:
        stub: Any = kv_pb2_grpc.KVStub(wire.channel)  # type: ignore[no-untyped-call]
        return await wire.ask(getattr(stub, method), request, timeout=timeout)
    finally:
        await wire.close()


async def _found(server: str, request: kv.KVFindRequest) -> list[kv.KVEntry]:
    wire = Wire(f"{server}:7070")
    try:
        stub: Any = kv_pb2_grpc.KVStub(wire.channel)  # type: ignore[no-untyped-call]
        async with aclosing(cast("Any", wire.stream(stub.Find, request))) as messages:
            return [entry async for message in messages for entry in message.entries]
    finally:
        await wire.close()
