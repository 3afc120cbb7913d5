"""How many streams a server has at once, of all kinds and of one connection."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from log_tier.model.errors import Overloaded
from log_tier.rpc.messages.stream_bound import OPEN_TO_ALL_MAX, StreamBound


def test_a_server_has_so_many_and_says_what_to_do() -> None:
    bound = StreamBound(4)
    for connection in ("a", "a", "b", "c"):
        bound.enter(connection)
    with pytest.raises(
        Overloaded, match=r"4 streams are open at this server.*end some, or raise its setting"
    ) as raised:
        bound.enter("d")
    assert raised.value.fields["limit"] == 4
    bound.leave("b")
    bound.enter("d")
    assert (len(bound), bound.refused) == (4, 1)


def test_one_connection_has_half() -> None:
    bound = StreamBound(8)
    for _ in range(4):
        bound.enter("a")
    with pytest.raises(Overloaded, match=r"4 streams are open over this connection.*open another connection"):
        bound.enter("a")
    bound.enter("b")
    bound.leave("a")
    bound.enter("a")
    assert len(bound) == 5


def test_what_answers_everybody_takes_no_place_of_others() -> None:
    bound = StreamBound(2)
    for _ in range(OPEN_TO_ALL_MAX):
        bound.enter("flood", open_to_all=True)
    with pytest.raises(Overloaded, match=r"health and reflection.*ask once"):
        bound.enter("another", open_to_all=True)
    bound.enter("a")
    bound.enter("b")
    bound.leave("flood", open_to_all=True)
    bound.enter("another", open_to_all=True)
    assert len(bound) == OPEN_TO_ALL_MAX + 2


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 3)), max_size=200))
def test_what_has_ended_is_not_counted(steps: list[tuple[bool, int]]) -> None:
    bound, model = StreamBound(6), [0, 0, 0, 0]
    for begins, connection in steps:
        if begins:
            may = sum(model) < 6 and model[connection] < 3
            if may:
                bound.enter(str(connection))
                model[connection] += 1
            else:
                with pytest.raises(Overloaded):
                    bound.enter(str(connection))
        elif model[connection]:
            bound.leave(str(connection))
            model[connection] -= 1
        assert len(bound) == sum(model)
