"""Markers: found however the stream is cut, and nothing else is taken for one."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import example, given
from hypothesis import strategies as st

from router.endpoints.resp.wire.fence import ConnectionState, Fences, encode_state, first_question, new_secret

SECRET = b"0123456789abcdef" * 2

numbers = st.integers(0, 10**10 - 1)
states = st.builds(ConnectionState, st.booleans(), st.sampled_from([2, 3]), numbers, numbers)
# Replies, and what looks like the beginning of a marker.
pieces = st.one_of(
    st.binary(max_size=40),
    st.sampled_from([b"+OK\r\n", b"+", b"+0", b"+0123456789abcdef", b"+" + SECRET[:-1], b"++" + SECRET[:5]]),
)


@given(st.lists(st.tuples(pieces, states), max_size=6), pieces, st.lists(st.integers(0, 400), max_size=12))
@example([(b"+" + SECRET[:-1], ConnectionState(True, 3, 7))], b"+", [1, 2, 3, 33, 34])
def test_whatever_the_cuts(parts: list[tuple[bytes, ConnectionState]], last: bytes, cuts: list[int]) -> None:
    stream = b"".join(piece + encode_state(SECRET, state) for piece, state in parts) + last
    fences = Fences(SECRET)
    places = sorted({0, len(stream), *(min(cut, len(stream)) for cut in cuts)})
    rest, found = b"", []
    for begin, end in pairwise(places):
        data, states = fences.take(stream[begin:end])
        rest += data
        found += states
    rest += fences.take(b"\r\n")[0]
    assert found == [state for _, state in parts]
    assert rest == b"".join(piece for piece, _ in parts) + last + b"\r\n"


def test_a_secret_is_new_each_time() -> None:
    assert len({new_secret() for _ in range(100)}) == 100
    assert {len(new_secret()) for _ in range(100)} == {32}


def test_what_an_upstream_connection_begins_with() -> None:
    assert first_question(b"s" * 32, "127.0.0.1:5") == (
        b"*3\r\n$13\r\nDURAMEN.STATE\r\n$32\r\n" + b"s" * 32 + b"\r\n$11\r\n127.0.0.1:5\r\n"
    )
