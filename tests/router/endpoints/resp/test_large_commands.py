"""Commands over very many keys, and very large replies: right, atomic, and no turn of the event loop is long.

Work is counted in calls that the loop's thread makes in one turn, and not by a clock.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import pytest
from kit.resp.loop_turns import LoopTurns
from kit.resp.raw_client import Raw, RawError, Status, packed
from kit.resp.server_thread import ServerThread

from log_tier.concurrency.sized_work import AT_ONCE_ITEMS_MAX
from log_tier.model.record import VALUE_BYTES_MAX
from router.data.gather.columns_builder import ColumnsBuilder
from router.data.gather.write_gatherer import AT_ONCE_RECORDS_MAX
from router.endpoints.resp.commands import server as commands
from router.endpoints.resp.data.floors import Floors
from router.endpoints.resp.data.key_views import Overlay, ReadOnlyView
from router.endpoints.resp.data.rounds import round_keys
from router.endpoints.resp.server.sockets import RespSettings
from router.endpoints.resp.wire import replies
from router.endpoints.resp.wire.limits import (
    ARGUMENTS_MAX,
    AT_ONCE_KEYS_MAX,
    TRANSACTION_BYTES_MAX,
    TRANSACTION_KEYS_MAX,
)

OK: Final = Status("OK")
QUEUED: Final = Status("QUEUED")

MANY: Final = 8_000
KEYS: Final = [b"large:%05d" % number for number in range(MANY)]
VALUES: Final = [b"value %05d" % number for number in range(MANY)]
PAIRS: Final = [word for pair in zip(KEYS, VALUES, strict=True) for word in pair]


@pytest.fixture(scope="module", params=[1, 3], ids=["one partition", "three partitions"])
def large(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[ServerThread]:
    folder: Path = tmp_path_factory.mktemp("large")
    server = ServerThread(folder, RespSettings(port=0, table_partitions=request.param)).start()
    yield server
    server.close()


@pytest.fixture
def raw(large: ServerThread) -> Iterator[Raw]:
    with large.connect() as connection:
        assert connection.call("MSET", *PAIRS) == OK
        yield connection
    with large.connect() as connection:
        connection.call("DEL", *KEYS)


LARGE: Final[dict[str, tuple[tuple[bytes, ...], object]]] = {
    "MGET": ((b"MGET", *KEYS), VALUES),
    "EXISTS": ((b"EXISTS", *KEYS), MANY),
    "TOUCH": ((b"TOUCH", *KEYS), MANY),
    "MSET": ((b"MSET", *PAIRS), OK),
    "DEL": ((b"DEL", *KEYS), MANY),
    "UNLINK": ((b"UNLINK", *KEYS), MANY),
}


@pytest.mark.parametrize("name", LARGE)
def test_what_one_command_does_in_one_turn(
    large: ServerThread, raw: Raw, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    command, expected = LARGE[name]
    counted = (
        LoopTurns(large, monkeypatch, ReadOnlyView, "get"),
        LoopTurns(large, monkeypatch, Overlay, "get"),
        LoopTurns(large, monkeypatch, Overlay, "put"),
        LoopTurns(large, monkeypatch, Overlay, "remove"),
        LoopTurns(large, monkeypatch, replies, "_write"),
    )
    with counted[0], counted[1], counted[2], counted[3], counted[4]:
        assert raw.call(*command) == expected
        assert raw.call("PING") == Status("PONG")
    assert sum(each.calls + each.elsewhere for each in counted) >= MANY
    assert max(each.most_in_one_turn for each in counted) <= AT_ONCE_KEYS_MAX


def test_a_large_msetnx(large: ServerThread, raw: Raw, monkeypatch: pytest.MonkeyPatch) -> None:
    if large.run(lambda: large.server.tables.open("default")).partitions > 1:
        pytest.skip("its keys lie in one partition, or it is refused")
    new = [word for number in range(MANY) for word in (b"new:%d" % number, b"x")]
    counted = LoopTurns(large, monkeypatch, Overlay, "put")
    with counted:
        assert raw.call("MSETNX", *new) == 1
        assert raw.call("MSETNX", *new) == 0
    assert counted.elsewhere == MANY
    assert counted.most_in_one_turn <= AT_ONCE_KEYS_MAX
    assert raw.call("DEL", *new[::2]) == MANY


def test_a_large_batch_is_noted_some_keys_at_a_time(
    large: ServerThread, raw: Raw, monkeypatch: pytest.MonkeyPatch
) -> None:
    noted: list[int] = []
    inner = Floors.wrote

    def wrote(self: Floors, partition: Any, keys: Sequence[bytes], last: Any, applied: Any) -> None:
        noted.append(len(keys))
        inner(self, partition, keys, last, applied)

    monkeypatch.setattr(Floors, "wrote", wrote)
    keys = [tagged(number) for number in range(3 * AT_ONCE_RECORDS_MAX)]
    assert raw.call("MSET", *[word for key in keys for word in (key, b"v")]) == OK
    assert raw.call("EXISTS", *keys) == len(keys)
    assert sum(noted) >= len(keys)
    assert max(noted) <= AT_ONCE_RECORDS_MAX
    assert raw.call("DEL", *keys) == len(keys)


def test_the_keys_of_a_large_round_are_looked_for_in_a_thread(
    large: ServerThread, raw: Raw, monkeypatch: pytest.MonkeyPatch
) -> None:
    with LoopTurns(large, monkeypatch, round_keys, "asked_keys") as counted:
        assert raw.call("MSETNX", *[word for number in range(MANY) for word in (tagged(number), b"v")]) == 1
    assert counted.elsewhere
    assert not counted.calls
    assert raw.call("DEL", *map(tagged, range(MANY))) == MANY


def test_many_watched_keys(large: ServerThread, raw: Raw, monkeypatch: pytest.MonkeyPatch) -> None:
    with LoopTurns(large, monkeypatch, Overlay, "version") as counted:
        assert raw.call("WATCH", *KEYS) == OK
        assert raw.call("UNWATCH") == OK
    assert counted.calls == MANY
    assert counted.most_in_one_turn <= AT_ONCE_ITEMS_MAX


def tagged(number: int) -> bytes:
    return b"{tag}:%d" % number


def test_a_large_transaction(large: ServerThread, raw: Raw, monkeypatch: pytest.MonkeyPatch) -> None:
    count = 5_000
    counted = (
        LoopTurns(large, monkeypatch, Overlay, "put"),
        LoopTurns(large, monkeypatch, Overlay, "get"),
        LoopTurns(large, monkeypatch, replies, "_write"),
    )
    with counted[0], counted[1], counted[2]:
        raw.send(packed("MULTI") + b"".join(packed("INCR", tagged(number)) for number in range(count)))
        raw.send(packed("MGET", *map(tagged, range(count))) + packed("EXEC"))
        assert [raw.reply() for _ in range(count + 2)] == [OK, *[QUEUED] * (count + 1)]
        *sums, last = raw.reply()
        assert sums == [1] * count
        assert last == [b"1"] * count
    assert max(each.most_in_one_turn for each in counted) <= AT_ONCE_KEYS_MAX
    assert raw.call("DEL", *map(tagged, range(count))) == count


def test_a_transaction_of_too_many_keys(raw: Raw) -> None:
    assert raw.call("MULTI") == OK
    words = [b"{tag}"] * TRANSACTION_KEYS_MAX
    assert raw.call("EXISTS", *words) == QUEUED
    refused = raw.call("EXISTS", b"{tag}")
    assert isinstance(refused, RawError)
    assert refused.text == f"ERR a transaction names at most {TRANSACTION_KEYS_MAX} keys, these are {len(words) + 1}"
    assert raw.call("EXEC").text.startswith("EXECABORT")


def test_a_transaction_of_too_many_bytes(raw: Raw) -> None:
    """Its commands are kept until EXEC, and one batch of the log is all that it can write."""
    assert raw.call("MULTI") == OK
    value, count = b"v" * VALUE_BYTES_MAX, TRANSACTION_BYTES_MAX // VALUE_BYTES_MAX
    replies = [raw.call("SET", b"{tag}%d" % number, value) for number in range(3 * count)]
    assert replies[: count - 1] == [QUEUED] * (count - 1)
    for refused in replies[count:]:
        assert isinstance(refused, RawError)
        assert refused.text.startswith(f"ERR the commands of a transaction have at most {TRANSACTION_BYTES_MAX} bytes")
    assert raw.call("EXEC").text.startswith("EXECABORT")
    assert raw.call("MULTI") == OK
    assert raw.call("SET", b"{tag}", value) == QUEUED
    assert raw.call("EXEC") == [OK]
    assert raw.call("DEL", b"{tag}") == 1


def test_a_round_takes_so_many_keys(large: ServerThread, raw: Raw, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pipeline of commands on many keys each."""
    counted = LoopTurns(large, monkeypatch, Overlay, "remove")
    with counted:
        pieces = [KEYS[at : at + 500] for at in range(0, MANY, 500)]
        raw.send(b"".join(packed("DEL", *piece) for piece in pieces))
        assert [raw.reply() for _ in pieces] == [500] * len(pieces)
    assert counted.calls == MANY
    assert counted.most_in_one_turn <= AT_ONCE_KEYS_MAX


