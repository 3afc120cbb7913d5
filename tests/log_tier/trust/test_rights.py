"""Rights against a model: every grant looked at, one after the other."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from log_tier.model.errors import DuramenError
from log_tier.model.identifiers import Offset
from log_tier.trust.grants import Grant, Right, cut_key_prefix, key_prefix_text, parse_key_prefix
from log_tier.trust.names import check_trust_name
from log_tier.trust.rights import NO_RIGHTS, Rights

TABLES = st.sampled_from(["a", "ab", "abc", "b", "_duramen_audit", "_duramen_b", "_other"])
PATTERNS = st.sampled_from(["*", "a", "a*", "ab", "ab*", "abc*", "b", "_duramen_audit", "_duramen*", "_d*", "_*"])
KEYS = st.binary(max_size=3).map(lambda key: bytes(b"\x00a\xfe\xff"[byte % 4] for byte in key))


@st.composite
def grants(draw: st.DrawFn) -> Grant:
    table, key = draw(PATTERNS), draw(KEYS)
    if table.startswith("_duramen"):
        return Grant(frozenset({Right.READ}), table, key)
    allowed = [Right.READ, Right.WRITE] if key else list(Right)
    return Grant(draw(st.frozensets(st.sampled_from(allowed), min_size=1)), table, key)


def covers(grant: Grant, right: Right, table: str) -> bool:
    if right not in grant.rights:
        return False
    if not grant.table.endswith("*"):
        return grant.table == table
    stem = grant.table[:-1]
    return table.startswith(stem) and (stem.startswith("_duramen") or not table.startswith("_duramen"))


def is_of_superuser(grant: Grant) -> bool:
    return Right.ADMIN in grant.rights and (grant.table, grant.key) == ("*", b"")


@given(st.lists(grants(), max_size=8), st.lists(st.tuples(st.sampled_from(list(Right)), TABLES, KEYS), max_size=20))
def test_a_key_is_covered_by_a_grant(given_grants: list[Grant], asked: list[tuple[Right, str, bytes]]) -> None:
    rights = Rights(given_grants, Offset(7))
    assert rights.version == 7
    for right, table, key in asked:
        wanted = any(covers(each, right, table) and key.startswith(each.key) for each in given_grants)
        assert rights.may(right, table, key) is wanted
        assert rights.may_prefix(right, table, key) is wanted
        has_some = any(covers(each, one, table) for each in given_grants for one in Right)
        assert rights.sees(table) is (has_some or any(map(is_of_superuser, given_grants)))


@given(st.lists(grants(), max_size=8), TABLES, KEYS, KEYS | st.none(), st.lists(KEYS, max_size=30))
def test_a_range_is_covered_by_one_grant(
    given_grants: list[Grant], table: str, start: bytes, end: bytes | None, keys: list[bytes]
) -> None:
    rights = Rights(given_grants)
    if rights.may_range(Right.READ, table, start, end):
        inside = [key for key in [start, *keys] if start <= key and (end is None or key < end)]
        assert all(rights.may(Right.READ, table, key) for key in inside)
        if end is None:
            assert rights.may(Right.READ, table, b"\xff" * 300) or any(set(each.key) == {255} for each in given_grants)
    whole = any(covers(each, Right.READ, table) and not each.key for each in given_grants)
    if whole:
        assert rights.may_range(Right.READ, table, start, end)


@given(st.lists(grants(), min_size=1, max_size=3), TABLES)
def test_the_range_of_a_granted_prefix_is_covered(given_grants: list[Grant], table: str) -> None:
    rights = Rights(given_grants)
    for grant in given_grants:
        stem = grant.key.rstrip(b"\xff")
        end = stem[:-1] + bytes([stem[-1] + 1]) if stem else None
        if covers(grant, Right.READ, table):
            assert rights.may_range(Right.READ, table, grant.key, end)


def test_ranges_that_only_several_grants_cover() -> None:
    rights = Rights([Grant.parse("read t --key a"), Grant.parse("read t --key b")])
    assert rights.may_range(Right.READ, "t", b"a", b"b")
    assert not rights.may_range(Right.READ, "t", b"a", b"b\x00")
    assert not rights.may_range(Right.READ, "t", b"a", None)


@given(st.lists(grants(), max_size=8))
def test_a_superuser_has_admin_on_all_tables(given_grants: list[Grant]) -> None:
    wanted = any(Right.ADMIN in each.rights and each.table == "*" for each in given_grants)
    assert Rights(given_grants).is_superuser is wanted


def test_nobody_may_anything() -> None:
    assert not any(NO_RIGHTS.may(right, "t", b"k") for right in Right)
    assert not NO_RIGHTS.sees("t")


def test_more_tables_than_are_remembered() -> None:
    rights = Rights([Grant.parse("read t*")])
    for number in range(5000):
        assert rights.may(Right.READ, f"t{number}", b"")
        assert not rights.may(Right.READ, f"u{number}", b"")


@given(grants())
def test_a_grant_comes_back_from_its_text(grant: Grant) -> None:
    assert Grant.parse(grant.text) == grant
    assert Grant.parse(grant.text).text == grant.text


@given(st.binary(max_size=20))
def test_a_key_prefix_comes_back_from_its_text(prefix: bytes) -> None:
    text = key_prefix_text(prefix)
    assert text.isascii()
    assert " " not in text
    assert parse_key_prefix(text) == prefix
    assert cut_key_prefix(text) == prefix
    for size in range(len(text)):
        assert prefix.startswith(cut_key_prefix(text[:size])) or text[:size] in "base64:"


def test_a_cut_text_that_is_none_has_no_bytes() -> None:
    assert cut_key_prefix("base64:????") == b""


def test_grants_as_they_are_written() -> None:
    assert Grant.parse("write,read orders* --key eu:").text == "read,write orders* --key eu:"
    assert Grant(frozenset({Right.READ}), "t", b"\xff ").text == "read t --key base64:/yA="


@pytest.mark.parametrize(
    "text",
    [
        "",
        "read",
        "read ",
        "own t",
        "read t --key",
        "read t --keys a",
        "read t*x",
        "read t --key base64:?",
        "read,read, t",
        "admin t --key a",
        "write _duramen_audit",
        "read,admin _duramen*",
        "read t --key " + "x" * 257,
        "read t  u",
        "read " + "t" * 121,
        "read -t",
        ", t",
    ],
)
def test_what_is_no_grant(text: str) -> None:
    with pytest.raises(DuramenError):
        Grant.parse(text)


@pytest.mark.parametrize("name", ["_duramen", "_duramen_server", "", "a b", "a" * 121, "a:b", "ä"])
def test_what_names_no_user(name: str) -> None:
    with pytest.raises(DuramenError):
        check_trust_name(name)
