from __future__ import annotations

from collections.abc import Iterator

from hypothesis import given
from hypothesis import strategies as st

from log_tier.model.identifiers import NOTHING, Offset
from serving_tier.fold.producers import ProducerOverlay, ProducerState


class HeldProducers(dict[int, ProducerState]):
    """Producers in the order of their last batches."""

    def producer(self, producer_id: int) -> ProducerState | None:
        return self.get(producer_id)

    def producer_count(self) -> int:
        return len(self)

    def producers_by_age(self) -> Iterator[int]:
        return iter(self)

    def take(self, overlay: ProducerOverlay) -> None:
        for producer_id, state in overlay.changed.items():
            self.pop(producer_id, None)
            if state is not None:
                self[producer_id] = state


def test_what_a_state_knows() -> None:
    state = ProducerState(base_sequence=10, base_offset=Offset(500), span=3)
    assert state.last_sequence == 12
    assert [state.original_of(sequence) for sequence in (9, 10, 12)] == [NOTHING, 500, 502]


@given(
    chunks=st.lists(st.lists(st.integers(1, 9), max_size=12), max_size=8),
    producers_max=st.integers(1, 6),
)
def test_what_is_kept_are_the_producers_of_the_newest_batches(chunks: list[list[int]], producers_max: int) -> None:
    held, newest, offset = HeldProducers(), dict[int, int](), 0
    for chunk in chunks:
        overlay = ProducerOverlay(held, producers_max=producers_max)
        for producer_id in chunk:
            overlay.set(producer_id, ProducerState(0, Offset(offset), 1), before=overlay.get(producer_id))
            newest.pop(producer_id, None)
            newest[producer_id] = offset
            offset += 1
            kept = dict(list(newest.items())[-producers_max:])
            assert {each: state.base_offset for each in range(10) if (state := overlay.get(each))} == kept
        held.take(overlay)
        assert [(each, state.base_offset) for each, state in held.items()] == list(newest.items())[-producers_max:]
