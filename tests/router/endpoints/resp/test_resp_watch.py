"""WATCH and EXEC of several connections at once: what one of them writes, the others' EXEC must see."""

from __future__ import annotations

import select
import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
from kit.cluster.one_machine import puts
from kit.deadlines import patience_s, wait_until
from kit.resp.raw_client import Raw, Status, packed
from kit.resp.server_thread import ServerThread

from log_tier.model.identifiers import Partition, PartitionId
from router.endpoints.resp.data.rounds import queued_commands
from serving_tier.replica import apply

OK = Status("OK")
QUEUED = Status("QUEUED")


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerThread]:
    """A server without reader processes: what is sent while its event loop is blocked is one round of commands."""
    running = ServerThread(tmp_path_factory.mktemp("alone")).start()
    yield running
    running.close()


@pytest.fixture
def pair(alone: ServerThread) -> Iterator[tuple[Raw, Raw]]:
    """Two connections."""
    with alone.connect() as first, alone.connect() as second:
        yield first, second


def together(server: ServerThread, *sends: Callable[[], None]) -> None:
    """Send all of it while the event loop of the server is blocked: one round of commands takes all of it."""
    arrived, go_on = threading.Event(), threading.Event()

    async def hold() -> None:
        arrived.set()
        assert go_on.wait(patience_s(20)), "nobody let the server go on"

    holding = threading.Thread(target=server.run, args=(hold,))
    holding.start()
    assert arrived.wait(patience_s(20)), "the server's event loop does not turn"
    for count, send in enumerate(sends, 1):
        send()
        # The kernel may hand it over later, and behind what is sent next.
        wait_until(lambda count=count: received(server) >= count, "it is at the server")  # type: ignore[misc]
    go_on.set()
    holding.join()


def received(server: ServerThread) -> int:
    """Connections whose bytes wait to be read by the server."""
    clients: list[Any] = list(server.server.clients.values())
    sockets = [client.transport.get_extra_info("socket") for client in clients]
    return len(select.select(sockets, [], [], 0)[0])


def transaction(*commands: tuple[str, ...]) -> bytes:
    """MULTI, the commands, EXEC in one piece."""
    return b"".join(packed(*words) for words in (("MULTI",), *commands, ("EXEC",)))


def outcome(raw: Raw, commands: int = 1) -> object:
    """The reply to EXEC, after those to MULTI and the commands."""
    assert raw.reply() == OK
    for _ in range(commands):
        assert raw.reply() == QUEUED
    return raw.reply()


@pytest.mark.parametrize("before", [None, "0"], ids=["absent", "there"])
def test_of_two_watchers_one_is_granted(
    alone: ServerThread, pair: tuple[Raw, Raw], key: str, before: str | None
) -> None:
    first, second = pair
    for number in range(20):
        name = f"{key}-{number}"
        if before is not None:
            assert first.call("SET", name, before) == OK
        assert first.call("WATCH", name) == OK
        assert second.call("WATCH", name) == OK
        together(
            alone,
            partial(first.send, transaction(("SET", name, "first"))),
            partial(second.send, transaction(("SET", name, "second"))),
        )
        outcomes = [outcome(first), outcome(second)]
        assert sorted(outcomes, key=str) == [None, [OK]], f"round {number}: {outcomes}"
        assert first.call("GET", name) == (b"first" if outcomes[0] else b"second")


@pytest.mark.parametrize(
    "change",
    [("SET", "1"), ("INCR",), ("APPEND", "x"), ("EXPIRE", "100"), ("DEL",), ("GETDEL",), ("SET", "1", "NX")],
    ids=" ".join,
)
def test_a_change_of_the_same_round_aborts(
    alone: ServerThread, pair: tuple[Raw, Raw], key: str, change: tuple[str, ...]
) -> None:
    watcher, other = pair
    if "NX" not in change:
        assert other.call("SET", key, "7") == OK
    assert watcher.call("WATCH", key) == OK
    together(
        alone,
        lambda: other.send(packed(change[0], key, *change[1:])),
        lambda: watcher.send(transaction(("SET", f"{key}-done", "1"))),
    )
    other.reply()
    assert outcome(watcher) is None
    assert watcher.call("EXISTS", f"{key}-done") == 0


