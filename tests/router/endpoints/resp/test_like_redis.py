"""The same commands to this endpoint and to a real Redis server, in the same run: the same replies, errors included."""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kit.deadlines import patience_s
from kit.resp.raw_client import Raw, RawError, Status, packed
from kit.resp.real_redis import RealRedis
from kit.resp.server_thread import ServerThread

_examples = itertools.count()

# Redis and this endpoint look at their clocks one after the other.
CLOCKS_APART_MS = 2_000

EXAMPLES = 3_000 if os.environ.get("DURAMEN_CAMPAIGN") else 150

Pair = tuple[Raw, Raw]


@pytest.fixture
def pair(server: ServerThread, redis_server: RealRedis) -> Iterator[Pair]:
    with server.connect() as ours, Raw(redis_server.address) as theirs:
        yield ours, theirs


# --- random sequences

KEYS = [b"a", b"b", b"{a}c"]
words = st.sampled_from
keys = words(KEYS)
INTEGERS = [b"0", b"1", b"-1", b"7", b"-3", b"9223372036854775807", b"-9223372036854775808", b"9223372036854775808"]
integers = words([*INTEGERS, b"007", b"-0", b"+1", b" 1", b"1 ", b"", b"abc", b"1.5", b"1e3", b"12345678901234567890"])
FLOATS = b"0.1,-0.1,1,3.0,1e2,5.0e3,-2.5e-3,10.50,1e400,1e17,1234567.123456789,+2,.5,5.,1e,--1,nan,inf,-inf,abc,, 1,1 "
floats = words(FLOATS.split(b","))
values = st.one_of(
    words([b"", b"x", b"hello world", b"\x00\xff\r\n", b"10.5", b"-2"]), integers, st.binary(max_size=12)
)
positions = words([b"0", b"1", b"2", b"5", b"-1", b"-2", b"-100", b"100", b"x", b"4294967296"])
# Far enough away that both servers round to the same second most of the time, and soon enough to differ.
seconds = words([b"100", b"1000", b"5000", b"0", b"-1", b"x", b"1.5", b"9223372036854775807", b"99999999999999999"])
millis = words([b"100000", b"5000000", b"0", b"-5", b"x", b"9223372036854775807"])
at_seconds = words([b"4000000000", b"4000001000", b"1", b"0", b"-7", b"x", b"9223372036854775807"])
at_millis = words([b"4000000000000", b"4000001000000", b"1", b"x"])
expiries = st.one_of(
    st.tuples(words([b"EX", b"ex"]), seconds),
    st.tuples(words([b"PX", b"Px"]), millis),
    st.tuples(words([b"EXAT"]), at_seconds),
    st.tuples(words([b"PXAT"]), at_millis),
    st.tuples(words([b"EX", b"PXAT", b"BOGUS", b"PERSIST"])),
)
set_options = st.lists(
    st.one_of(st.tuples(words([b"NX", b"XX", b"GET", b"KEEPTTL", b"nx"])), expiries), max_size=3
).map(lambda parts: tuple(itertools.chain(*parts)))
getex_options = st.lists(st.one_of(st.tuples(words([b"PERSIST"])), expiries), max_size=2).map(
    lambda parts: tuple(itertools.chain(*parts))
)
# Whether one `in 100 s` is later than another depends on the millisecond; times in themselves are compared below.
relative_options = st.lists(words([b"NX", b"XX", b"xx", b"BOGUS"]), max_size=2).map(tuple)
expire_options = st.lists(words([b"NX", b"XX", b"GT", b"LT", b"gt", b"BOGUS"]), max_size=2).map(tuple)
pairs = st.lists(st.tuples(keys, values), min_size=1, max_size=3).map(lambda parts: tuple(itertools.chain(*parts)))
some_keys = st.lists(keys, min_size=1, max_size=4).map(tuple)


def command(*parts: Any) -> st.SearchStrategy[tuple[bytes, ...]]:
    """A command of fixed words, strategies for one word, and strategies for tuples of words."""
    strategies = [part if isinstance(part, st.SearchStrategy) else st.just(part) for part in parts]
    return st.tuples(*strategies).map(
        lambda found: tuple(word for part in found for word in (part if isinstance(part, tuple) else (part,)))
    )


