"""What a query may be: see `serving_tier.text.text_query`."""

from __future__ import annotations

import time
from contextlib import suppress

import pytest
import tantivy
from hypothesis import given, settings
from hypothesis import strategies as st

from log_tier.model.errors import InvalidRequest, LimitExceeded
from serving_tier.text.text_query import QUERY_CHARS_MAX, QUERY_DEPTH_MAX, QUERY_WORDS_MAX, check_query

FIELDS = ("remark", "origin.name")


@pytest.mark.parametrize(
    "query",
    [
        "delayed",
        "delayed AND newark",
        "remark:fog OR origin.name:newark",
        '"gate change"~2',
        '"gate cha"*',
        "'gate change'",
        "+fog -snow",
        "fog^2 OR snow^1.5",
        "(fog OR (snow AND NOT rain)) wind",
        'remark:"[a TO b] /.*/ *"',
        "C++",
        "日本語 überall",
        "(" * QUERY_DEPTH_MAX + "fog" + ")" * QUERY_DEPTH_MAX,
    ],
)
def test_words_phrases_fields_and_their_joins_are_served(query: str) -> None:
    check_query(query, FIELDS)


@pytest.mark.parametrize(
    ("query", "why"),
    [
        ("", "empty"),
        (" \t", "empty"),
        ("remark:[a TO z]", "outside of quotes"),
        ("remark:{a TO z}", "outside of quotes"),
        ("remark:>a", "outside of quotes"),
        ("remark:/.*/", "outside of quotes"),
        ("*", "outside of quotes"),
        ("fog*", "outside of quotes"),
        ("remark:*", "outside of quotes"),
        ("fog~3", "outside of quotes"),
        ('"gate change"~100', "outside of quotes"),
        ('"gate change"~99999999', "outside of quotes"),
        ("fog^1000", "outside of quotes"),
        ("fog^1e30", "outside of quotes"),
        ("fo\\g", "outside of quotes"),
        ("--fog", "one sign"),
        ("0key:abc", "no field '0key'"),
        ("0point:point", "no field '0point'"),
        ("carrier:UA", "no field 'carrier'"),
        ("fog\0", "cannot be printed"),
        ("fog\ud800", "cannot be printed"),
        ("fog\nsnow", "cannot be printed"),
    ],
)
def test_what_costs_more_than_its_words_is_refused(query: str, why: str) -> None:
    with pytest.raises(InvalidRequest, match=why):
        check_query(query, FIELDS)


@pytest.mark.parametrize(
    ("query", "limit"),
    [
        ("x" * (QUERY_CHARS_MAX + 1), QUERY_CHARS_MAX),
        ("a " * (QUERY_WORDS_MAX + 1), QUERY_WORDS_MAX),
        ("(" * 60 + "fog" + ")" * 60, QUERY_DEPTH_MAX),
        ("NOT " * 100 + "fog", QUERY_WORDS_MAX),
    ],
)
def test_a_query_that_is_too_large_is_refused(query: str, limit: int) -> None:
    with pytest.raises(LimitExceeded) as refused:
        check_query(query, FIELDS)
    assert refused.value.fields["limit"] == limit


_PIECES = st.sampled_from(
    [
        "fog",
        "snow",
        "AND",
        "OR",
        "NOT",
        "IN",
        "TO",
        "(",
        ")",
        '"',
        "'",
        "+",
        "-",
        "^2",
        "~2",
        "*",
        "remark:",
        ":",
        "!",
        " ",
    ]
)


@settings(max_examples=500, deadline=None)
@given(st.lists(_PIECES, max_size=200).map(" ".join) | st.lists(_PIECES, max_size=300).map("".join))
def test_what_is_served_is_parsed_in_no_time(query: str) -> None:
    builder = tantivy.SchemaBuilder()
    builder.add_text_field("remark")
    index = tantivy.Index(builder.build())
    try:
        check_query(query, ["remark"])
    except (InvalidRequest, LimitExceeded):
        return
    began = time.thread_time()
    with suppress(ValueError):
        index.parse_query(query, ["remark"])
    assert time.thread_time() - began < 1, query


def test_chains_of_not_and_parentheses_are_parsed_in_no_time() -> None:
    builder = tantivy.SchemaBuilder()
    builder.add_text_field("remark")
    index = tantivy.Index(builder.build())
    for inner in (
        "fog",
        "NOT " * 60 + "fog",
        "-fog " * 60,
        "NOT (NOT (NOT (NOT (NOT (fog)))))",
        "(NOT (" * 4 + "a" + "))" * 4,
    ):
        began = time.thread_time()
        check_query(inner, ["remark"])
        with suppress(ValueError):
            index.parse_query(inner, ["remark"])
        assert time.thread_time() - began < 1, inner
