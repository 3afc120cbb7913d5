"""Which of the newest offsets are one gatherer's own, against a model that remembers every writer."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from log_tier.model.identifiers import NOTHING, Offset
from router.data.gather.own_offsets import OwnOffsets

_STEPS = st.lists(st.tuples(st.sampled_from(["own", "own", "another's", "twice"]), st.integers(1, 3)), max_size=12)


@given(_STEPS)
def test_it_never_takes_another_writer_for_its_own(steps: list[tuple[str, int]]) -> None:
    own = OwnOffsets()
    writers: list[bool] = []
    sure_from = 0
    for whose, records in steps:
        base = Offset(len(writers))
        writers += [whose == "own"] * records
        if whose == "own":
            for after in range(-1, base):
                between = writers[after + 1 : base]
                assert own.reach(Offset(after), base) == (not between or (all(between) and after + 1 >= sure_from))
            own.wrote(base, records)
        elif whose == "twice":
            own.forget()
            sure_from = len(writers)


def test_nothing_lies_between_neighbours() -> None:
    own = OwnOffsets()
    assert own.reach(NOTHING, Offset(0))
    assert not own.reach(NOTHING, Offset(1))
    own.wrote(Offset(1), 1)
    assert own.reach(Offset(0), Offset(2))
    assert not own.reach(NOTHING, Offset(2))
    assert not own.reach(Offset(0), Offset(3)), "another's came behind it"
