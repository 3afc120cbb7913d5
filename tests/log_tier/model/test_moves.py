"""Which partitions have moved: each once, to each follower, whatever threads note them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

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
