from __future__ import annotations

import gc
from collections.abc import Callable, Iterator

import pytest

from duramen.server.wiring.collector import OpenedObjects

pytestmark = pytest.mark.embedded_log_only

FEW, MANY = 10, 5_000


@pytest.fixture(autouse=True)
def _nothing_frozen() -> Iterator[None]:
    """A server that another test ran in this process has frozen what it began with: that comes back at the end."""
    frozen = gc.get_freeze_count()
    gc.unfreeze()
    yield
    gc.unfreeze()
    if frozen:
        gc.freeze()
    assert gc.isenabled()


@pytest.fixture
def collections() -> Iterator[list[int]]:
    """The generations that were collected."""
    seen: list[int] = []

    def note(phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            seen.append(info["generation"])

    gc.callbacks.append(note)
    yield seen
    gc.callbacks.remove(note)


class Linked:
    """A cycle, which only the collector frees."""

    def __init__(self, freed: Callable[[], None]) -> None:
        self.itself = self
        self.freed = freed

    def __del__(self) -> None:
        self.freed()


def make(objects: OpenedObjects, count: int) -> list[list[int]]:
    with objects.making():
        return [[number] for number in range(count)]


def test_what_a_large_opening_made_is_frozen_until_it_is_closed(collections: list[int]) -> None:
    objects = OpenedObjects(frozen_min=MANY // 2)
    made = make(objects, MANY)
    assert collections == [], "nothing was looked through, while it was made and at its end"
    assert gc.get_freeze_count() >= MANY
    objects.release()
    assert gc.get_freeze_count() == 0
    objects.release()
    assert len(made) == MANY


def test_what_becomes_garbage_meanwhile_is_collected_after_the_end() -> None:
    freed: list[str] = []
    objects = OpenedObjects(frozen_min=MANY // 2)
    with objects.making():
        made = [Linked(lambda: freed.append("made by the opening"))]
        made += [Linked(lambda: None) for _ in range(MANY)]
    later = Linked(lambda: freed.append("made later"))
    del made, later
    gc.collect()
    assert freed == ["made later"]
    objects.release()
    gc.collect()
    assert freed == ["made later", "made by the opening"]


def test_a_small_opening_is_left_to_the_collector() -> None:
    """What was made shortly before it does not count: a server lets the collector look at every 20,000th object."""
    usual = gc.get_threshold()
    gc.set_threshold(4 * MANY, *usual[1:])
    try:
        before = [[number] for number in range(2 * MANY)]
        objects = OpenedObjects(frozen_min=MANY)
        make(objects, FEW)
        assert gc.get_freeze_count() == 0
        objects.release()
        assert len(before) == 2 * MANY
    finally:
        gc.set_threshold(*usual)


def test_the_last_of_several_to_be_closed_ends_it() -> None:
    first, second = OpenedObjects(frozen_min=FEW), OpenedObjects(frozen_min=FEW)
    kept = make(first, MANY), make(second, MANY)
    first.release()
    assert gc.get_freeze_count() >= MANY
    second.release()
    assert gc.get_freeze_count() == 0
    assert len(kept) == 2


def test_what_the_program_has_frozen_stays_frozen() -> None:
    gc.freeze()
    before = gc.get_freeze_count()
    objects = OpenedObjects(frozen_min=FEW)
    kept = make(objects, MANY)
    assert gc.get_freeze_count() <= before
    objects.release()
    assert 0 < gc.get_freeze_count() <= before
    assert len(kept) == MANY


def test_an_opening_that_fails_freezes_nothing() -> None:
    objects = OpenedObjects(frozen_min=FEW)
    kept: list[list[int]] = []

    def make_some() -> None:
        with objects.making():
            kept.extend([number] for number in range(MANY))
            raise OSError("full")

    with pytest.raises(OSError, match="full"):
        make_some()
    assert gc.isenabled()
    assert gc.get_freeze_count() == 0
    assert len(kept) == MANY
    objects.release()


def test_a_collector_that_was_off_stays_off() -> None:
    gc.disable()
    try:
        objects = OpenedObjects(frozen_min=FEW)
        make(objects, MANY)
        assert not gc.isenabled()
        assert gc.get_freeze_count() == 0
        objects.release()
    finally:
        gc.enable()
