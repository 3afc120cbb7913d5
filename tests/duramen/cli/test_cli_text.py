"""Bytes as text and back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duramen.cli.terminal.text import bytes_of, counted, json_text, shown_key, shown_value
from log_tier.model.errors import InvalidRequest

pytestmark = pytest.mark.embedded_log_only


@given(st.binary())
def test_whatever_is_shown_can_be_typed(data: bytes) -> None:
    for shown in (json_text(data), shown_key(data), shown_value(data)):
        assert bytes_of(shown) == data


@given(st.binary())
def test_nothing_shown_to_people_moves_their_cursor(data: bytes) -> None:
    assert shown_key(data).isprintable()
    assert "\x1b" not in shown_value(data)


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"UA1545", "UA1545"),
        ("café".encode(), "café"),
        (b"\xff", "base64:/w=="),
        (b"\x1b[2J", "base64:G1sySg=="),
        (b"base64:x", "base64:YmFzZTY0Ong="),
        (b"", ""),
    ],
)
def test_examples(data: bytes, text: str) -> None:
    assert shown_key(data) == text
    assert bytes_of(text) == data


def test_values_may_have_lines() -> None:
    assert shown_value(b"a\n\tb") == "a\n\tb"
    assert shown_key(b"a\n\tb") == "base64:YQoJYg=="


def test_bad_base64_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="is no base64"):
        bytes_of("base64:???")


@pytest.mark.parametrize(("count", "text"), [(0, "0 rows"), (1, "1 row"), (2, "2 rows"), (1200, "1,200 rows")])
def test_a_count_has_its_noun_in_the_right_number(count: int, text: str) -> None:
    assert counted(count, "row") == text
