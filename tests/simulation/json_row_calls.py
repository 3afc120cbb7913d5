"""Callers who write rows as JSON: by the Redis protocol, and as the command line does. Both are next to typed ones.

What is JSON is encoded and checked where it comes in (decision 87). So of what does not fit nothing reaches the log:
the ledger knows of none of it, and a void record too many says that one did. What fits is stored as the writers of Avro
store it, byte by byte, and its JSON is read back as it was written.
"""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from typing import Any, Final, NamedTuple, Protocol

from kit.flight_rows import flight, flight_key

from duramen.cli.data.record_text import RecordText
from duramen.client.table import Table
from duramen.testing.machine.resp_words import RawError
from duramen.testing.machine.simulated_wire import WireClient
from duramen.testing.machine.story import RunStory
from log_tier.model.errors import DuramenError, InvalidKey, InvalidRequest, InvalidRow, RowRejected
from log_tier.model.identifiers import Offset
from simulation.book import Broken
from simulation.row_ledger import RowLedger, RowWrite

__all__ = ["CommandRowCaller", "DrawnRows", "JsonWorld", "TextRow", "WireRowCaller", "stored"]

_CARRIERS: Final = ("AA", "UA")
_FLIGHTS: Final = 4
_FITS_CHANCE: Final = 0.6
_FITTING: Final = ("SET", "SET", "MSET", "transaction")
_MISFITS: Final = ("bad SET", "bad MSET", "bad transaction", "APPEND")
_WRONG: Final = ("no JSON", "a field lacks", "a field more", "another type", "another key", "no key")
_MAY_FAIL: Final = ("WRITEUNKNOWN", "MISCONF", "TRYAGAIN", "CLUSTERDOWN", "LOADING")
"""What a fault may let an endpoint answer to what fits."""

Command = tuple[bytes, ...]


class JsonWorld(Protocol):
    """What these callers see of a world."""

    story: RunStory
    rows: RowLedger

    def stop(self) -> None:
        """An endpoint has said that its log takes no writes."""
        ...


class TextRow(NamedTuple):
    """One row as text, and as it is stored."""

    key_text: bytes
    text: bytes
    key: bytes
    value: bytes


class DrawnRows:
    """Rows and misfits, each with a number of its own."""

    def __init__(self, world: JsonWorld, chance: random.Random) -> None:
        self._rows, self._chance = world.rows, chance

    def row(self, carrier: str = "") -> TextRow:
        """One that fits."""
        fields, schema = self.fields(carrier), self._rows.row_schema
        name, number = fields["carrier"], fields["flight"]
        return TextRow(_key_text(name, number), _text(fields), flight_key(name, number), stored(fields, schema))

    def fields(self, carrier: str = "") -> dict[str, Any]:
        """Those of a row that fits."""
        chance = self._chance
        return {
            "carrier": carrier or chance.choice(_CARRIERS),
            "flight": chance.randrange(_FLIGHTS),
            "tailnum": f"json {self._rows.next_number()}",
            "dep_delay": chance.choice((0.0, 2.5)),
        }

    def misfit(self, carrier: str = "") -> tuple[bytes, bytes, str]:
        """The texts of a key and of what does not fit, and why it does not."""
        fields, wrong = self.fields(carrier), self._chance.choice(_WRONG)
        key = _key_text(fields["carrier"], fields["flight"])
        match wrong:
            case "no JSON":
                return key, _text(fields)[:-1], wrong
            case "no key":
                return f"{fields['carrier']}/{fields['flight']}".encode(), _text(fields), wrong
            case "a field lacks":
                del fields["dep_delay"]
            case "a field more":
                fields["gate"] = "B7"
            case "another type":
                fields["dep_delay"] = "late"
            case "another key":
                fields["flight"] += 100
        return key, _text(fields), wrong


