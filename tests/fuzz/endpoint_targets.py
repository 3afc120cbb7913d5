"""Endpoints of a database in this process, below the wire: a connection of the Redis protocol, the log service."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack
from functools import cache, partial
from pathlib import Path
from typing import Any, Final

from google.protobuf.message import DecodeError, Message
from kit.cluster.one_machine import one_machine, puts

from duramen.testing.machine.resp_words import packed, read_reply
from fuzz.fields import changed_fields, grown_fields
from fuzz.target import Target
from log_tier.access.gate import Gate
from log_tier.catalog.map_follower import MapFollower
from log_tier.model.errors import DuramenError
from log_tier.model.identifiers import table_id_to_bytes
from log_tier.model.log import Log, Topic
from log_tier.proto import log_pb2
from log_tier.remote.service import LogService
from router.endpoints.resp.connection.client import Client
from router.endpoints.resp.server.resp_server import RespServer
from router.endpoints.resp.server.sockets import RespSettings, RespSockets

__all__ = ["close_endpoints", "endpoint_targets"]

_MEMORY: Final = Path("/dev/shm")
_SPINS_MAX: Final = 400
"""Turns of the loop for an input. What waits longer, for a replica or a token, is left as a client leaves it."""


_PIPELINE_BYTES_MAX: Final = 16 * 1024
"""Some hundreds of commands, each of which is carried out."""


class _Refused(Exception):
    """The service has ended the call with a typed problem."""


class _Call:
    """The context of a call: what gRPC gives a service."""

    async def abort(self, code: object, details: str, trailing: object) -> None:
        assert details, f"{code} without a word"
        raise _Refused(details)

    async def write(self, message: Message) -> None:
        message.SerializeToString()

    async def send_initial_metadata(self, metadata: object) -> None:
        """Nobody waits for it."""


class _Sink(asyncio.Transport):
    """A client's socket that takes everything."""

    def __init__(self) -> None:
        super().__init__()
        self.written = bytearray()
        self.is_open = True

    def write(self, data: Any) -> None:
        self.written += data

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return default

    def get_write_buffer_size(self) -> int:
        return 0

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Everything is taken."""

    def pause_reading(self) -> None:
        """All of an input has come."""

    def resume_reading(self) -> None:
        """The same."""

    def write_eof(self) -> None:
        self.is_open = False

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        """It ends: nothing comes any more."""

    def close(self) -> None:
        self.is_open = False

    abort = close


class _Database:
    """A log with one topic, and a database over another log with an endpoint of the Redis protocol."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._folder = Path(tempfile.mkdtemp(prefix="duramen-fuzz-", dir=_MEMORY if _MEMORY.is_dir() else None))
        self._opened = AsyncExitStack()
        self.resp: RespServer
        self.log: Log
        self.topic: Topic
        self.loop.run_until_complete(self._open())

    async def _open(self) -> None:
        plane = await self._opened.enter_async_context(one_machine(self._folder))
        settings = RespSettings()
        maps = MapFollower(plane.catalog)
        self.resp = await RespServer.open(
            plane, maps, settings, RespSockets.take(settings), node=plane.node, gate=Gate()
        )
        self._opened.push_async_callback(self.resp.close)
        self.log = plane.log
        self.topic = await self.log.create_topic("fuzzed", partitions=2)

    def close(self) -> None:
        self.loop.run_until_complete(self._opened.aclose())
        self.loop.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def connection(self, data: bytes) -> None:
        """A connection that sends these bytes and leaves; each reply is one of the protocol."""
        self.loop.run_until_complete(self._connection(data))

    async def _connection(self, data: bytes) -> None:
        sink, client = _Sink(), Client(self.resp)
        client.connection_made(sink)
        client.data_received(data)
        for _ in range(_SPINS_MAX):
            if not sink.is_open or not (client.task or client.queue or client.reply_queue.waits):
                break
            await asyncio.sleep(0)
        if sink.is_open:
            client.connection_lost(None)
        written, at = bytes(sink.written), 0
        while at < len(written):
            _, at = read_reply(written, at)

    def call(self, method: str, request: Message) -> None:
        """A call of the log service, left after some turns of the loop."""
        self.loop.run_until_complete(self._call(method, request))

    async def _call(self, method: str, request: Message) -> None:
        task = asyncio.ensure_future(getattr(LogService(self.log), method)(request, _Call()))
        for _ in range(_SPINS_MAX):
            if task.done():
                break
            await asyncio.sleep(0)
        else:
            task.cancel()
        try:
            await task
        except (_Refused, asyncio.CancelledError):
            return


_opened: Final = cache(_Database)


def close_endpoints() -> None:
    """End the database of this process, if there is one. Idempotent."""
    if _opened.cache_info().currsize:
        _opened().close()
        _opened.cache_clear()


