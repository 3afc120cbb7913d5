"""Rounds of the gatherer of writes, as scripts: what leaves when, and what an answer makes of a batch.

A script is blocks between blank lines: steps a line, `---`, and what came of each. Record again with DURAMEN_RECORD=1.

    rules split_calls=4         what follows is a new gatherer's
    at 1.5                      the clock, in seconds
    call 0 10                   a call of 10 bytes joins the batch of partition 0; `x3`: three calls
    leave                       the requests that leave, or when they do
    answer 0 lost               what the log answers to partition 0's batch; see `ANSWERS`
    back 3                      the request is back, with three calls
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kit.golden import check_script, play_blocks

from log_tier.model.errors import (
    DeadlineExceeded,
    Disconnected,
    DiskFull,
    DuramenError,
    Overloaded,
    ShuttingDown,
    WriteUnknown,
)
from log_tier.model.identifiers import Offset, Partition, PartitionId, TableId
from router.data.gather.batch_progress import BatchProgress, Fate
from router.data.gather.rounds import BatchRounds, Rules
from router.data.requests import WriteOutcome, WriteResult

SCRIPTS = sorted((Path(__file__).parent / "golden").glob("*.txt"))
TABLE = TableId("0" * 32)
BASE = Offset(40)

ANSWERS: dict[str, WriteResult | DuramenError] = {
    "placed": WriteResult(BASE, 0),
    "pending": WriteResult(BASE, 0, pending=True),
    "judged": WriteResult(BASE, 0, [WriteOutcome(0, original=Offset(7))]),
    "in-the-log": WriteUnknown("no verdict", offset=40),
    "lost": Disconnected("the reply was lost"),
    "not-sent": Disconnected("no connection", sent=0),
    "stopping": ShuttingDown("stopping"),
    "overloaded": Overloaded("full"),
    "unknown": WriteUnknown("no reply"),
    "late": DeadlineExceeded("too late"),
    "disk-full": DiskFull("no space"),
    "unnamed": DuramenError("something"),
}


@dataclass(eq=False)
class Batch:
    """As much of one as the rounds know."""

    place: PartitionId
    number: int
    content_bytes: int = 0
    records: int = 0
    calls: int = 0
    data: bytes = b""
    progress: BatchProgress = field(default_factory=BatchProgress)


class Gatherer:
    """The rounds, with a clock and numbers for batches."""

    def __init__(self, rules: Rules) -> None:
        self.made: list[Batch] = []
        self.now_s = 0.0
        self.began_s = 0.0
        self.looks: list[Callable[[], None]] = []
        """What the rounds want to be called in the loop's next round."""
        self.rounds: BatchRounds[None, Batch] = BatchRounds(
            rules,
            self._new,
            clock_s=lambda: self.now_s,
            later=self.looks.append,
            send=self._send,
            start=lambda work: work.close(),
        )
        self.requests: list[list[Batch]] = []
        """What has left by a look."""

    def _new(self, place: PartitionId, _: None) -> Batch:
        self.made.append(Batch(place, len(self.made)))
        return self.made[-1]

    def _send(self, batches: list[Batch]) -> Coroutine[Any, Any, None]:
        self.requests.append(batches)

        async def nothing() -> None:
            """Nobody sends it."""

        return nothing()

    def look(self) -> None:
        """The loop's next round."""
        looks, self.looks[:] = list(self.looks), []
        for look in looks:
            look()

    def call(self, partition: int, size: int) -> Batch:
        return self.rounds.batch_for(PartitionId(TABLE, Partition(partition)), None, size, 1)

    def leave(self) -> list[list[Batch]]:
        requests = self.rounds.leave()
        for batch in (batch for request in requests for batch in request):
            batch.data, batch.progress.under_way = b"sealed", True
        self.began_s = self.now_s
        return requests


def do(gatherer: Gatherer, line: str) -> str:
    rounds = gatherer.rounds
    verb, *words = line.split()
    if verb == "at":
        gatherer.now_s = float(words[0])
        return f"{gatherer.now_s:g} s"
    if verb == "call":
        for _ in range(int(words[2][1:]) if len(words) > 2 else 1):
            batch = gatherer.call(int(words[0]), int(words[1]))
        return f"batch {batch.number}: {batch.calls} calls, {batch.content_bytes} bytes"
    if verb == "leave":
        if gatherer.now_s < rounds.leaves_at():
            return f"at {rounds.leaves_at():g} s"
        requests = gatherer.leave()
        return "; ".join(" + ".join(f"batch {batch.number}" for batch in batches) for batches in requests) or "nothing"
    if verb == "answer":
        batch = rounds.under_way[PartitionId(TABLE, Partition(int(words[0])))]
        fate = batch.progress.answered(ANSWERS[words[1]], asked="asked" in words or batch.progress.repeated)
        if fate is not Fate.AGAIN:
            rounds.settle(batch)
        reason = ""
        if fate is Fate.REFUSED:
            reason = f", {type(batch.progress.final(batch.progress.reason or DuramenError('none'))).__name__}"
        marks = [name for name in ("repeated", "unknown") if getattr(batch.progress, name)]
        return f"batch {batch.number} {fate.value}{reason}" + (f" ({', '.join(marks)})" if marks else "")
    assert verb == "back", f"{line!r} is no step"
    rounds.landed(int(words[0]), gatherer.began_s, gatherer.now_s)
    return f"{rounds.in_flight} under way"


