"""Floors let go of a large batch some keys at a time, and never of a key too early."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from log_tier.model.identifiers import NOTHING, Offset, Partition
from router.endpoints.resp.data.floors import LET_GO, Floors

ZERO = Partition(0)
KEYS = [b"%d" % number for number in range(40)]


def test_a_small_write_behind_a_large_one_lets_go_of_a_part() -> None:
    floors = Floors(1)
    many = [b"key:%d" % number for number in range(20_000)]
    floors.wrote(ZERO, many, Offset(19_999), NOTHING)
    floors.wrote(ZERO, [b"later"], Offset(20_000), NOTHING)
    sizes = []
    for offset in range(20_001, 20_010):
        floors.wrote(ZERO, [b"later"], Offset(offset), Offset(19_999))
        sizes.append(len(floors.fresh[ZERO]))
    assert sizes[0] == 20_000 - LET_GO
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[-1] == 1
    floors.wrote(ZERO, [b"last"], Offset(20_010), Offset(20_009))
    assert floors.fresh[ZERO] == {b"last": 20_010}


@given(
    st.lists(st.tuples(st.lists(st.sampled_from(KEYS), min_size=1, max_size=30, unique=True), st.integers(0, 5))),
    st.integers(0, 3),
)
@settings(max_examples=200)
def test_a_key_needs_its_last_write_until_that_is_applied(writes: list[tuple[list[bytes], int]], let_go: int) -> None:
    floors, last, applied = Floors(1, let_go=let_go), 0, 0
    newest: dict[bytes, int] = {}
    for keys, behind in writes:
        last += len(keys)
        applied = max(applied, last - len(keys) * behind)
        floors.wrote(ZERO, keys, Offset(last), Offset(applied))
        newest.update(dict.fromkeys(keys, last))
        for key, offset in newest.items():
            needed = floors.needed(ZERO, [key])
            assert needed == offset or (needed == NOTHING and offset <= applied), key
