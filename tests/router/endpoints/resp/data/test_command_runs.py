"""Runs: many commands as one job of a round, compared with the same commands one by one."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from log_tier.model.batch import check_batch, encode_batch
from log_tier.model.errors import DuramenError
from log_tier.model.identifiers import Offset
from log_tier.model.record import KEY_BYTES_MAX
from router.endpoints.resp.commands.command_table import find_command
from router.endpoints.resp.connection.command_runs import GatheredCommands, RunReplies, gather
from router.endpoints.resp.data.key_views import Overlay
from router.endpoints.resp.data.rounds.command_run import CommandRun
from router.endpoints.resp.data.rounds.queued_commands import QueuedCommand, Work, groups_of, records_of
from router.endpoints.resp.data.stored_entries import StoredEntries
from router.endpoints.resp.wire.replies import encode
from serving_tier.fold.entry import LiveEntry, stored_entry

NOW = 1_000_000
KEYS = [b"k%d" % number for number in range(24)]
BYTES_MAX = 1 << 20

Words = list[bytes]


class Sender:
    """An owner of commands."""

    stalled = False


class Replies:
    """Receives replies as bytes, in the order of the commands."""

    def __init__(self) -> None:
        self.replies: list[bytes] = []

    def finish(self, reply: Any) -> None:
        self.replies.append(encode(reply, 2))


def run_of(found: GatheredCommands, replies: RunReplies) -> CommandRun:
    return CommandRun(Sender(), found.commands, replies, range(len(found.commands.keys)))


def replies_of(run: GatheredCommands) -> RunReplies:
    return RunReplies(
        len(run.commands.keys), 2, answered=lambda: None, encode_error=lambda error: error.message.encode()
    )


def state_of(overlay: Overlay) -> tuple[object, ...]:
    entries = {key: overlay.get(key) for key in dict.fromkeys(overlay.keys)}
    columns = (overlay.keys, overlay.values, overlay.expiries)
    return columns, overlay.conditions, overlay.bytes, entries


def one_by_one(commands: Sequence[Words], held: dict[bytes, LiveEntry | None]) -> tuple[bytes, tuple[object, ...]]:
    """The replies to commands that are a job each, and what they leave."""
    overlay, replies = Overlay(held, NOW, read_at=Offset(99)), Replies()
    for command in commands:
        spec = find_command(command[0])
        assert spec is not None
        job = QueuedCommand(Sender(), spec.keys(command), spec.run, command[1:], replies)
        job.run(overlay, BYTES_MAX)
        job.answer(0)
    return b"".join(replies.replies), state_of(overlay)


def in_runs(
    commands: Sequence[Words], held: dict[bytes, LiveEntry | None], log_time_ms: int = 0
) -> tuple[bytes, tuple[object, ...], int]:
    """The same in runs as far as they go, on stored forms; and how many commands were in one."""
    overlay, replies = Overlay(held, NOW, read_at=Offset(99)), Replies()
    queue = deque(commands)
    ran = 0
    while queue:
        found = gather(queue)
        if found is None:
            command = queue.popleft()
            spec = find_command(command[0])
            assert spec is not None
            job = QueuedCommand(Sender(), spec.keys(command), spec.run, command[1:], replies)
            job.run(overlay, BYTES_MAX)
            job.answer(0)
            continue
        place = replies_of(found)
        run = run_of(found, place)
        assert set(run.asked) | set(run.blind) == set(run.keys)
        # What a run has not asked for need not be known.
        asked = list(dict.fromkeys(run.asked))
        before, overlay.found = (
            overlay.found,
            StoredEntries(asked, [stored_form(held[key]) for key in asked], log_time_ms),
        )
        run.run(overlay, BYTES_MAX)
        overlay.found = before
        run.answer(0)
        assert place.reply is not None
        replies.replies.append(place.reply)
        ran += len(found.commands.keys)
        for _ in found.commands.keys:
            queue.popleft()
    return b"".join(replies.replies), state_of(overlay), ran


def stored_form(entry: LiveEntry | None) -> bytes | None:
    return None if entry is None else stored_entry(*entry)


VALUES = st.sampled_from([b"", b"x", b"5", b"-3", b"9223372036854775807", b"-9223372036854775808", b"007"])
TIMES = st.sampled_from([b"100", b"100", b"100", b"0", b"-1", b"x", b"9223372036854775807"])
ENTRIES = st.none() | st.builds(
    LiveEntry, VALUES, st.integers(0, 99).map(Offset), st.sampled_from([0, 0, 0, NOW - 1, NOW, NOW + 5])
)
KINDS: dict[bytes, st.SearchStrategy[list[bytes]]] = {
    **{name: st.just([]) for name in (b"INCR", b"decr", b"DEL", b"UNLINK", b"GET", b"GETDEL", b"PERSIST", b"TTL")},
    **{name: VALUES.map(lambda value: [value]) for name in (b"SET", b"SETNX", b"APPEND", b"GETSET", b"INCRBY")},
    **{name: TIMES.map(lambda time: [time]) for name in (b"EXPIRE", b"PEXPIRE", b"EXPIREAT")},
    b"DURAMEN.SETV": st.sampled_from([b"-1", b"-1", b"7", b"42", b"-2", b"x"]).map(lambda version: [b"5", version]),
}


@st.composite
def pipelines(draw: st.DrawFn) -> list[Words]:
    """Stretches of like commands, and some single ones, over few keys or many."""
    commands: list[Words] = []
    for _ in range(draw(st.integers(1, 4))):
        name = draw(st.sampled_from(sorted(KINDS)))
        more = draw(KINDS[name])
        if name == b"SET":
            more = [*more, *draw(st.sampled_from([[], [], [b"NX"], [b"nx"], [b"XX"], [b"EX", b"10"], [b"bad"]]))]
        few = draw(st.booleans())
        if draw(st.booleans()):
            keys = draw(st.lists(st.sampled_from(KEYS[:3] if few else KEYS), max_size=20, unique=not few))
            commands += [[name, key, *more] for key in keys]
        else:
            keys = KEYS[draw(st.integers(0, 10)) :]
            odd = draw(st.integers(0, 30))
            commands += [[name, key, *(draw(KINDS[name]) if at == odd else more)] for at, key in enumerate(keys)]
    return [command for command in commands if fits(command)]


def fits(command: Words) -> bool:
    spec = find_command(command[0])
    return spec is not None and spec.fits(len(command))


@settings(max_examples=400, deadline=None)
@given(pipelines(), st.lists(ENTRIES, min_size=len(KEYS), max_size=len(KEYS)), st.sampled_from([0, NOW]))
def test_runs_do_what_their_commands_do(
    commands: list[Words], entries: list[LiveEntry | None], log_time_ms: int
) -> None:
    """At whatever log time: what it has passed, the clock has passed too."""
    held = dict(zip(KEYS, entries, strict=True))
    replies, state, _ = in_runs(commands, held, log_time_ms)
    assert (replies, state) == one_by_one(commands, held)


ALIKE = [
    [b"INCR"],
    [b"DECR"],
    [b"DEL"],
    [b"UNLINK"],
    [b"SET", b"v"],
    [b"SET", b"v", b"NX"],
    [b"SETNX", b"v"],
    [b"APPEND", b"v"],
    [b"EXPIRE", b"100"],
    [b"PEXPIRE", b"100"],
]


@pytest.mark.parametrize("repeated", [1, 3, 24])
@pytest.mark.parametrize("there", [False, True])
@pytest.mark.parametrize("words", ALIKE, ids=lambda words: b" ".join(words).decode())
def test_like_commands_run_in_columns(
    words: Words, there: bool, repeated: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On keys that differ, and on keys that come `repeated` times."""
    commands = [[words[0], KEYS[at // 2 % (len(KEYS) // repeated)], *words[1:]] for at in range(len(KEYS))]
    if repeated == 1:
        commands = [[words[0], key, *words[1:]] for key in KEYS]
    held: dict[bytes, LiveEntry | None] = dict.fromkeys(KEYS, LiveEntry(b"5", Offset(7), 0) if there else None)
    expected = one_by_one(commands, held)
    monkeypatch.setattr(CommandRun, "_one_by_one", None)  # a call of it fails
    replies, state, ran = in_runs(commands, held)
    assert (replies, state, ran) == (*expected, len(KEYS))


def test_what_ends_a_run() -> None:
    incr = [b"INCR", b"k"]
    get = [b"GET", b"k"]

    def length(*commands: Words) -> int:
        found = gather(deque(commands))
        return 0 if found is None else len(found.commands.keys)

    assert length(incr) == 0
    assert length(incr, incr) == 2
    assert length(incr, get, [b"SET", b"k", b"v"], incr) == 4
    for other in ([b"PING"], [b"MGET", b"a", b"b"], [b"MSET", b"a", b"b"], [b"NOSUCH"], [b"GET"], [b"MULTI"]):
        assert length(incr, incr, other, incr) == 2, other
        assert length(other, incr, incr) == 0, other
    assert length(incr, incr, [b"INCR", b""], incr) == 2
    assert length(*[incr] * 20, [b"INCR", b"k" * (KEY_BYTES_MAX + 1)], incr) == 20
    assert length(*[incr] * 3, *[get] * 15, incr) == 19
    assert length(*[incr] * 3, *[get] * 16, incr) == 3, "many reads are cheaper behind the round"
    assert length(*[get] * 40) == 0
    assert length(*[incr] * 5000) < 1024
    assert length(*[[b"APPEND", b"k", b"x" * 100_000]] * 50) == 10


def test_blind_keys_are_those_that_are_set_before_anybody_looks() -> None:
    queue = deque(
        [[b"SET", b"a", b"1"], [b"GET", b"a"], [b"GET", b"b"], [b"SET", b"b", b"1"], [b"SET", b"c", b"1", b"NX"]]
    )
    found = gather(queue)
    assert found is not None
    assert found.commands.blind == {b"a"}
    run = run_of(found, replies_of(found))
    assert set(run.asked) == {b"b", b"c"}


def test_commands_that_are_taken_out() -> None:
    """They keep their places, and know whether they wrote."""
    held: dict[bytes, LiveEntry | None] = dict.fromkeys(KEYS)
    held[b"k1"] = LiveEntry(b"word", Offset(3), 0)
    found = gather(deque([[b"INCR", key] for key in KEYS[:10]]))
    assert found is not None
    place = replies_of(found)
    run = run_of(found, place)
    run.run(Overlay(held, NOW), BYTES_MAX)
    jobs = run.alone()
    assert [job.keys[0] for job in jobs] == KEYS[:10]
    assert [job.wrote for job in jobs] == [key != b"k1" for key in KEYS[:10]]
    assert not run.keys
    assert list(run.parts()) == [run, *jobs]
    run.fail(DuramenError("nobody is left to hear it"))
    run.answer(0)
    for job in reversed(jobs):
        assert place.reply is None
        job.receiver.finish(job.keys[0])
    assert place.reply == b"".join(encode(key, 2) for key in KEYS[:10])
    jobs[0].receiver.finish(b"late")
    assert place.reply == b"".join(encode(key, 2) for key in KEYS[:10])


@pytest.mark.parametrize(
    ("words", "there", "wrote"),
    [
        ([b"INCR"], False, [True, True, True, True]),
        ([b"DEL"], True, [True, True, False, False]),
        ([b"DEL"], False, [False, False, False, False]),
        ([b"SETNX", b"v"], False, [True, True, False, False]),
        ([b"EXPIRE", b"100"], True, [True, True, True, True]),
    ],
)
def test_commands_on_one_key_that_are_taken_out(words: Words, there: bool, wrote: list[bool]) -> None:
    """A command that changed nothing has not written, although an earlier one on its key has."""
    held: dict[bytes, LiveEntry | None] = dict.fromkeys(KEYS, LiveEntry(b"5", Offset(7), 0) if there else None)
    keys = [b"k1", b"k2", b"k1", b"k2"] * 2
    found = gather(deque([[words[0], key, *words[1:]] for key in keys]))
    assert found is not None
    assert found.commands.each is not None
    run = run_of(found, replies_of(found))
    run.run(Overlay(held, NOW), BYTES_MAX)
    assert [job.wrote for job in run.alone()] == [*wrote, *wrote[2:], *wrote[2:]]


def test_a_run_ends_at_the_limit_of_bytes() -> None:
    """Long replies: the rest of the commands waits for the next round."""
    held: dict[bytes, LiveEntry | None] = {b"k": LiveEntry(b"x" * 1000, Offset(3), 0)}
    commands = [[b"GETSET", b"k", b"y" * 1000], *[[b"GET", b"k"], [b"APPEND", b"k", b"z"]] * 20]
    found = gather(deque(commands))
    assert found is not None
    place = replies_of(found)
    run = run_of(found, place)
    overlay = Overlay(held, NOW)
    size = run.run(overlay, 5000)
    assert 4000 < size + overlay.bytes < 7000
    (rest,) = run.taken_out
    assert isinstance(rest, CommandRun), "it remains a run"
    assert len(run.keys) + len(rest.keys) == 41
    assert list(run.parts()) == [run, rest]
    run.answer(0)
    assert place.reply is None
    run.fail(DuramenError("what is answered stays"))
    rest.run(overlay, BYTES_MAX)
    rest.answer(0)
    expected, state = one_by_one(
        [[b"GETSET", b"k", b"y" * 1000], *[[b"GET", b"k"], [b"APPEND", b"k", b"z"]] * 20], held
    )
    assert place.reply == expected
    assert state_of(overlay) == state


def test_the_rest_of_a_run_asks_for_keys_that_the_first_part_has_set() -> None:
    """They were written in another round: what they hold then is not known to this one."""
    commands = [[b"SET", b"a", b"1"], [b"GET", b"a"], *[[b"GET", b"a"], [b"SET", b"b", b"1"], [b"GET", b"b"]] * 12]
    found = gather(deque(commands))
    assert found is not None
    assert found.commands.blind == {b"a", b"b"}
    run = run_of(found, replies_of(found))
    first, rest = run.pieces(8)
    assert first is run
    assert (len(first.keys), len(rest.keys)) == (16, 22)
    assert set(first.asked) == set()
    assert set(rest.asked) == {b"a", b"b"}
    run = run_of(found, replies_of(found))
    assert [job.keys[0] for job in run.pieces(7)] == [command[1] for command in commands], "too few for a run"


def test_a_round_that_is_late_takes_the_rest_as_a_run() -> None:
    """Commands that differ, and a round whose time is over behind each of them."""
    held: dict[bytes, LiveEntry | None] = dict.fromkeys(KEYS)
    commands = [[name, key] for key in KEYS for name in (b"INCR", b"DEL")]
    found = gather(deque(commands))
    assert found is not None
    place = replies_of(found)
    works: list[Work] = [run_of(found, place)]
    rounds = 0
    while works:
        overlay = Overlay(held, NOW, late=lambda: True)
        work = works.pop(0)
        work.run(overlay, BYTES_MAX)
        works += work.parts()[1:]
        work.answer(0)
        held.update({key: overlay.get(key) for key in overlay.keys})
        rounds += 1
        assert len(works) <= 1
    assert rounds == len(commands)
    assert place.reply == one_by_one(commands, dict.fromkeys(KEYS))[0]


def test_an_error_is_everybodys() -> None:
    found = gather(deque([[b"INCR", key] for key in KEYS]))
    assert found is not None
    place = replies_of(found)
    run_of(found, place).fail(DuramenError("full."))
    assert place.reply == b"full." * len(KEYS)


def test_writes_of_a_run_without_conditions_stand_alone() -> None:
    """Nothing can reject them, so each is a group of its own, as if it had been sent by itself."""
    found = gather(deque([[b"SET", key, b"v"] for key in KEYS]))
    assert found is not None
    run = run_of(found, replies_of(found))
    (group,) = groups_of([run])
    assert group.jobs == [run]
    overlay = Overlay({}, NOW)
    run.run(overlay, BYTES_MAX)
    records = records_of(overlay, run.starts(0, len(overlay.keys)))
    assert set(records.attributes or ()) == {1}


@pytest.mark.parametrize(
    ("version", "expires_at_ms", "columns"),
    [
        (None, 0, (None, None)),
        (0, 0, ([0, 0], None)),
        (7, 0, ([7, 7], None)),
        (0, NOW + 5, ([0, 0], [NOW + 5, 0])),
    ],
)
def test_columns_that_no_record_needs_are_left_out(
    version: int | None, expires_at_ms: int, columns: tuple[list[int] | None, list[int] | None]
) -> None:
    """A version of 0 is one: it is the first offset of a log."""
    there = None if version is None else LiveEntry(b"5", Offset(version), expires_at_ms)
    overlay = Overlay({b"a": there, b"b": there}, NOW)
    for key in (b"a", b"b"):
        assert overlay.get(key) == there
    overlay.put(b"a", b"6", expires_at_ms)
    overlay.remove(b"b")
    records = records_of(overlay, [0])
    assert (records.versions, records.expiries) == columns
    check_batch(encode_batch(records))