def test_made_and_deleted_in_the_same_round_aborts(
    alone: ServerThread, pair: tuple[Raw, Raw], key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In one round the key is seen to have changed, though it is absent again."""
    monkeypatch.setattr(queued_commands, "EXECUTION_S", patience_s(20))  # a pause of this machine ends no round
    watcher, other = pair
    assert watcher.call("WATCH", key) == OK
    together(
        alone,
        lambda: other.send(transaction(("SET", key, "1"), ("DEL", key))),
        lambda: watcher.send(transaction(("SET", f"{key}-done", "1"))),
    )
    assert outcome(other, 2) == [OK, 1]
    assert outcome(watcher) is None


def test_what_changes_nothing_aborts_nobody(alone: ServerThread, pair: tuple[Raw, Raw], key: str) -> None:
    watcher, other = pair
    assert other.call("SET", key, "7") == OK
    assert watcher.call("WATCH", key, f"{key}-absent") == OK
    together(
        alone,
        lambda: other.send(packed("SETNX", key, "8") + packed("DEL", f"{key}-absent") + packed("PERSIST", key)),
        lambda: watcher.send(transaction(("INCR", key))),
    )
    assert [other.reply() for _ in range(3)] == [0, 0, 0]
    assert outcome(watcher) == [8]


def test_an_aborted_transaction_aborts_nobody(alone: ServerThread, pair: tuple[Raw, Raw], key: str) -> None:
    """The first is aborted by an earlier change of another key, so the second finds its key as it was."""
    first, second = pair
    assert first.call("WATCH", f"{key}-a", key) == OK
    assert second.call("WATCH", key) == OK
    assert second.call("SET", f"{key}-a", "1") == OK
    together(
        alone,
        lambda: first.send(transaction(("SET", key, "first"))),
        lambda: second.send(transaction(("SET", key, "second"))),
    )
    assert outcome(first) is None
    assert outcome(second) == [OK]
    assert first.call("GET", key) == b"second"


def test_unwatch_forgets(alone: ServerThread, pair: tuple[Raw, Raw], key: str) -> None:
    watcher, other = pair
    assert watcher.call("WATCH", key) == OK
    assert watcher.call("UNWATCH") == OK
    together(
        alone,
        lambda: other.send(packed("INCR", key)),
        lambda: watcher.send(transaction(("INCR", key))),
    )
    assert sorted([other.reply(), outcome(watcher)[0]]) == [1, 2]  # type: ignore[index]


def test_expired_keys_and_watches(pair: tuple[Raw, Raw], key: str) -> None:
    """What expires between WATCH and EXEC has changed; what had expired before it has not."""
    watcher, _ = pair
    assert watcher.call("SET", key, "1", "PX", "2000") == OK
    assert watcher.call("WATCH", key) == OK
    assert watcher.call("PTTL", key) > 0, "it was there when it was watched"
    while watcher.call("EXISTS", key):
        pass
    watcher.send(transaction(("SET", key, "2")))
    assert outcome(watcher) is None
    assert watcher.call("WATCH", key) == OK
    watcher.send(transaction(("SET", key, "3")))
    assert outcome(watcher) == [OK]


def test_a_value_never_goes_back_behind_its_watched_version(
    alone: ServerThread, pair: tuple[Raw, Raw], key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Readers see a commit before the index says which offset it has applied; no value that was read before follows."""
    raw, _ = pair
    assert raw.call("SET", key, "old") == OK
    table = alone.run(lambda: alone.server.tables.open("default"))
    index = alone.data_plane.node.replica(PartitionId(table.ref.id, Partition(0))).index
    go_on, commit = threading.Event(), index._commit

    def late(*state: Any) -> None:
        assert go_on.wait(patience_s(20)), "nobody let the commit go on"
        commit(*state)

    while raw.call("GET", f"{key}-none") is not None or raw.call("GET", key) != b"old":
        pass
    raw.call("GET", key)
    monkeypatch.setattr(apply, "SMALL_BYTES_MAX", -1)  # by the thread: the loop must not be held up
    monkeypatch.setattr(index, "_commit", late)
    try:
        # By another way than this endpoint, which does not know of it.
        alone.run(
            lambda: alone.data_plane.log.append(PartitionId(table.ref.id, Partition(0)), puts((key.encode(), b"new")))
        )
        wait_until(lambda: (index.stored(key.encode()) or b"").endswith(b"new"), "the write is applied")
        assert raw.call("DURAMEN.GETV", key)[0] == b"new"
        assert raw.call("GET", key) == b"new"
        assert raw.call("MGET", key) == [b"new"]
    finally:
        go_on.set()


@pytest.mark.parametrize("pipelined", [True, False], ids=["pipelined", "one at a time"])
def test_400_optimistic_increments(server: ServerThread, key: str, pipelined: bool) -> None:
    clients, each = 8, 50

    def increment(raw: Raw) -> bool:
        raw.send(packed("WATCH", key) + packed("GET", key))
        assert raw.reply() == OK
        value = int(raw.reply() or 0) + 1
        commands = (("MULTI",), ("SET", key, value), ("EXEC",))
        if pipelined:
            raw.send(b"".join(packed(*words) for words in commands))
            assert [raw.reply(), raw.reply()] == [OK, QUEUED]
            return raw.reply() is not None
        *_, granted = [raw.call(*words) for words in commands]
        return granted is not None

    def work() -> None:
        with server.connect() as raw:
            granted = 0
            while granted < each:
                granted += increment(raw)

    threads = [threading.Thread(target=work) for _ in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with server.connect() as raw:
        assert raw.call("GET", key) == b"%d" % (clients * each)