def test_a_large_read_shows_one_state(large: ServerThread, raw: Raw) -> None:
    """While another connection writes all keys again and again, each MGET has the values of one MSET."""
    keys = [tagged(number) for number in range(AT_ONCE_KEYS_MAX + 500)]
    stop = threading.Event()
    writes = threading.Semaphore(0)  # so many for each read: a read waits for all that is acknowledged before it

    def write() -> None:
        with large.connect() as writer:
            number = 0
            while writes.acquire() and not stop.is_set():
                number += 1
                assert writer.call("MSET", *[word for key in keys for word in (key, b"%d" % number)]) == OK

    assert raw.call("MSET", *[word for key in keys for word in (key, b"0")]) == OK
    thread = threading.Thread(target=write)
    thread.start()
    seen = []
    try:
        for _ in range(30):
            writes.release(4)
            seen.append(raw.call("MGET", *keys))
    finally:
        stop.set()
        writes.release()
        thread.join()
    numbers = [int(values[0]) for values in seen]
    assert [set(values) for values in seen] == [{b"%d" % number} for number in numbers]
    assert numbers == sorted(numbers), "a later read shows no older state"
    assert raw.call("DEL", *keys) == len(keys)


def test_commands_behind_a_large_one_see_what_it_did(raw: Raw) -> None:
    """One connection's commands take effect in their order, also where a thread does their work."""
    more = [word for key in KEYS for word in (key, b"second")]
    raw.send(packed("MSET", *more) + packed("GET", KEYS[-1]) + packed("DEL", *KEYS) + packed("EXISTS", *KEYS))
    raw.send(packed("SET", KEYS[0], "third") + packed("MGET", *KEYS[:3000]))
    assert [raw.reply() for _ in range(5)] == [OK, b"second", MANY, 0, OK]
    assert raw.reply() == [b"third", *[None] * 2999]


