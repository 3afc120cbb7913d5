"""Reads that wait until the replica has applied what was written last, by gRPC and by the Redis protocol."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from kit.client.held_server import HELD_KEY as KEY
from kit.client.held_server import HELD_TABLE as TABLE
from kit.client.held_server import HeldServer
from log_tier.model.identifiers import table_id_to_bytes
from router.proto import console_pb2, keyvalue_pb2, kv_pb2

__all__ = ["WAITING_CALLS", "WAITING_COMMANDS"]

_Call = Callable[[HeldServer, Any], Any]


def _read_part(held: HeldServer) -> keyvalue_pb2.ReadRequest:
    part = keyvalue_pb2.ReadPart(table_id=table_id_to_bytes(held.table), keys=[KEY], strong=True)
    return keyvalue_pb2.ReadRequest(parts=[part])


def _scan_page(held: HeldServer) -> keyvalue_pb2.ScanRequest:
    return keyvalue_pb2.ScanRequest(table_id=table_id_to_bytes(held.table), strong=True, limit=9)


_STRONG: Final = kv_pb2.KV_LEVEL_STRONG
WAITING_CALLS: Final[dict[str, _Call]] = {
    "KV/Get of a token": lambda held, who: held.kv.Get(
        kv_pb2.KVGetRequest(table=TABLE, key=KEY, after=held.token), metadata=who
    ),
    "KV/Get, strong": lambda held, who: held.kv.Get(
        kv_pb2.KVGetRequest(table=TABLE, key=KEY, level=_STRONG), metadata=who
    ),
    "KV/GetMany": lambda held, who: held.kv.GetMany(
        kv_pb2.KVGetManyRequest(table=TABLE, keys=[KEY], level=_STRONG), metadata=who
    ),
    "KV/Scan": lambda held, who: held.kv.Scan(kv_pb2.KVScanRequest(table=TABLE, after=held.token), metadata=who).read(),
    "KeyValue/Read": lambda held, who: held.key_value.Read(_read_part(held), metadata=who),
    "KeyValue/Scan": lambda held, who: held.key_value.Scan(_scan_page(held), metadata=who),
    "Console/Get": lambda held, who: held.console.Get(
        console_pb2.ConsoleGetRequest(table=TABLE, key=KEY), metadata=who
    ),
    "Console/Scan": lambda held, who: held.console.Scan(console_pb2.ConsoleScanRequest(table=TABLE), metadata=who),
}
"""Reads that wait until the replica has applied what was written last."""


_Words = Callable[[HeldServer], tuple[tuple[bytes | str | int, ...], ...]]
WAITING_COMMANDS: Final[dict[str, _Words]] = {
    "GET": lambda _: (("GET", KEY),),
    "MGET": lambda _: (("MGET", KEY, KEY),),
    "GETs": lambda _: tuple(("GET", KEY) for _ in range(5)),
    "several reads": lambda _: (("STRLEN", KEY), ("EXISTS", KEY), ("TTL", KEY)),
    "SCAN": lambda _: (("SCAN", 0),),
    "KEYS": lambda _: (("KEYS", "*"),),
    "RANDOMKEY": lambda _: (("RANDOMKEY",),),
    "DURAMEN.AWAIT": lambda held: (("DURAMEN.AWAIT", held.table, 0, 1),),
}
"""Commands that wait until the replica has applied what was written last."""