commands = st.one_of(
    command(b"GET", keys),
    command(b"SET", keys, values),
    command(b"SET", keys, values, set_options),
    command(b"SETNX", keys, values),
    command(b"SETEX", keys, seconds, values),
    command(b"PSETEX", keys, millis, values),
    command(b"GETSET", keys, values),
    command(b"GETDEL", keys),
    command(b"GETEX", keys, getex_options),
    command(b"MGET", some_keys),
    command(b"MSET", pairs),
    command(b"MSET", pairs, keys),
    command(b"MSETNX", pairs),
    command(b"APPEND", keys, values),
    command(b"STRLEN", keys),
    command(b"GETRANGE", keys, positions, positions),
    command(b"SETRANGE", keys, words([b"0", b"3", b"-1", b"x"]), values),
    command(words([b"INCR", b"DECR", b"incr"]), keys),
    command(words([b"INCRBY", b"DECRBY"]), keys, integers),
    command(b"INCRBYFLOAT", keys, floats),
    command(words([b"DEL", b"UNLINK", b"EXISTS", b"TOUCH"]), some_keys),
    command(words([b"TTL", b"PTTL", b"TYPE", b"PERSIST", b"EXPIRETIME", b"PEXPIRETIME"]), keys),
    command(b"EXPIRE", keys, seconds, relative_options),
    command(b"PEXPIRE", keys, millis, relative_options),
    command(b"EXPIREAT", keys, at_seconds, expire_options),
    command(b"PEXPIREAT", keys, at_millis, expire_options),
    command(words([b"MULTI", b"EXEC", b"DISCARD", b"UNWATCH"])),
    command(b"WATCH", some_keys),
    command(b"PING"),
    command(b"ECHO", values),
    command(words([b"GET", b"SET", b"INCR", b"NOPE", b"MGET", b"SETEX", b"nope\r\n", b"CLIENT", b"PING", b"ECHO"]),
            st.lists(values.filter(bool), max_size=4).map(tuple)),
)  # fmt: skip

_TIMES = {b"TTL", b"PTTL", b"EXPIRETIME", b"PEXPIRETIME"}


def alike(ours: Any, theirs: Any, sent: tuple[bytes, ...]) -> bool:
    """The same reply; times may be as far apart as the clocks' readings."""
    if ours == theirs:
        return True
    if isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        return all(alike(one, other, (b"PTTL",)) for one, other in zip(ours, theirs, strict=True))
    if sent[0].upper() in _TIMES and isinstance(ours, int) and isinstance(theirs, int):
        return ours > 0 and theirs > 0 and abs(ours - theirs) <= CLOCKS_APART_MS
    return False


def own(sent: tuple[bytes, ...], prefix: bytes) -> tuple[bytes, ...]:
    """The command with keys of this example's own."""
    return tuple(prefix + word if word in KEYS else word for word in sent)


@settings(max_examples=EXAMPLES, deadline=None)
@given(sequence=st.lists(commands, min_size=1, max_size=30), together=st.booleans())
def test_random_commands(
    server: ServerThread, redis_server: RealRedis, sequence: list[tuple[bytes, ...]], together: bool
) -> None:
    prefix = b"{%d}" % next(_examples)
    sent = [own(each, prefix) for each in sequence]
    with server.connect() as ours, Raw(redis_server.address) as theirs:
        if together:
            for side in (ours, theirs):
                side.send(b"".join(packed(*each) for each in sent))
        for each in sent:
            if not together:
                for side in (ours, theirs):
                    side.send(packed(*each))
            mine, real = ours.reply(), theirs.reply()
            assert alike(mine, real, each), f"{each}: {mine!r}, Redis says {real!r}; all of it: {sent}"
    with server.connect() as ours, Raw(redis_server.address) as theirs:
        for name in KEYS:
            assert ours.call("GET", prefix + name) == theirs.call("GET", prefix + name)
        theirs.call("DEL", *(prefix + name for name in KEYS))


# --- what the sequences above do not reach

ONCE = [
    ("PING", "a", "b"),
    ("HELLO", "4"),
    ("HELLO", "x"),
    ("HELLO", "2", "NOPE"),
    ("AUTH", "secret"),
    ("AUTH", "somebody", "secret"),
    ("SELECT", "99"),
    ("CLIENT", "NOPE"),
    ("CLIENT", "SETNAME", "a b"),
    ("CLIENT", "SETNAME", "me"),
    ("CLIENT", "GETNAME"),
    ("CLIENT", "ID", "x"),
    ("COMMAND", "NOPE"),
    ("COMMAND", "GETKEYS", "MSET", "a", "1", "b", "2"),
    ("COMMAND", "GETKEYS", "PING"),
    ("SCAN", "x"),
    ("SCAN", "0", "COUNT", "0"),
    ("SCAN", "0", "COUNT"),
    ("SCAN", "0", "NOPE", "1"),
    ("WAIT", "0", "10"),
    ("WAIT", "x", "10"),
    ("WAIT", "1", "-1"),
    ("DISCARD",),
    ("EXEC",),
    ("LPUSH", "list", "1"),
    ("EVAL", "return 1", "0"),
    ("x" * 200, "y" * 200, "z"),
    ("get", "a", "b"),
    ("READONLY", "x"),
    ("PUBLISH", "news", "x"),
    ("PUBSUB", "CHANNELS"),
    ("SPUBLISH", "news", "x"),
    ("SSUBSCRIBE", "news"),
]

REFUSED = ("LPUSH", "EVAL", "PUBLISH", "PUBSUB", "SPUBLISH", "SSUBSCRIBE")
"""Redis has them, and this endpoint refuses them as Redis refuses what it has not."""