class WireRowCaller:
    """Writes to the table that a connection of the Redis protocol has selected, and reads it there."""

    def __init__(self, world: JsonWorld, client: WireClient, table: str, chance: random.Random) -> None:
        self._world, self._client, self._table, self._chance = world, client, table, chance
        self._drawn = DrawnRows(world, chance)

    async def write_some(self) -> None:
        """A pipeline, and reads of what it has written. Raises `Broken`, and `WireCut` where the connection ends."""
        kinds = [self._kind() for _ in range(self._chance.choice((1, 2, 4)))]
        await self._write(kinds, sure=False)

    async def write_each(self) -> None:
        """One of each kind, when nothing is at fault: every answer is known. Raises as `write_some`."""
        await self._write([*dict.fromkeys(_FITTING), *_MISFITS], sure=True)

    def _kind(self) -> str:
        return self._chance.choice(_FITTING if self._chance.random() < _FITS_CHANCE else _MISFITS)

    async def _write(self, kinds: Sequence[str], *, sure: bool) -> None:
        calls = [self._call(kind) for kind in kinds]
        replies = iter(await self._client.call([command for commands, _ in calls for command in commands]))
        written: dict[bytes, TextRow] = {}
        for kind, (commands, rows) in zip(kinds, calls, strict=True):
            reply = [next(replies) for _ in commands][-1]
            if self._is_written(kind, reply, sure=sure):
                written |= {row.key: row for row in rows}
        for row in written.values():
            await self._read(row, sure=sure)

    def _call(self, kind: str) -> tuple[list[Command], list[TextRow]]:
        """Commands, of which the last reply counts, and the rows that they write."""
        if kind == "APPEND":
            return [(b"APPEND", self._drawn.row().key_text, b"x")], []
        carrier, fits = self._chance.choice(_CARRIERS), kind in _FITTING
        rows = [self._drawn.row(carrier) for _ in range(1 if kind in ("SET", "bad SET") else 3)]
        pairs = [(row.key_text, row.text) for row in rows]
        if not fits:
            pairs[self._chance.randrange(len(pairs))] = self._drawn.misfit(carrier)[:2]
        for row in rows if fits else ():
            self._world.rows.tries(self._table, row.key, row.value, fits=True)
        if kind.endswith("MSET"):
            return [(b"MSET", *[word for pair in pairs for word in pair])], rows
        sets: list[Command] = [(b"SET", *pair) for pair in pairs]
        return ([(b"MULTI",), *sets, (b"EXEC",)] if kind.endswith("transaction") else sets), rows

    def _is_written(self, kind: str, reply: Any, *, sure: bool) -> bool:
        if kind not in _FITTING:
            if not isinstance(reply, RawError):
                raise Broken("fitting", f"a misfit ({kind}) as JSON for {self._table} was answered with {reply!r}")
            self._world.story.met["rows: misfit as JSON refused"] += 1
            return False
        if isinstance(reply, RawError):
            self._may_fail(f"a {kind} of rows that fit", reply, sure=sure)
            return False
        self._world.story.met["rows: written as JSON"] += 1
        return True

    def _may_fail(self, what: str, reply: RawError, *, sure: bool) -> None:
        kind = reply.text.partition(" ")[0]
        if sure or kind not in _MAY_FAIL:
            raise Broken("fitting", f"{what} for {self._table} was refused by an endpoint: {reply.text}")
        self._world.story.met[f"rows: JSON failed, {kind}"] += 1
        if kind in ("WRITEUNKNOWN", "MISCONF"):
            self._world.stop()

    async def _read(self, row: TextRow, *, sure: bool) -> None:
        """What this connection has written is there, or something later."""
        (reply,) = await self._client.call([(b"DURAMEN.GETV", row.key_text)])
        if isinstance(reply, RawError):
            self._may_fail("a read", reply, sure=sure)
            return
        if reply is None:
            raise Broken("fitting", f"{row.key_text!r} of {self._table} was acknowledged, and is not there")
        text, version = reply
        value = stored(json.loads(text), self._world.rows.row_schema)
        if not self._world.rows.is_fitting(self._table, row.key, value):
            raise Broken("fitting", f"{row.key_text!r} of {self._table} is {text!r}, which nobody wrote who may have")
        if value == row.value:
            self._world.rows.wrote(self._table, row.key, RowWrite(Offset(version), value))
        self._world.story.met["rows: read as JSON"] += 1


class CommandRowCaller:
    """Writes and reads as `duramen put` and `duramen get` do: text is stored by the table's definition."""

    def __init__(self, world: JsonWorld, table: Table, words: RecordText, chance: random.Random) -> None:
        self._world, self._table, self._words, self._chance = world, table, words, chance
        self._drawn = DrawnRows(world, chance)

    async def write(self, *, sure: bool = False) -> None:
        """A row, or something that does not fit. `sure`: nothing is at fault. Raises `Broken`."""
        if self._chance.random() >= _FITS_CHANCE:
            self._refused()
            return
        row = self._drawn.row()
        found = self._words.pair([row.text.decode()], None)
        if found != (row.key, row.value):
            raise Broken("fitting", f"{row.text!r} is stored as {found}, other writers store {row.key, row.value}")
        self._world.rows.tries(self._table.name, *found, fits=True)
        try:
            done = await self._table.put(*found)
            self._world.rows.wrote(self._table.name, row.key, RowWrite(done.offset, row.value))
            self._world.story.met["rows: put by a command"] += 1
            await self._read(row, RowWrite(done.offset, row.value))
        except RowRejected as error:
            raise Broken("fitting", f"{row.text!r} for {self._table.name} was refused: {error.message}") from error
        except DuramenError as error:
            if sure:
                raise Broken("fitting", f"{row.text!r} for {self._table.name} failed: {error!r}") from error
            self._world.story.met[f"rows: command failed, {error.code}"] += 1

    def _refused(self) -> None:
        _, text, wrong = self._drawn.misfit()
        if wrong in ("another key", "no key"):
            return  # a row is given alone: it has its key
        try:
            found = self._words.pair([text.decode()], None)
        except (InvalidRow, InvalidKey, InvalidRequest):
            self._world.story.met["rows: misfit refused by a command"] += 1
            return
        raise Broken("fitting", f"a command takes {text!r} ({wrong}) and stores {found}")

    async def _read(self, row: TextRow, least: RowWrite) -> None:
        """By the fields of its key, as a person writes them."""
        fields = json.loads(row.text)
        (key,) = self._words.keys([fields["carrier"], str(fields["flight"])])
        entry = await self._table.get_entry(key)
        if what := self._world.rows.difference(self._table.name, key, entry, least):
            raise Broken("fitting", f"of {self._table.name}, read by a command: {what}")
        assert entry is not None, "it is no difference"
        shown = stored(self._words.json_value(entry.value), self._world.rows.row_schema)
        if shown != entry.value:
            raise Broken("fitting", f"{entry.value!r} is shown as {self._words.value(entry.value, lines=False)}")


def stored(fields: dict[str, Any], schema: int) -> bytes:
    """A row's fields as writers of Avro store them."""
    return flight(fields["carrier"], fields["flight"], fields["tailnum"], fields["dep_delay"], schema=schema)


def _key_text(carrier: str, number: int) -> bytes:
    return _text([carrier, number])


def _text(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()
