"""Tokens merge like maxima, and their text is believed whole or not at all."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from log_tier.model.errors import InvalidToken
from log_tier.model.identifiers import Offset, Partition, TableId, table_id_from_bytes
from log_tier.model.tokens import TOKEN_TEXT_MAX, Token

TABLES = [table_id_from_bytes(bytes([n]) * 16) for n in range(4)]

tokens = st.builds(
    Token,
    st.dictionaries(
        st.sampled_from(TABLES),
        st.dictionaries(st.integers(0, 1023).map(Partition), st.integers(-1, 2**62).map(Offset), max_size=6),
        max_size=4,
    ),
    session=st.booleans(),
)


@given(tokens)
def test_text_round_trips(token: Token) -> None:
    assert Token.parse(str(token)) == token
    assert Token.parse(token) is token


def test_what_proves_a_user_is_not_shown_where_it_was_given_for_a_token() -> None:
    secret = "dt1_87d07d6118d0_92fc1ff55ddbccb93a85024cd085aab4cfd5ab9e6be4e90b000f63ce3bfe1518_root"
    with pytest.raises(InvalidToken) as caught:
        Token.parse(secret)
    assert all(part not in caught.value.message for part in secret.split("_"))


@given(tokens, tokens, tokens)
def test_merging_is_taking_the_maximum(a: Token, b: Token, c: Token) -> None:
    assert a.merge(a) == a
    assert a.merge(b) == b.merge(a)
    assert a.merge(b).merge(c) == a.merge(b.merge(c))
    for table in TABLES:
        for partition, offset in a.tables.get(table, {}).items():
            if offset >= 0:
                assert a.merge(b).tables[table][partition] >= offset


@given(tokens, st.data())
def test_text_that_was_cut_or_changed_is_refused(token: Token, data: st.DataObject) -> None:
    text = str(token)
    cut = text[: data.draw(st.integers(0, len(text) - 1))]
    with pytest.raises(InvalidToken):
        Token.parse(cut)
    at = data.draw(st.integers(3, len(text) - 2))
    other = data.draw(st.sampled_from("ABCabc012-_").filter(lambda letter: letter != text[at]))
    with pytest.raises(InvalidToken):
        Token.parse(text[:at] + other + text[at + 1 :])


@pytest.mark.parametrize("text", ["", "d1.", "d1.AAAA", "d2.AAAA", "d1.ÄÖ", "hello", "d1." + "A" * TOKEN_TEXT_MAX])
def test_other_text_is_no_token(text: str) -> None:
    with pytest.raises(InvalidToken):
        Token.parse(text)


def test_a_token_is_text() -> None:
    with pytest.raises(InvalidToken, match="int"):
        Token.parse(7)  # type: ignore[arg-type]


def test_a_token_of_another_table_is_a_mistake_and_a_sessions_is_not() -> None:
    mine, other = TABLES[0], TABLES[1]
    token = Token.of(mine, Partition(3), Offset(7))
    assert token.offsets(mine) == {3: 7}
    with pytest.raises(InvalidToken, match="flights") as caught:
        token.offsets(other, table_name="flights")
    assert caught.value.fields == {"token_table": mine, "table": other}
    assert Token(token.tables, session=True).offsets(other) == {}
    assert Token().offsets(other) == {}


def test_one_records_token_fits_in_a_line() -> None:
    assert len(str(Token.of(TableId(TABLES[3]), Partition(1023), Offset(2**62)))) < 60
