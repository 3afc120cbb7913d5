"""Reads in a row whose keys are at other nodes are one call, and each of them has its own reply.

A router, or a node that holds a share of the partitions, asked for the keys of such a pipeline one after the other: a
router answered 800 GETs in a second, and 40,000 INCRs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Final, cast

import pytest
from kit.cluster.one_machine import one_machine
from kit.deadlines import wait_until
from kit.index.stepped import stepped
from kit.resp.raw_client import Raw, RawError, Status, packed
from kit.resp.server_thread import ServerThread

from log_tier.catalog.map_follower import MapFollower
from log_tier.model.errors import DuramenError, LimitExceeded, NotHosted, Unavailable
from log_tier.model.identifiers import Partition, PartitionId
from router.data.local_data import LocalData
from router.data.requests import READ_REPLY_BYTES_MAX, ReadPart, ReadResult
from router.endpoints.resp.server.resp_server import RespServer
from router.endpoints.resp.server.sockets import RespSettings, RespSockets
from serving_tier.node.node import Node
from serving_tier.replica.replica import Replica

PARTITIONS: Final = 4
COUNT: Final = 2000


class CountedReads:
    """A `Connection` that counts the keys of each read, and refuses the parts that it is asked to refuse."""

    def __init__(self, inner: LocalData) -> None:
        self._inner = inner
        self.asked: list[int] = []
        self.refusals: Callable[[ReadPart], DuramenError | None] = lambda _: None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def read(
        self, parts: Sequence[ReadPart], *, timeout: float, patience: float = 0.0
    ) -> list[ReadResult | DuramenError]:
        self.asked.append(sum(len(part.keys) for part in parts))
        found = await self._inner.read(parts, timeout=timeout, patience=patience)
        return [self.refusals(part) or result for part, result in zip(parts, found, strict=True)]


class SomeReplicas:
    """A `Node` that seems to hold the even partitions alone."""

    def __init__(self, node: Node) -> None:
        self._node = node

    def __getattr__(self, name: str) -> Any:
        return getattr(self._node, name)

    def replica(self, partition: PartitionId) -> Replica:
        if partition.partition % 2:
            raise NotHosted("it is at another node")
        return self._node.replica(partition)


class RoutedThread(ServerThread):
    """An endpoint as a router has it, or a node that holds half of the partitions."""

    def __init__(self, folder: Path, *, holds_some: bool) -> None:
        super().__init__(folder, RespSettings(port=0, table_partitions=PARTITIONS))
        self._holds_some = holds_some
        self.reads: CountedReads

    async def open(self, opened: AsyncExitStack) -> None:
        self.data_plane = await opened.enter_async_context(one_machine(self._folder))
        self.reads = CountedReads(self.data_plane)
        node = cast("Node", SomeReplicas(self.data_plane.node)) if self._holds_some else None
        maps, sockets = MapFollower(self.data_plane.catalog), RespSockets.take(self._settings)
        connection: Any = self.reads
        self.server = await RespServer.open(connection, maps, self._settings, sockets, node=node)
        opened.push_async_callback(self.server.close)


@pytest.fixture(scope="module", params=[False, True], ids=["a router", "a node"])
def routed(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[RoutedThread]:
    running = RoutedThread(tmp_path_factory.mktemp("routed"), holds_some=request.param)
    running.start()
    yield running
    running.close()


def keys_of(key: str) -> list[str]:
    return [f"{key}:{number}" for number in range(COUNT)]


def filled(raw: Raw, key: str) -> list[str]:
    """Keys of which every second one has its own name as its value."""
    keys = keys_of(key)
    assert raw.call("MSET", *(word for each in keys[::2] for word in (each, each))) == Status("OK")
    return keys


def answers(raw: Raw, commands: Sequence[Sequence[str | bytes]]) -> list[Any]:
    raw.send(b"".join(packed(*command) for command in commands))
    return [raw.reply() for _ in commands]


def value_of(keys: Sequence[str], number: int) -> bytes | None:
    return None if number % 2 else keys[number].encode()


def test_a_pipeline_of_gets_is_some_calls(routed: RoutedThread, key: str) -> None:
    with routed.connect() as raw:
        keys = filled(raw, key)
        routed.reads.asked.clear()
        replies = answers(raw, [("GET", each) for each in keys])
    assert replies == [value_of(keys, number) for number in range(COUNT)]
    assert len(routed.reads.asked) < COUNT / 50


def test_reads_of_all_kinds_are_asked_together(routed: RoutedThread, key: str) -> None:
    with routed.connect() as raw:
        keys = filled(raw, key)
        commands: list[tuple[str, ...]] = []
        expected: list[Any] = []
        for number, each in enumerate(keys[:-1]):
            value = value_of(keys, number)
            commands += [
                ("GET", each), ("STRLEN", each), ("MGET", each, keys[number + 1]), ("TTL", each),
                ("EXISTS", each, each), ("GETRANGE", each, "0", "1"), ("TYPE", each),
            ]  # fmt: skip
            expected += [
                value, len(value or b""), [value, value_of(keys, number + 1)], -1 if value else -2,
                2 if value else 0, (value or b"")[:2], Status("string" if value else "none"),
            ]  # fmt: skip
        routed.reads.asked.clear()
        replies = answers(raw, commands)
    assert replies == expected
    assert len(routed.reads.asked) < len(commands) / 50


def test_empty_values_and_absent_keys_differ(routed: RoutedThread, key: str) -> None:
    with routed.connect() as raw:
        keys = keys_of(key)[:100]
        assert raw.call("MSET", *(word for each in keys[:50] for word in (each, ""))) == Status("OK")
        assert answers(raw, [("GET", each) for each in keys[:50]]) == [b""] * 50
        assert answers(raw, [("GET", each) for each in keys]) == [b""] * 50 + [None] * 50


def test_a_read_that_is_wrong_has_its_own_error(routed: RoutedThread, key: str) -> None:
    with routed.connect() as raw:
        keys = filled(raw, key)
        commands: list[tuple[str, ...]] = [("GET", each) for each in keys[:300]]
        commands[100], commands[200], commands[250] = ("GET",), ("GET", ""), ("GETRANGE", keys[0], "a", "b")
        replies = answers(raw, commands)
    errors = {number: reply for number, reply in enumerate(replies) if isinstance(reply, RawError)}
    assert sorted(errors) == [100, 200, 250]
    assert all(replies[number] == value_of(keys, number) for number in range(300) if number not in errors)


def test_a_partition_that_cannot_answer_fails_its_own_keys(routed: RoutedThread, key: str) -> None:
    refused = Partition(1)
    with routed.connect() as raw:
        keys = filled(raw, key)
        table = routed.server.tables.at_hand("default")
        assert table is not None
        routed.reads.refusals = lambda part: (
            Unavailable("no replica answers") if part.partition.partition == refused else None
        )
        try:
            replies = answers(raw, [("GET", each) for each in keys])
        finally:
            routed.reads.refusals = lambda _: None
    for number, reply in enumerate(replies):
        if table.partition_of(keys[number].encode()) == refused:
            assert isinstance(reply, RawError), number
            assert "no replica answers" in reply.text
        else:
            assert reply == value_of(keys, number)


def test_large_values_are_asked_for_in_bounded_calls(routed: RoutedThread, key: str) -> None:
    size, count = 1_000_000, 100
    with routed.connect() as raw:
        for number in range(count):
            assert raw.call("SET", f"{key}:{number}", b"%03d" % number * (size // 3)) == Status("OK")
        routed.reads.asked.clear()
        replies = answers(raw, [("GET", f"{key}:{number}") for number in range(count)])
    assert [reply[:3] for reply in replies] == [b"%03d" % number for number in range(count)]
    assert {len(reply) for reply in replies} == {size // 3 * 3}
    assert max(routed.reads.asked) * size <= 2 * READ_REPLY_BYTES_MAX
    assert sum(routed.reads.asked) <= 3 * count, "few of them are read twice"


def test_a_large_value_that_many_ask_for_is_sent_in_bounded_runs(routed: RoutedThread, key: str) -> None:
    """It is read once for many commands, and each of their replies has it."""
    with routed.connect() as raw:
        value = b"x" * 1_000_000
        assert raw.call("SET", key, value) == Status("OK")
        routed.reads.asked.clear()
        commands = [("GET", key), ("GETRANGE", key, "0", "9"), ("MGET", key, key)] * 40
        raw.send(b"".join(packed(*command) for command in commands))
        for _ in range(40):
            assert [raw.reply(), raw.reply(), raw.reply()] == [value, value[:10], [value, value]]


def test_a_read_that_is_too_large_by_itself_is_refused_alone(routed: RoutedThread, key: str) -> None:
    with routed.connect() as raw:
        keys = filled(raw, key)
        large = keys[50].encode()
        routed.reads.refusals = lambda part: LimitExceeded("too much") if large in part.keys else None
        try:
            replies = answers(raw, [("GET", each) for each in keys[:100]])
        finally:
            routed.reads.refusals = lambda _: None
    expected: list[Any] = [value_of(keys, number) for number in range(100)]
    if routed.reads.asked and isinstance(replies[50], RawError):
        expected[50] = replies[50]  # else it is a key of the node itself
    assert replies == expected


def test_reads_see_the_writes_before_them(routed: RoutedThread, key: str) -> None:
    """And not those behind them, whatever is gathered."""
    with routed.connect() as raw:
        commands: list[tuple[str, ...]] = []
        expected: list[Any] = []
        for round_number in range(20):
            for number in range(30):
                commands.append(("SET", f"{key}:{number}", f"{round_number}:{number}"))
                expected.append(Status("OK"))
            for number in range(60):
                commands.append(("GET", f"{key}:{number % 30}"))
                expected.append(b"%d:%d" % (round_number, number % 30))
            commands.append(("INCR", f"{key}:count"))
            expected.append(round_number + 1)
            commands.append(("GET", f"{key}:count"))
            expected.append(b"%d" % (round_number + 1))
        assert answers(raw, commands) == expected


def test_a_transaction_between_reads_is_one(routed: RoutedThread, key: str) -> None:
    with routed.connect() as raw:
        keys = filled(raw, key)
        reads = [("GET", each) for each in keys[:100]]
        found: list[Any] = [value_of(keys, number) for number in range(100)]
        replies = answers(raw, [*reads, ("MULTI",), ("GET", keys[0]), ("GET", keys[1]), ("EXEC",), *reads])
    queued = Status("QUEUED")
    assert replies[:100] == replies[-100:] == found
    assert replies[100:103] == [Status("OK"), queued, queued]


def test_a_client_that_leaves_meanwhile_holds_nothing(routed: RoutedThread, key: str) -> None:
    with routed.connect() as raw:
        keys = filled(raw, key)
        for _ in range(10):
            with routed.connect() as leaving:
                leaving.send(b"".join(packed("GET", each) for each in keys))
        assert raw.call("GET", keys[0]) == keys[0].encode()


def test_a_replica_that_lags_is_not_the_only_one_to_ask(tmp_path: Path) -> None:
    """A node waited 15 s for its own replica, where another node could have answered."""
    server = RoutedThread(tmp_path, holds_some=True)
    server.start()
    try:
        with server.connect() as raw:
            assert raw.call("SET", "key", "first") == Status("OK")
            table = server.server.tables.at_hand("default")
            assert table is not None
            key = next(key for key in map(str, range(100)) if table.partition_of(key.encode()) == 0)
            replica = server.data_plane.node.replica(table.ids[0])
            wait_until(lambda: replica.applied == replica.progress.latest)
            server.reads.asked.clear()
            with stepped(replica) as steps:
                assert raw.call("SET", key, "second") == Status("OK")
                raw.send(packed("GET", key))
                wait_until(lambda: server.reads.asked == [1])
                steps.one()
                assert raw.reply() == b"second"
    finally:
        server.close()
