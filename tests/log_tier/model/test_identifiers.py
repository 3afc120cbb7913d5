"""Names that can be names, and ids that survive their text form."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from log_tier.model.errors import InvalidName, InvalidRequest
from log_tier.model.identifiers import (
    NAME_LENGTH_MAX,
    TableId,
    check_adopted_name,
    check_name,
    table_id_from_bytes,
    table_id_to_bytes,
)


@pytest.mark.parametrize("name", ["a", "flights", "_x", "9", "a.b-c_d", "x" * NAME_LENGTH_MAX])
def test_names_that_can_be(name: str) -> None:
    assert check_name(name) == name


@pytest.mark.parametrize("name", ["", ".a", "-a", "a b", "ü", "a\n", "x" * (NAME_LENGTH_MAX + 1)])
def test_names_that_cannot_be_say_what_is_allowed(name: str) -> None:
    with pytest.raises(InvalidName, match="letters, digits"):
        check_name(name, what="topic")


@pytest.mark.parametrize("name", ["a", "-orders.v1_", "...", ".a", "x" * 249])
def test_what_kafka_calls_its_topics(name: str) -> None:
    assert check_adopted_name(name) == name


@pytest.mark.parametrize("name", ["", ".", "..", "a b", "a/b", "ü", "a\n", "x" * 250])
def test_what_kafka_does_not_call_its_topics(name: str) -> None:
    with pytest.raises(InvalidName, match="cannot be a topic of others"):
        check_adopted_name(name)


def test_a_name_is_text() -> None:
    with pytest.raises(InvalidName, match="bytes"):
        check_name(b"flights")  # type: ignore[arg-type]


@given(st.binary(min_size=16, max_size=16))
def test_ids_round_trip(raw: bytes) -> None:
    text = table_id_from_bytes(raw)
    assert len(text) == 22
    assert table_id_to_bytes(text) == raw


@pytest.mark.parametrize("text", ["", "short", "A" * 23, "ü" * 22, "A" * 44])
def test_text_that_is_no_id(text: str) -> None:
    with pytest.raises(InvalidRequest, match="no table id"):
        table_id_to_bytes(TableId(text))


@pytest.mark.parametrize("size", [0, 15, 17])
def test_bytes_that_are_no_id(size: int) -> None:
    with pytest.raises(InvalidRequest, match="16 bytes"):
        table_id_from_bytes(bytes(size))
