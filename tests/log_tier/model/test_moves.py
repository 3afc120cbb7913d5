"""Which partitions have moved: each once, to each follower, whatever threads note them."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from types import FrameType
from typing import Any

import pytest

from log_tier.model.identifiers import Partition, PartitionId, TableId
from log_tier.model.moves import MoveFeed, Moves

TABLE = TableId("AAAAAAAAAAAAAAAAAAAAAA")


def part(number: int) -> PartitionId:
    return PartitionId(TABLE, Partition(number))


def test_each_follower_takes_what_moved_since_it_came() -> None:
    feed = MoveFeed()
    feed.note(part(0))
    first = feed.follow()
    feed.note(part(1))
    second = feed.follow()
    feed.note(part(1))
    feed.note(part(2))
    assert sorted(first.take()) == [part(1), part(2)]
    assert sorted(second.take()) == [part(1), part(2)]
    assert (first.take(), second.take()) == ([], [])
    feed.leave(first)
    feed.leave(first)
    feed.note(part(3))
    assert (first.take(), second.take()) == ([], [part(3)])


def test_nothing_is_lost_between_a_note_and_a_taking() -> None:
    """Four threads count and then note it; the taker of a partition sees the count that was noted."""
    counts, moves, seen = [0] * 4, Moves(), [0] * 4

    def write(number: int) -> None:
        for _ in range(20_000):
            counts[number] += 1
            moves.note(part(number))

    with ThreadPoolExecutor(4) as threads:
        writers = [threads.submit(write, number) for number in range(4)]
        while not all(writer.done() for writer in writers):
            for _, number in moves.take():
                seen[number] = counts[number]
        for writer in writers:
            writer.result()
        for _, number in moves.take():
            seen[number] = counts[number]
    assert seen == counts == [20_000] * 4


@pytest.mark.parametrize("step", range(8))
def test_two_takers_share_what_moved(step: int) -> None:
    """One takes all at some line of the other's taking: neither fails, and each move is taken once."""
    moves, other, lines = Moves(), list[PartitionId](), 0
    moves.note(part(0))
    moves.note(part(1))

    def at_each_line(frame: FrameType, event: str, _: object) -> Any:
        nonlocal lines
        if frame.f_code is Moves.take.__code__ and event == "line":
            if lines == step:
                other.extend(moves.take())
            lines += 1
        return at_each_line

    before = sys.gettrace()
    sys.settrace(at_each_line)
    try:
        mine = moves.take()
    finally:
        sys.settrace(before)
    assert sorted(mine + other) == [part(0), part(1)]


def test_followers_that_come_and_go_at_once() -> None:
    feed, rounds = MoveFeed(), 300
    both = Barrier(2)

    def come_and_go(stays: list[Moves]) -> None:
        for _ in range(rounds):
            both.wait()
            stays.append(feed.follow())
            feed.leave(feed.follow())

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    followers: list[list[Moves]] = [[], []]
    try:
        with ThreadPoolExecutor(2) as threads:
            for done in [threads.submit(come_and_go, stays) for stays in followers]:
                done.result()
    finally:
        sys.setswitchinterval(interval)
    feed.note(part(0))
    assert all(moves.take() == [part(0)] for stays in followers for moves in stays)


@pytest.mark.parametrize("step", range(8))
def test_two_that_follow_at_once_both_hear(step: int) -> None:
    """One follows, and a third one leaves, at some line of the other's following."""
    feed, lines = MoveFeed(), 0
    leaving, others = feed.follow(), list[Moves]()

    def at_each_line(frame: FrameType, event: str, _: object) -> Any:
        nonlocal lines
        if frame.f_code is MoveFeed._tell_followers.__code__ and event == "line" and not others:
            lines += 1
            if lines == step + 1:
                others.append(feed.follow())
                feed.leave(leaving)
        return at_each_line

    before = sys.gettrace()
    sys.settrace(at_each_line)
    try:
        first = feed.follow()
    finally:
        sys.settrace(before)
    feed.note(part(0))
    assert all(each.take() == [part(0)] for each in (first, *others))
    assert others == [] or leaving.take() == []
