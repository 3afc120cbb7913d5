"""Pipelines of commands that read and write: 5,000 of a kind on one connection, sent at once, compared with Redis.

Each command is a program's step: it sees what those before it have left, and its reply leaves when that is on stable
storage. `redis-benchmark` sends no pipeline of 5,000 and does not mix commands. So a plain socket sends the bytes. They
are made before the clock starts; hiredis reads the replies. That costs the same for both servers.
"""

from __future__ import annotations

import asyncio
import itertools
import statistics
import time
from collections.abc import Callable
from typing import Final

from bench.data import VALUE_BYTES
from bench.drivers.driver import Driver, PortDriver
from bench.workload import Bar, RunSettings, Side, Workload
from bench.workloads.contenders import server_side
from bench.workloads.resp_endpoint import Measure, as_subject

__all__ = ["RESP_PIPELINES", "PipelineConnection", "Words"]

COMMANDS: Final = 5000
_QUICK_DIVISOR: Final = 10
_WARM_UPS: Final = 2

# What one read of the socket takes at most: a pipeline's replies have some 30 to 100 KB.
_READ_BYTES: Final = 1 << 18

_VALUE: Final = b"v" * VALUE_BYTES

Words = tuple[bytes, ...]
Make = Callable[[int, bytes], tuple[list[Words], list[Words]]]
"""So many commands on keys under a prefix, and those that must be there before."""


def _each(*words: bytes, before: bool = False) -> Make:
    """A command on as many keys, each by itself. `before`: its key is there."""

    def make(count: int, prefix: bytes) -> tuple[list[Words], list[Words]]:
        keys = [b"%b:%d" % (prefix, number) for number in range(count)]
        loaded: list[Words] = [(b"SET", key, _VALUE) for key in keys] if before else []
        return [(words[0], key, *words[1:]) for key in keys], loaded

    return make


def _set_get(count: int, prefix: bytes) -> tuple[list[Words], list[Words]]:
    """SET and GET of the same key in turn."""
    keys = [b"%b:%d" % (prefix, number) for number in range(count // 2)]
    return [words for key in keys for words in ((b"SET", key, _VALUE), (b"GET", key))], []


def _packed(commands: list[Words]) -> bytes:
    return b"".join(
        b"*%d\r\n%b" % (len(words), b"".join([b"$%d\r\n%b\r\n" % (len(word), word) for word in words]))
        for words in commands
    )


class PipelineConnection:
    """One socket; replies are counted, and errors end the run."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        import hiredis

        self._reader, self._writer = reader, writer
        self._parser = hiredis.Reader()

    @classmethod
    async def open(cls, port: int) -> PipelineConnection:
        """Connect to a server on this machine."""
        return cls(*await asyncio.open_connection("127.0.0.1", port))

    async def send(self, commands: list[Words]) -> float:
        """Send all of it at once; the seconds until the last reply has come."""
        data, missing = _packed(commands), len(commands)
        began = time.perf_counter()
        self._writer.write(data)
        while missing:
            self._parser.feed(await self._reader.read(_READ_BYTES))
            while (reply := self._parser.gets()) is not False:
                if isinstance(reply, Exception):
                    raise AssertionError(f"a command of the pipeline failed: {reply}")
                missing -= 1
        return time.perf_counter() - began

    async def close(self) -> None:
        """Close the socket."""
        self._writer.close()
        await self._writer.wait_closed()


def _measure(make: Make) -> Measure:
    async def measure(driver: Driver, settings: RunSettings) -> dict[str, float]:
        assert isinstance(driver, PortDriver), f"no socket reaches {driver.version}"
        count = COMMANDS // _QUICK_DIVISOR if settings.quick else COMMANDS
        connection = await PipelineConnection.open(driver.port)
        try:
            found: list[float] = []
            ends_s = time.perf_counter() + settings.seconds
            for number in itertools.count():
                commands, loaded = make(count, b"pipeline:%d" % number)
                if loaded:
                    await connection.send(loaded)
                seconds = await connection.send(commands)
                if number >= _WARM_UPS:
                    found.append(seconds)
                if found and time.perf_counter() > ends_s:
                    break
        finally:
            await connection.close()
        return {"per_second": count / statistics.median(found)}

    return measure


def _workload(name: str, title: str, make: Make) -> Workload:
    sides: list[Side] = [as_subject(server_side(side, _measure(make))) for side in ("resp", "redis")]
    return Workload(
        f"resp_pipeline_{name}",
        f"{title}, {COMMANDS:,} in one pipeline, each acknowledged after its sync",
        tuple(sides),
        (Bar("per_second", "at least", 0.25, "redis"),),
    )


RESP_PIPELINES: Final = (
    _workload("incr", "INCR", _each(b"INCR")),
    _workload("set_nx", "SET NX", _each(b"SET", _VALUE, b"NX")),
    _workload("del", "DEL", _each(b"DEL", before=True)),
    _workload("expire", "EXPIRE", _each(b"EXPIRE", b"1000", before=True)),
    _workload("append", "APPEND", _each(b"APPEND", _VALUE)),
    _workload("set_get", "SET and GET in turn", _set_get),
)