def _commands() -> list[bytes]:
    """Pipelines of commands of each kind."""
    return [
        packed("SET", "a", "1") + packed("GET", "a") + packed("INCR", "a") + packed("APPEND", "a", "x"),
        packed("MSET", "a", "1", "{a}b", "2") + packed("MGET", "a", "{a}b", "c") + packed("DEL", "a", "c"),
        packed("SET", "a", "1", "EX", "10", "NX")
        + packed("TTL", "a")
        + packed("EXPIRE", "a", "5")
        + packed("PERSIST", "a"),
        packed("MULTI") + packed("SET", "a", "1") + packed("INCRBY", "a", "5") + packed("EXEC") + packed("DISCARD"),
        packed("WATCH", "a") + packed("GETSET", "a", "2") + packed("UNWATCH") + packed("STRLEN", "a"),
        packed("SCAN", "0", "MATCH", "a*", "COUNT", "10") + packed("KEYS", "*[a-c]?") + packed("DBSIZE"),
        packed("SCAN", "9223372036854775807") + packed("RANDOMKEY") + packed("EXISTS", "a", "a") + packed("TYPE", "a"),
        packed("HELLO", "3", "SETNAME", "me") + packed("CLIENT", "LIST") + packed("CLIENT", "ID") + packed("RESET"),
        packed("AUTH", "alice", "secret") + packed("SELECT", "1") + packed("COMMAND", "INFO", "get") + packed("PING"),
        packed("SUBSCRIBE", "__keyspace@0__:a", "b") + packed("PSUBSCRIBE", "*") + packed("UNSUBSCRIBE"),
        packed("CLUSTER", "SLOTS") + packed("CLUSTER", "KEYSLOT", "a") + packed("INFO", "server") + packed("TIME"),
        packed("SETRANGE", "a", "5", "x") + packed("GETRANGE", "a", "0", "-1") + packed("INCRBYFLOAT", "a", "0.5"),
        b'set a "b c"\r\nget a\r\nPING\r\n*0\r\n',
    ]


def _connection(data: bytes) -> None:
    _opened().connection(data)


def _call(method: str, kind: type[Message], data: bytes) -> None:
    """The call is answered, or ends with a typed problem."""
    try:
        request = kind.FromString(data)
    except DecodeError:
        return
    _opened().call(method, request)


def _place() -> dict[str, Any]:
    return {"topic_id": table_id_to_bytes(_opened().topic.id), "partition": 1}


def _requests(method: str) -> Sequence[bytes]:
    place, batch = _place(), puts((b"key", b"value"), (b"other", b""))
    made: dict[str, list[Message]] = {
        "Append": [log_pb2.AppendRequest(**place, batch=batch)],
        "AppendMany": [log_pb2.AppendManyRequest(parts=[log_pb2.AppendRequest(**place, batch=batch)] * 2)],
        "Read": [
            log_pb2.LogReadRequest(**place, start=0, chunk_bytes=4096),
            log_pb2.LogReadRequest(**place, follow=True),
        ],
        "Bounds": [log_pb2.BoundsRequest(**place)],
        "AllBounds": [log_pb2.AllBoundsRequest(topic_id=place["topic_id"])],
        "Trim": [log_pb2.TrimRequest(**place, before=1)],
        "Retain": [log_pb2.RetainRequest(**place, ms=5, bytes=100, below=3)],
    }
    return [message.SerializeToString() for message in made[method]]


_METHODS: Final[dict[str, type[Message]]] = {
    "Append": log_pb2.AppendRequest,
    "AppendMany": log_pb2.AppendManyRequest,
    "Read": log_pb2.LogReadRequest,
    "Bounds": log_pb2.BoundsRequest,
    "AllBounds": log_pb2.AllBoundsRequest,
    "Trim": log_pb2.TrimRequest,
    "Retain": log_pb2.RetainRequest,
}
"""What makes no topic, takes none away and rewrites none: a campaign would have thousands."""


def endpoint_targets() -> Iterator[Target]:
    """A connection of the Redis protocol, and each method of the log service: its bytes changed, and its fields."""
    yield Target(
        "connection of the Redis protocol",
        _commands,
        _connection,
        quick_inputs=400,
        grown_bytes_max=_PIPELINE_BYTES_MAX,
    )
    for method, kind in _METHODS.items():
        samples, read = partial(_requests, method), partial(_call, method, kind)
        name = f"call of Log/{method}"
        yield Target(name, samples, read, (DuramenError,), quick_inputs=400)
        change, grow = partial(changed_fields, kind), partial(grown_fields, kind)
        yield Target(f"{name}, by fields", samples, read, (DuramenError,), change, quick_inputs=400, grow=grow)
