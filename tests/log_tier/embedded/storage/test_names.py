"""Disk names: what is built is parsed, and nothing else is."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from log_tier.embedded.storage import names
from log_tier.model.identifiers import Offset, table_id_from_bytes


@given(st.integers(0, 2**63), st.integers(0, 2**63))
def test_segment_names_round_trip_and_sort_as_offsets_do(a: int, b: int) -> None:
    assert names.segment_base(names.segment_name(Offset(a))) == a
    assert (names.segment_name(Offset(a)) < names.segment_name(Offset(b))) == (a < b)
    assert Path(names.segment_name(Offset(a))).stem == Path(names.index_name(Offset(a))).stem


@pytest.mark.parametrize("name", ["", "42.log", "00000000000000000042.index", "00000000000000000042.log.part", "x.log"])
def test_other_names_are_no_segments(name: str) -> None:
    assert names.segment_base(name) is None


@given(st.binary(min_size=16, max_size=16))
def test_topic_names(raw: bytes) -> None:
    topic = table_id_from_bytes(raw)
    assert names.topic_name(topic) == topic
    for folder in (names.new_topic(Path("/t"), topic), names.gone_topic(Path("/t"), topic)):
        assert names.topic_leftover(folder.name)
        assert names.topic_name(folder.name) is None
    assert not names.topic_leftover(topic) or topic.startswith(("new-", "gone-"))


@given(st.binary(min_size=16, max_size=16))
def test_what_a_crash_leaves_of_a_topic_is_known_from_the_topic(raw: bytes) -> None:
    topic = table_id_from_bytes(raw)
    left = [names.new_topic(Path("topics"), topic).name, names.gone_topic(Path("topics"), topic).name]
    assert [names.topic_leftover(each) for each in (*left, topic, "0", "")] == [True, True, False, False, False]
    assert [names.topic_name(each) for each in left] == [None, None]