def test_calls_of_one_round_of_the_loop_leave_at_one_look() -> None:
    gatherer = Gatherer(Rules(gather_share=0.5))
    gatherer.call(0, 1)
    gatherer.call(0, 1)
    gatherer.call(1, 1)
    assert len(gatherer.looks) == 1
    gatherer.look()
    assert [[batch.calls for batch in request] for request in gatherer.requests] == [[2, 1]]
    assert not gatherer.looks


def test_a_look_that_is_early_is_repeated() -> None:
    gatherer = Gatherer(Rules(gather_share=0.5, gather_max_s=1.0))
    gatherer.call(0, 1)
    gatherer.look()
    gatherer.now_s = 1.0
    gatherer.rounds.settle(gatherer.requests[0][0])
    gatherer.rounds.landed(2, 0.0, 1.0)
    gatherer.call(0, 1)
    for _ in range(3):
        gatherer.look()
        assert len(gatherer.requests) == 1
    gatherer.now_s = 1.5
    gatherer.look()
    assert len(gatherer.requests) == 2
    assert not gatherer.looks


def test_what_goes_first_counts_against_the_bound() -> None:
    """A batch that is sent again is as large as it was: what waits in all stays below the bound, and may meet it."""
    gatherer = Gatherer(Rules(pending_bytes_max=30))
    gatherer.call(0, 20)
    place = PartitionId(TABLE, Partition(1))
    with pytest.raises(Overloaded):
        gatherer.rounds.put_first(Batch(place, 7, content_bytes=11, records=1, calls=1, data=b"x"))
    assert gatherer.rounds.pending_bytes == 20
    gatherer.rounds.put_first(Batch(place, 8, content_bytes=10, records=1, calls=1, data=b"x"))
    assert gatherer.rounds.pending_bytes == 30


def test_what_goes_first_is_looked_at() -> None:
    gatherer = Gatherer(Rules())
    gatherer.rounds.put_first(Batch(PartitionId(TABLE, Partition(0)), 0, 1, 1, 1, b"sealed"))
    gatherer.look()
    assert [len(request) for request in gatherer.requests] == [1]


def rules_of(line: str) -> Rules:
    given: dict[str, Any] = {}
    for word in line.split()[1:]:
        name, _, value = word.partition("=")
        given[name] = float(value) if "." in value else int(value)
    return Rules(**given)


def play(text: str) -> str:
    gatherer = Gatherer(Rules())

    def step(line: str) -> str:
        nonlocal gatherer
        if line.startswith("rules"):
            gatherer = Gatherer(rules_of(line))
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


# --- a model: every call leaves once, in its partition's order

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("call"), st.integers(0, 3), st.integers(0, 12)),
        st.tuples(st.just("leave"), st.just(0), st.just(0)),
        st.tuples(st.just("answer"), st.integers(0, 7), st.sampled_from([0, 1])),
        st.tuples(st.just("close"), st.just(0), st.just(0)),
    ),
    max_size=120,
)


@given(STEPS, st.integers(0, 4), st.sampled_from([0.0, 0.5]))
def test_every_call_leaves_once_and_in_order(
    steps: list[tuple[str, int, int]], split_calls: int, gather_share: float
) -> None:
    rules = Rules(
        split_calls=split_calls,
        gather_share=gather_share,
        batch_content_max=20,
        request_content_max=30,
        pending_bytes_max=200,
    )
    gatherer = Gatherer(rules)
    rounds = gatherer.rounds
    joined: dict[int, list[int]] = {partition: [] for partition in range(4)}
    left: dict[int, list[int]] = {partition: [] for partition in range(4)}
    flying: list[list[Batch]] = []
    for kind, first, second in steps:
        gatherer.now_s += 0.001
        if kind == "call":
            try:
                batch = gatherer.call(first, second)
            except Overloaded:
                assert rounds.pending_bytes + second > rules.pending_bytes_max
                continue
            assert not batch.data, "a call joined a batch that had left"
            joined[first].append(batch.number)
        elif kind == "leave":
            requests = gatherer.leave()
            for request in requests:
                assert len({batch.place for batch in request}) == len(request), "two batches of one partition"
                assert sum(batch.content_bytes for batch in request) <= 30 or len(request) == 1
                for batch in request:
                    left[batch.place[1]] += [batch.number] * batch.calls
            flying += requests
        elif kind == "answer" and flying:
            request = flying.pop(first % len(flying))
            if second:  # answered at once
                rounds.landed(len(request), gatherer.began_s, gatherer.now_s)
                for batch in request:
                    rounds.settle(batch)
            else:
                flying.append(request)
        rounds.check()
    while rounds.waiting or flying:
        for request in flying:
            rounds.landed(len(request), gatherer.began_s, gatherer.now_s)
            for batch in request:
                rounds.settle(batch)
        flying = gatherer.leave()
        for batch in (batch for request in flying for batch in request):
            left[batch.place[1]] += [batch.number] * batch.calls
        rounds.check()
    assert left == joined
    assert rounds.pending_bytes == rounds.waiting == 0
