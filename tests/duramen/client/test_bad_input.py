"""Bad input, end to end over gRPC: each gets a typed error that says what is wrong, and nothing is written."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from kit.client.streams import drained
from kit.client.table_size import records

import duramen
from duramen import aio
from duramen.client.database import Database
from duramen.client.table import Table
from duramen.server.roles.all_in_one import SingleServer as Server
from log_tier.model.errors import DuramenError
from log_tier.model.partitioner import partition_of
from log_tier.model.record import TTL_MS_MAX, VALUE_BYTES_MAX
from router.data.gather.rounds import PENDING_BYTES_MAX

pytestmark = pytest.mark.embedded_log_only  # it is refused before the log is asked

LONG_KEY = b"x" * 512


@pytest.fixture
def machine(emptied_server: Server) -> Server:
    """What is refused leaves nothing behind: one server for all of these tests."""
    return emptied_server


Call = Callable[[Any], Awaitable[Any]]


KEYS: list[tuple[object, str]] = [
    (LONG_KEY, r"has 512 bytes; keys have 1 to 511: hash what is longer"),
    (b"", r"the key is empty; keys have 1 to 511 bytes"),
    ("text", r"a key is bytes, this is str: encode it"),
    (5, r"a key is bytes, this is int$"),
    (None, r"a key is bytes, this is NoneType"),
    (bytearray(b"k"), r"a key is bytes, this is bytearray"),
]


@pytest.mark.parametrize(
    "call",
    [
        lambda table, key: table.get(key),
        lambda table, key: table.get_entry(key),
        lambda table, key: table.get_many([b"k", key]),
        lambda table, key: table.put(key, b""),
        lambda table, key: table.put(key, b"", ttl=1, if_absent=True),
        lambda table, key: table.put_many([(b"k", b""), (key, b"")]),
        lambda table, key: table.delete(key),
        lambda table, key: table.update(key, add=1),
    ],
)
async def test_keys(flights: Table, call: Any) -> None:
    for key, message in KEYS:
        with pytest.raises(duramen.InvalidKey, match=message):
            await call(flights, key)
        with pytest.raises(duramen.InvalidKey, match=message):
            flights.batch().put(key, b"")  # type: ignore[arg-type]
        assert await records(flights) == 0, key


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        ([(b"a", b"1"), (b"b", b"2", b"3")], r"put_many takes pairs \(key, value\); item 1 is a tuple of 3"),
        ([b"ab"], r"put_many takes pairs \(key, value\); item 0 is bytes"),
        ([(b"a", b"1"), None], r"put_many takes pairs \(key, value\); item 1 is NoneType"),
        ([(b"a",)], r"item 0 is a tuple of 1"),
        (3, r"put_many takes pairs \(key, value\), or a mapping; this is int"),
        (None, r"put_many takes pairs \(key, value\), or a mapping; this is NoneType"),
    ],
)
async def test_pairs(flights: Table, pairs: Any, message: str) -> None:
    with pytest.raises(duramen.InvalidRequest, match=message):
        await flights.put_many(pairs)
    assert await records(flights) == 0


@pytest.mark.parametrize("keys", [None, 3])
async def test_keys_that_are_none(flights: Table, keys: Any) -> None:
    with pytest.raises(duramen.InvalidRequest, match=r"get_many takes keys; this is (int|NoneType)"):
        await flights.get_many(keys)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (bytes(VALUE_BYTES_MAX + 1), r"has 4194305 bytes; values have at most 4194304: cut it in pieces"),
        ("text", r"a value is bytes, this is str: encode it"),
        (5, r"a value is bytes, this is int: encode it"),
        (None, r"a value is bytes, this is NoneType"),
    ],
)
async def test_values(flights: Table, value: Any, message: str) -> None:
    calls: tuple[Awaitable[object], ...] = (
        flights.put(b"k", value),
        flights.put_many([(b"k", value)]),
        *([] if value is None else [flights.update(b"k", append=value)]),
    )
    for call in calls:
        with pytest.raises(duramen.InvalidValue, match=message):
            await call
    assert await records(flights) == 0


async def test_the_largest_that_is_allowed(flights: Table) -> None:
    key, value = b"\xff" * 511, bytes(VALUE_BYTES_MAX)
    await flights.put(key, value)
    assert await flights.get(key) == value
    assert [len(pair[0]) async for pair in flights.scan()] == [511]
    with pytest.raises(duramen.ResultTooLarge):
        await flights.update(key, append=b"x")


async def test_large_values_together_pass_what_one_message_carries(flights: Table) -> None:
    """64 MiB of values in one `get_many`, in one partition and over all: they come in several replies."""
    pairs = {b"{0}%d" % number: bytes([number]) * VALUE_BYTES_MAX for number in range(10)}
    pairs |= {b"k%d" % number: bytes([number + 100]) * VALUE_BYTES_MAX for number in range(6)}
    for key, value in pairs.items():
        await flights.put(key, value)
    assert await flights.get_many(pairs) == list(pairs.values())
    assert await asyncio.gather(*(flights.get(key) for key in pairs)) == list(pairs.values())
    assert [key async for key, _ in flights.scan()] == sorted(pairs)


async def test_unknown_tables(remote: Database, flights: Table) -> None:
    ships = remote.table("ships")
    calls: list[Awaitable[Any]] = [
        ships.get(b"k"),
        ships.put(b"k", b"v"),
        ships.get_many([b"k"]),
        drained(ships.scan()),
        drained(ships.watch()),
        ships.describe(),
        remote.drop_table("ships"),
    ]
    for call in calls:
        with pytest.raises(duramen.TableNotFound, match="no table 'ships'; the tables are: flights") as caught:
            await call
        assert caught.value.fields == {"table": "ships"}


@pytest.mark.parametrize("name", ["", "a b", "x" * 121, "\ud800", "a/b", 5, None, b"flights"])
async def test_names(remote: Database, name: Any) -> None:
    with pytest.raises(duramen.InvalidName, match=r"cannot name a table|a table name is text"):
        await remote.create_table(name)
    with pytest.raises(duramen.InvalidName):
        remote.table(name)
    with pytest.raises(duramen.InvalidName):
        await remote.drop_table(name)


@pytest.mark.parametrize("partitions", [0, -1, 1025, 1 << 40, -(1 << 40)])
async def test_partition_counts(remote: Database, partitions: int) -> None:
    with pytest.raises(duramen.LimitExceeded, match=f"1 to 1024 partitions, not {partitions}"):
        await remote.create_table("more", partitions=partitions)


@pytest.mark.parametrize("partitions", ["8", 8.0, True])
async def test_partition_counts_that_are_no_numbers(remote: Database, partitions: Any) -> None:
    with pytest.raises(duramen.InvalidRequest, match="a whole number of partitions"):
        await remote.create_table("more", partitions=partitions)


async def test_versions(flights: Table) -> None:
    done = await flights.put(b"k", b"v")
    with pytest.raises(duramen.ConditionFailed, match="the key has version 0") as caught:
        await flights.put(b"k", b"w", if_version=7)
    assert caught.value.fields["actual"] == done.offset
    for version in ("1", 1.0, True, -2, 1 << 63):
        with pytest.raises(duramen.InvalidRequest, match="if_version is an entry's version"):
            await flights.put(b"k", b"w", if_version=version)  # type: ignore[arg-type]
    with pytest.raises(duramen.InvalidRequest, match="give one of if_absent, if_present and if_version"):
        await flights.put(b"k", b"w", if_absent=True, if_version=1)
    assert await flights.get(b"k") == b"v"


@pytest.mark.parametrize("ttl", [0, -1, math.nan, math.inf, TTL_MS_MAX, "5", True, 1e300])
async def test_ttls(flights: Table, ttl: Any) -> None:
    for call in (flights.put(b"k", b"v", ttl=ttl), flights.put_many([(b"k", b"v")], ttl=ttl)):
        with pytest.raises(duramen.InvalidRequest, match="ttl is a number of seconds above 0"):
            await call
    with pytest.raises(duramen.InvalidRequest, match="ttl"):
        flights.batch().put(b"k", b"v", ttl=ttl)


async def test_updates(flights: Table) -> None:
    await flights.put(b"text", b"not a number")
    with pytest.raises(duramen.NotANumber, match="no number"):
        await flights.update(b"text", add=1)
    await flights.put(b"big", b"9223372036854775807")
    with pytest.raises(duramen.NumberOverflow, match="64 bits"):
        await flights.update(b"big", multiply=2)
    for operand in ({"add": True}, {"add": "1"}, {"max": 1 << 63}, {"min": math.nan}, {"multiply": math.inf}):
        with pytest.raises(duramen.InvalidValue, match="takes"):
            await flights.update(b"n", **operand)
    for operands in (dict[str, Any](), {"add": 1, "max": 2}):
        with pytest.raises(duramen.InvalidRequest, match="an update takes one of add, multiply, min, max, append"):
            await flights.update(b"n", **operands)
    assert await flights.get_many([b"text", b"big", b"n"]) == [b"not a number", b"9223372036854775807", None]


async def test_an_atomic_batch_of_two_partitions(flights: Table) -> None:
    keys = [b"a", next(k for k in (b"b", b"c", b"d", b"e") if partition_of(k, 4) != partition_of(b"a", 4))]
    batch = flights.batch()
    for key in keys:
        batch.put(key, b"v")
    with pytest.raises(duramen.PartitionMismatch, match=r"lies in partition \d of flights.*a common \{tag\}"):
        await batch.commit()
    assert await flights.get_many(keys) == [None, None]


async def test_an_atomic_batch_that_is_too_large(flights: Table) -> None:
    batch = flights.batch()
    for number in range(3):
        batch.put(b"{u}%d" % number, bytes(VALUE_BYTES_MAX))
    for _ in range(2):  # refused before it left, so it may be tried again, and says the same
        with pytest.raises(duramen.LimitExceeded, match="do not fit in one batch"):
            await batch.commit()
    small = flights.batch()
    for _ in range(10_000):
        small.put(b"{u}", b"")
    with pytest.raises(duramen.LimitExceeded, match="at most 10000 records"):
        small.put(b"{u}", b"")


@pytest.mark.parametrize(
    ("how", "kind"),
    [
        ({"limit": -1}, duramen.InvalidRequest),
        ({"limit": "5"}, duramen.InvalidRequest),
        ({"limit": True}, duramen.InvalidRequest),
        ({"prefix": b"a", "start": b"b"}, duramen.InvalidRequest),
        ({"prefix": "a"}, duramen.InvalidKey),
        ({"start": "a"}, duramen.InvalidKey),
        ({"end": 5}, duramen.InvalidKey),
        ({"level": "strongest"}, duramen.InvalidRequest),
    ],
)
async def test_scans(flights: Table, how: dict[str, Any], kind: type[DuramenError]) -> None:
    with pytest.raises(kind):
        await drained(flights.scan(**how))


async def test_levels_and_starts(flights: Table) -> None:
    with pytest.raises(duramen.InvalidRequest, match=r"session, eventual, strong or duramen\.bounded.*, not 'best'"):
        await flights.get(b"k", level="best")  # type: ignore[arg-type]
    with pytest.raises(duramen.InvalidRequest, match='start is "now" or "earliest"'):
        await drained(flights.watch(start="later"))  # type: ignore[arg-type]


@pytest.mark.parametrize("timeout", [0, -1, math.nan, math.inf, "5", True, 1e9])
async def test_timeouts(remote: Database, flights: Table, machine: Server, timeout: Any) -> None:
    calls: list[Callable[[], Awaitable[Any]]] = [
        lambda: flights.get(b"k", timeout=timeout),
        lambda: flights.put(b"k", b"v", timeout=timeout),
        lambda: flights.get_many([b"k"], timeout=timeout),
        lambda: flights.put_many([(b"k", b"v")], timeout=timeout),
        lambda: drained(flights.scan(timeout=timeout)),
        lambda: drained(flights.watch(timeout=timeout)),
        lambda: flights.batch().put(b"k", b"v").commit(timeout=timeout),
        lambda: remote.tables(timeout=timeout),
        lambda: remote.create_table("more", timeout=timeout),
        lambda: aio.connect(f"127.0.0.1:{machine.port}", timeout=timeout),
    ]
    for call in calls:
        with pytest.raises(duramen.InvalidRequest, match="timeout is a number of seconds above 0"):
            await call()
    assert await records(flights) == 0


async def test_more_than_this_client_may_hold(flights: Table) -> None:
    rounds = flights.lookup.context.writes.gatherer.rounds
    rounds.pending_bytes = PENDING_BYTES_MAX
    with pytest.raises(duramen.Overloaded, match="write more slowly"):
        await flights.put(b"k", b"v")
    rounds.pending_bytes = 0
    await flights.put(b"k", b"v")