def test_long_replies(large: ServerThread, raw: Raw, monkeypatch: pytest.MonkeyPatch) -> None:
    counted = LoopTurns(large, monkeypatch, replies, "_write")
    with counted:
        assert sorted(raw.call("KEYS", "large:*")) == KEYS
    assert counted.elsewhere > MANY, "a thread encodes it"
    assert counted.most_in_one_turn <= AT_ONCE_KEYS_MAX


def test_large_values(raw: Raw) -> None:
    values = [bytes([65 + number]) * 1_000_000 for number in range(8)]
    keys = [b"{big}:%d" % number for number in range(8)]
    for key, value in zip(keys, values, strict=True):
        assert raw.call("SET", key, value) == OK
    assert raw.call("MGET", *keys) == values
    raw.send(packed("MULTI") + b"".join(packed("GET", key) for key in keys) + packed("EXEC") + packed("PING"))
    assert [raw.reply() for _ in range(9)] == [OK, *[QUEUED] * 8]
    assert raw.reply() == values
    assert raw.reply() == Status("PONG")
    assert raw.call("DEL", *keys) == 8


def test_cheap_to_ask_and_dear_to_answer(large: ServerThread, raw: Raw, monkeypatch: pytest.MonkeyPatch) -> None:
    """COMMAND answers with 50 KB: few of them in one turn. It ends after 4 ms: two to six of them, by the machine."""
    counted = LoopTurns(large, monkeypatch, commands, "described")
    one = len(large.server.commands)
    with counted:
        raw.send(packed("COMMAND") * 40)
        assert {len(raw.reply()) for _ in range(40)} == {one}
    assert counted.calls == 40 * one
    assert counted.most_in_one_turn <= 12 * one


def test_a_command_of_too_many_words(raw: Raw) -> None:
    raw.send(b"*%d\r\n$4\r\nMGET\r\n" % (ARGUMENTS_MAX + 1))
    assert raw.reply() == RawError("ERR Protocol error: invalid multibulk length")
    assert raw.ended()


def test_a_write_that_is_refused_in_a_round(raw: Raw) -> None:
    """A command behind it reads the key that it has not written."""
    raw.send(packed("INCR", "{x}n") + packed("SETEX", "{x}k", "0", "v") + packed("GET", "{x}k") + packed("DEL", "{x}n"))
    assert raw.reply() == 1
    assert raw.reply() == RawError("ERR invalid expire time in 'setex' command")
    assert raw.reply() is None
    assert raw.reply() == 1


def test_large_values_are_encoded_in_a_thread(large: ServerThread, raw: Raw, monkeypatch: pytest.MonkeyPatch) -> None:
    """Few records of many bytes: a batch of 7 MB is copied three times, which is more than a turn."""
    counted = LoopTurns(large, monkeypatch, ColumnsBuilder, "encode")
    pairs = [word for key in KEYS[:700] for word in (key, b"v" * 10_240)]
    with counted:
        assert raw.call("MSET", *pairs) == OK
    assert counted.elsewhere, "a thread encodes it"
    assert raw.call("MGET", *KEYS[:700]) == [b"v" * 10_240] * 700
