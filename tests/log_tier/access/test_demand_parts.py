"""What the rows of the audit say that the keys of a call have in common."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from log_tier.access.demand_parts import common_prefix_text
from log_tier.trust.grants import parse_key_prefix

KEYS = st.lists(st.text("ab", max_size=6).map(str.encode) | st.binary(max_size=4), min_size=1, max_size=8)


@given(KEYS)
def test_it_is_the_longest_beginning_of_all_keys(keys: list[bytes]) -> None:
    beginnings = (keys[0][:size] for size in range(len(keys[0]), -1, -1))
    longest = next(each for each in beginnings if all(key.startswith(each) for key in keys))
    assert parse_key_prefix(common_prefix_text(keys)) == longest


@pytest.mark.parametrize(
    ("keys", "text"),
    [
        ((), ""),
        ((b"eu:1",), "eu:1"),
        ((b"eu:22", b"eu:1", b"eu:2"), "eu:"),
        ((b"eu:", b"us:"), ""),
        ((b"\xff\x01", b"\xff\x02"), "base64:/w=="),
    ],
    ids=["none", "one", "some", "nothing in common", "no text"],
)
def test_as_it_is_shown(keys: tuple[bytes, ...], text: str) -> None:
    assert common_prefix_text(keys) == text