@pytest.mark.parametrize("words", ONCE, ids=" ".join)
def test_one_command(pair: Pair, words: tuple[str, ...]) -> None:
    ours, theirs = pair
    if words[0] in REFUSED:
        shown = " ".join(f"'{word}'" for word in words[1:])
        assert ours.call(*words) == RawError(f"ERR unknown command '{words[0]}', with args beginning with: {shown} ")
        return
    assert ours.call(*words) == theirs.call(*words)


def test_a_transaction_that_was_aborted_says_so_as_redis_does(pair: Pair, key: str) -> None:
    for side in pair:
        replies = [
            side.call("MULTI"),
            side.call("SET", key, "1"),
            side.call("NOPE"),
            side.call("SET", key),
            side.call("MULTI"),
            side.call("WATCH", key),
            side.call("EXEC"),
            side.call("GET", key),
        ]
        if side is pair[0]:
            mine = replies
    assert mine == replies
    assert mine[-2] == RawError("EXECABORT Transaction discarded because of previous errors.")
    assert mine[0] == Status("OK")


def test_watch_sees_what_others_wrote(pair: Pair, server: ServerThread, redis_server: RealRedis, key: str) -> None:
    seen = []
    for side, address in zip(pair, (server.address, redis_server.address), strict=True):
        with Raw(address) as other:
            side.call("DEL", key)
            replies = [side.call("WATCH", key), other.call("SET", key, "theirs"), side.call("MULTI")]
            replies += [side.call("SET", key, "mine"), side.call("EXEC"), side.call("GET", key)]
            # And nobody in between: it goes through.
            replies += [side.call("WATCH", key), side.call("MULTI"), side.call("APPEND", key, "!"), side.call("EXEC")]
            seen.append(replies)
    assert seen[0] == seen[1]
    assert seen[0][4] is None
    assert seen[0][-1] == [7]


def test_a_key_goes_at_its_millisecond(pair: Pair, key: str) -> None:
    import time

    for side in pair:
        side.call("SET", key, "here for long", "PX", "600000")
        assert side.call("GET", key) == b"here for long"
        assert 0 < side.call("PTTL", key) <= 600_000
        begun = time.monotonic()
        side.call("SET", key, "soon gone", "PX", "40")
        found, left = side.call("GET", key), side.call("PTTL", key)
        # A busy machine may take longer than the key lives. It lives 39 ms at least: now is a whole millisecond.
        late = time.monotonic() - begun >= 0.039
        assert found == b"soon gone" or (late and found is None), found
        assert 0 < left <= 40 or (late and left == -2), left
        deadline = time.monotonic() + 0.045
        while time.monotonic() <= deadline:
            time.sleep(0.001)
        assert side.call("GET", key) is None
        assert side.call("EXISTS", key) == 0
        assert side.call("TTL", key) == -2
        assert side.call("SET", key, "new", "NX") == Status("OK")
        assert side.call("TTL", key) == -1


@pytest.mark.parametrize(
    "line",
    [
        b"PING\r\n",
        b"ping\n",
        b"\r\n",
        b"set k%b 1\r\n",
        b"set k%b \"a\\x41\\n\"\r\n",
        b"get 'k%b'\r\n",
        b"echo \"unbalanced\r\n",
        b"echo 'a'b\r\n",
        b"*0\r\n*1\r\n$4\r\nPING\r\n",
        b"*-1\r\nPING\r\n",
        b"*1\r\nPING\r\n",
        b"*1\r\n:5\r\n",
        b"*x\r\n",
        b"*99999999999\r\n",
        b"*1\r\n$-1\r\n",
        b"*1\r\n$99999999999\r\n",
        b"*1\r\n$x\r\n",
        b"*2\r\n$4\r\nPING\r\n*1\r\n",
        b"nope\r\nPING\r\n",
        b"*1\r\n$4\r\nPING\r\nPING\r\n*1\r\n$4\r\nPING\r\n",
        b"*262144\r\n$4\r\nPING\r\n$1\r\n1",
        b"*2\r\n$4\r\nECHO\r\n$8\r\n*1234567\r\n",
    ],
)  # fmt: skip
def test_lines_and_protocol_errors(pair: Pair, line: bytes, key: str) -> None:
    """The same bytes to both, then a PING and an ECHO: the same replies, and the connection ends at both or at none.

    Where the bytes end in the middle of a command, both wait for the rest.
    """
    line = re.sub(rb"%b", key.encode(), line)
    half = line.endswith(b"1")
    answers = []
    for side in pair:
        replies: list[Any] = []
        side.send(line if half else line + b"PING\r\n" + packed("ECHO", "behind it"))
        side.socket.settimeout(0.5 if half else patience_s(20))
        try:
            while b"behind it" not in replies:
                replies.append(side.reply())
        except ConnectionError:
            replies.append("ended")
        except TimeoutError:
            replies.append("waits")
        answers.append(replies)
    assert answers[0] == answers[1]
    assert (answers[0][-1] == "waits") == half
