"""The ring, against a list: what it keeps, what it leaves out, and that it is bounded."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from log_tier.slow_calls.slow_call import NO_SUBJECT, SlowCall
from log_tier.slow_calls.slow_ring import NOTED_MAX_PER_S, SlowRing


def call(number: int) -> SlowCall:
    return SlowCall(number, 0, 1.0, "KV/Put", "grpc", "done", NO_SUBJECT, None, "", "")


@given(
    st.integers(1, 5),
    st.lists(st.one_of(st.just("call"), st.just("clear"), st.floats(0.0, 2.0)), max_size=200),
)
def test_as_a_list_of_the_newest(kept_max: int, steps: list[str | float]) -> None:
    ring, kept = SlowRing(kept_max=kept_max), list[int]()
    now_s, seen = 0.0, 0
    for step in steps:
        if isinstance(step, float):
            now_s += step
        elif step == "clear":
            ring.clear()
            kept.clear()
        else:
            seen += 1
            if ring.admits(now_s):
                ring.add(call(ring.next_number))
                kept = [*kept, ring.next_number][-kept_max:]
        assert [each.number for each in ring.newest()] == kept[::-1]
        assert [each.number for each in ring.newest(2)] == kept[::-1][:2]
        assert (ring.total, len(ring)) == (seen, len(kept))


def test_a_storm_is_counted_and_not_looked_at() -> None:
    ring = SlowRing()
    admitted = 0
    for number in range(10_000):
        if ring.admits(5.0 + number / 1e6):
            admitted += 1
            ring.add(call(ring.next_number))
    assert (admitted, len(ring), ring.total) == (NOTED_MAX_PER_S, ring.kept_max, 10_000)
    assert ring.left_out == 10_000 - NOTED_MAX_PER_S
    assert ring.admits(6.1), "the next second has room again"
    ring.add(call(ring.next_number))
    assert [each.number for each in ring.newest(1)] == [NOTED_MAX_PER_S]
