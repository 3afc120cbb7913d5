"""Rounds of the gatherer of reads, as scripts: what leaves when, and what an answer makes of a group.

A script is blocks between blank lines: steps a line, `---`, and what came of each. Record again with DURAMEN_RECORD=1.

    rules request_keys_max=4    what follows is a new gatherer's
    call 0 keys=10 after=40     a call of 10 keys joins a group of partition 0; `x3`: three calls
    alone keys=10               a call travels by itself; `ended keys=10`: it has ended
    leave                       the groups of the next request
    back                        a request is back
    answer behind patient       what becomes of a group that got this error; see `ERRORS`
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kit.golden import check_script, play_blocks

from log_tier.model.errors import (
    DatabaseClosed,
    DeadlineExceeded,
    Disconnected,
    DuramenError,
    LimitExceeded,
    NotHosted,
    Overloaded,
    ReplicaBehind,
    TableNotFound,
    TokenAhead,
)
from log_tier.model.identifiers import Offset, Partition, PartitionId, TableId
from router.data.gather.read_rounds import ReadRounds, ReadRules, ReadTerms, next_step

SCRIPTS = sorted((Path(__file__).parent / "golden" / "reads").glob("*.txt"))
TABLE = TableId("0" * 32)

ERRORS: dict[str, DuramenError] = {
    "behind": ReplicaBehind("a replica is behind"),
    "too-large": LimitExceeded("the reply is too large"),
    "disconnected": Disconnected("no connection"),
    "not-hosted": NotHosted("another node"),
    "overloaded": Overloaded("full"),
    "late": DeadlineExceeded("too late"),
    "ahead": TokenAhead("the log ends before"),
    "gone": TableNotFound("dropped"),
}


@dataclass(eq=False)
class Group:
    """As much of one as the rounds know."""

    number: int
    count: int = 0


class ReadGatherer:
    """The rounds, with numbers for groups."""

    def __init__(self, rules: ReadRules) -> None:
        self.made = 0
        self.rounds: ReadRounds[None, Group] = ReadRounds(rules, self._new)

    def _new(self, _wanted: ReadTerms, _table: None) -> Group:
        self.made += 1
        return Group(self.made - 1)

    def call(self, partition: int, keys: int = 1, after: int | None = None, lag: int = 0) -> Group:
        place = PartitionId(TABLE, Partition(partition))
        wanted = (place, None if after is None else Offset(after), lag, True)
        return self.rounds.group_for(wanted, None, keys)


def do(gatherer: ReadGatherer, line: str) -> str:
    rounds = gatherer.rounds
    verb, *words = line.split()
    given = {name: int(number) for name, _, number in (word.partition("=") for word in words) if number}
    if verb == "call":
        times = next((int(word[1:]) for word in words if word[0] == "x"), 1)
        for _ in range(times):
            group = gatherer.call(int(words[0]), **given)
        return f"group {group.number}: {group.count} keys"
    if verb == "alone":
        rounds.leave_alone(given["keys"])
        return f"{rounds.pending_keys} keys pending"
    if verb == "ended":
        rounds.ended(given["keys"])
        return f"{rounds.pending_keys} keys pending"
    if verb == "leave":
        return " + ".join(f"group {group.number} ({group.count})" for group in rounds.leave()) or "nothing"
    if verb == "back":
        return "the next may leave" if rounds.landed() else "nothing may leave"
    if verb == "close":
        left = rounds.close(DatabaseClosed("the database was closed"))
        return f"given up: {', '.join(f'group {group.number}' for group in left) or 'nothing'}"
    assert verb == "answer", f"{line!r} is no step"
    return next_step(
        ERRORS[words[0]], patient="patient" in words, alone="alone" in words, keys=given.get("keys", 1)
    ).value


def play(text: str) -> str:
    gatherer = ReadGatherer(ReadRules())

    def step(line: str) -> str:
        nonlocal gatherer
        if line.startswith("rules"):
            words = (word.split("=") for word in line.split()[1:])
            gatherer = ReadGatherer(ReadRules(**{name: int(number) for name, number in words}))
            return "a new gatherer"
        try:
            return do(gatherer, line)
        finally:
            gatherer.rounds.check()

    return play_blocks(text, step)


def test_there_are_scripts() -> None:
    assert len(SCRIPTS) >= 3


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_script(script: Path) -> None:
    check_script(script, play(script.read_text(encoding="utf-8")))


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("call"), st.integers(0, 3), st.integers(1, 12)),
        st.tuples(st.just("leave"), st.just(0), st.just(0)),
        st.tuples(st.just("back"), st.just(0), st.just(0)),
    ),
    max_size=120,
)


def test_a_lone_read_beyond_the_bound_is_refused() -> None:
    rounds = ReadGatherer(ReadRules(pending_keys_max=10)).rounds
    rounds.leave_alone(6)
    with pytest.raises(Overloaded):
        rounds.leave_alone(5)
    assert rounds.pending_keys == 6
    rounds.leave_alone(4)
    rounds.close(DatabaseClosed("the database was closed"))
    with pytest.raises(DatabaseClosed):
        rounds.leave_alone(0)


def test_each_request_takes_one_place_until_it_is_back() -> None:
    gatherer = ReadGatherer(ReadRules(in_flight_max=2))
    for partition in range(3):
        gatherer.call(partition)
        assert bool(gatherer.rounds.leave()) == (partition < 2)
    assert gatherer.rounds.landed(), "the third one waits"
    assert len(gatherer.rounds.leave()) == 1


@given(STEPS)
def test_every_key_leaves_once_and_groups_leave_in_order(steps: list[tuple[str, int, int]]) -> None:
    gatherer = ReadGatherer(ReadRules(request_keys_max=20, pending_keys_max=200))
    rounds = gatherer.rounds
    joined, left, numbers = 0, 0, list[int]()

    def leave() -> None:
        nonlocal left
        groups = rounds.leave()
        left += sum(group.count for group in groups)
        numbers.extend(group.number for group in groups)

    for kind, partition, keys in steps:
        if kind == "call":
            if rounds.pending_keys + keys <= 200:
                gatherer.call(partition, keys)
                joined += keys
        elif kind == "leave":
            leave()
        elif rounds.in_flight:
            rounds.landed()
        rounds.check()
        assert joined == left + rounds.pending_keys
    while rounds.pending_keys:
        if rounds.in_flight == 2:
            rounds.landed()
        leave()
    assert left == joined
    assert numbers == list(range(gatherer.made))
