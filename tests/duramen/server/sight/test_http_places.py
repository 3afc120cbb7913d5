"""Places of connections: those that are idle yield them, the address with the most of them first."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from duramen.server.sight.http_places import HttpPlaces


def test_the_address_with_the_most_idle_connections_yields_its_oldest() -> None:
    ended: list[int] = []
    places = HttpPlaces[int](4, ended.append)
    for number, address in enumerate(("probe", "flood", "flood", "flood")):
        assert places.enter(number, address)
    places.rests(1)  # a request of it was answered: others have been idle for longer
    assert places.enter(4, "flood")
    assert places.enter(5, "flood")
    assert places.enter(6, "other")
    assert ended == [2, 3, 1]


def test_who_is_answered_keeps_the_place() -> None:
    ended: list[int] = []
    places = HttpPlaces[int](2, ended.append)
    assert places.enter(0, "a")
    assert places.enter(1, "a")
    places.works(0)
    places.works(1)
    assert not places.enter(2, "b")
    places.rests(1)
    assert places.enter(3, "b")
    assert (ended, len(places)) == ([1], 2)
    places.rests(1)  # it has not heard of its end yet
    places.check()
    places.leave(0)
    assert places.enter(4, "b")
    assert ended == [1]


@given(
    st.lists(st.tuples(st.sampled_from(("enter", "works", "rests", "leave")), st.integers(0, 9), st.sampled_from("ab")))
)
def test_against_a_model(steps: list[tuple[str, int, str]]) -> None:
    idle: list[tuple[int, str]] = []
    busy: set[int] = set()
    ended: list[int] = []
    places = HttpPlaces[int](3, ended.append)
    for step, number, address in steps:
        mine = next((each for each in idle if each[0] == number), None)
        has_place = mine is not None or number in busy
        if step == "enter" and not has_place:
            ended.clear()
            full = len(idle) + len(busy) == 3
            assert places.enter(number, address) == (not full or bool(idle))
            if full and idle:
                most = max(sum(each[1] == name for each in idle) for _, name in idle)
                (gone,) = ended
                first = next(each for each in idle if each[0] == gone)
                assert sum(each[1] == first[1] for each in idle) == most
                assert first == next(each for each in idle if each[1] == first[1])
                idle.remove(first)
            if not full or ended:
                idle.append((number, address))
        elif step == "works":
            places.works(number)
            if mine is not None:
                idle.remove(mine)
                busy.add(number)
        elif step == "leave":
            places.leave(number)
            busy.discard(number)
            if mine is not None:
                idle.remove(mine)
        elif step == "rests" and mine is not None:
            places.rests(number)
            idle.remove(mine)
            idle.append(mine)
        assert len(places) == len(idle) + len(busy)
        places.check()
