"""API tokens: what their text says, and that no part of it can be exchanged."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from log_tier.access.tokens import mint_token, read_token


def test_what_was_minted_is_read() -> None:
    token = mint_token("alice.of-the_desk")
    read = read_token(token.text)
    assert read is not None, "a minted token has the form of one"
    assert (read.user, read.id, read.sha256) == ("alice.of-the_desk", token.id, token.sha256)
    assert token.sha256 == hashlib.sha256(token.text.encode()).hexdigest()
    assert mint_token("alice").text != mint_token("alice").text, "each is random"


@given(st.text(max_size=120))
def test_other_texts_are_none(text: str) -> None:
    if not text.startswith("dt1_"):
        assert read_token(text) is None


@pytest.mark.parametrize("place", [0, 4, 17, 30, -1])
def test_a_text_that_was_changed_is_another_token(place: int) -> None:
    token = mint_token("alice")
    changed = list(token.text)
    changed[place] = "0" if changed[place] != "0" else "1"
    read = read_token("".join(changed))
    assert read is None or (read.sha256 != token.sha256)


def test_the_token_of_one_user_is_none_of_another_one() -> None:
    token = mint_token("alice")
    read = read_token(token.text.removesuffix("alice") + "root")
    assert read is not None, "it has the form of a token"
    assert read.sha256 != token.sha256
