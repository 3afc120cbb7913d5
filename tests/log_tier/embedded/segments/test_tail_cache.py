"""The tail keeps the newest batches of all partitions under one bound, and gives no wrong ones."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from log_tier.embedded.segments.tail_cache import TailCache, TailMemory
from log_tier.model.identifiers import Offset

steps_of = st.lists(st.tuples(st.integers(0, 2), st.integers(1, 9), st.integers(1, 400)), max_size=300)


@given(steps_of, st.integers(0, 20_000), st.integers(1, 2000))
@settings(max_examples=200)
def test_what_it_gives_is_what_was_added(steps: list[tuple[int, int, int]], bound: int, size: int) -> None:
    memory = TailMemory(bound)
    tails = [TailCache(memory) for _ in range(3)]
    added: list[list[tuple[int, int, bytes]]] = [[], [], []]
    for which, span, length in steps:
        base = added[which][-1][1] if added[which] else 0
        batch = (base, base + span, bytes([len(added[which]) % 256]) * length)
        added[which].append(batch)
        tails[which].add([batch])
        assert memory.bytes <= bound
    for tail, batches in zip(tails, added, strict=True):
        end = batches[-1][1] if batches else 0
        held = [start for start in range(end) if tail.holds(Offset(start))]
        assert held == list(range(held[0], end)) if held else True, "what is held is the newest, without a gap"
        for start in range(end):
            found = tail.read(Offset(start), size)
            assert (found is not None) == tail.holds(Offset(start))
            if found is None:
                continue
            first = next(n for n, batch in enumerate(batches) if batch[1] > start)
            data, after = found
            last = next(n for n, batch in enumerate(batches) if batch[1] == after)
            assert data == b"".join(batch[2] for batch in batches[first : last + 1])
            assert len(data) - len(batches[last][2]) < size, "no more batches than asked for"
            assert len(data) >= size or last == len(batches) - 1
        assert tail.read(Offset(end), size) is None


def test_the_oldest_leaves_first_whosever_it_is() -> None:
    memory = TailMemory(1500)
    quiet, busy = TailCache(memory), TailCache(memory)
    quiet.add([(0, 1, b"q" * 100)])
    for number in range(10):
        busy.add([(number, number + 1, b"b" * 100)])
    assert quiet.read(Offset(0), 1) is None
    assert busy.read(Offset(9), 1) == (b"b" * 100, 10)
    assert not busy.holds(Offset(0))


def test_compaction_hides_what_it_replaced() -> None:
    tail = TailCache(TailMemory(10_000))
    tail.add([(n, n + 1, b"x") for n in range(10)])
    tail.hide_below(Offset(6))
    assert [tail.holds(Offset(n)) for n in range(10)] == [False] * 6 + [True] * 4
    assert tail.read(Offset(5), 1) is None
    assert tail.read(Offset(6), 100) == (b"xxxx", 10)
