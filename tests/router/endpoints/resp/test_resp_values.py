"""Replies in both protocols, and arguments as Redis reads them."""

from __future__ import annotations

import time
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kit.resp.raw_client import read_reply

from router.endpoints.resp.wire.arguments import integer, long_double, long_double_sum, shown, strict_integer
from router.endpoints.resp.wire.replies import NO_REPLY, NULL_ARRAY, Problem, Push, Simple, encode


@pytest.mark.parametrize(
    ("reply", "two", "three"),
    [
        (None, b"$-1\r\n", b"_\r\n"),
        (NULL_ARRAY, b"*-1\r\n", b"_\r\n"),
        (b"a\r\nb", b"$4\r\na\r\nb\r\n", b"$4\r\na\r\nb\r\n"),
        ("ü", b"$2\r\n\xc3\xbc\r\n", b"$2\r\n\xc3\xbc\r\n"),
        (Simple("OK"), b"+OK\r\n", b"+OK\r\n"),
        (-7, b":-7\r\n", b":-7\r\n"),
        (True, b":1\r\n", b"#t\r\n"),
        (1.5, b"$3\r\n1.5\r\n", b",1.5\r\n"),
        (Problem("ERR two\r\nlines"), b"-ERR two  lines\r\n", b"-ERR two  lines\r\n"),
        ({"a": 1}, b"*2\r\n$1\r\na\r\n:1\r\n", b"%1\r\n$1\r\na\r\n:1\r\n"),
        ([1, [b"x", None]], b"*2\r\n:1\r\n*2\r\n$1\r\nx\r\n$-1\r\n", b"*2\r\n:1\r\n*2\r\n$1\r\nx\r\n_\r\n"),
        (Push([b"message"]), b"*1\r\n$7\r\nmessage\r\n", b">1\r\n$7\r\nmessage\r\n"),
        (NO_REPLY, b"", b""),
    ],
)
def test_replies(reply: Any, two: bytes, three: bytes) -> None:
    assert encode(reply, 2) == two
    assert encode(reply, 3) == three


@given(st.recursive(st.none() | st.integers() | st.binary(), lambda inner: st.lists(inner, max_size=4), max_leaves=20))
def test_what_is_written_can_be_read(reply: Any) -> None:
    for protocol in (2, 3):
        data = encode(reply, protocol)
        assert read_reply(data) == (reply, len(data))


def test_bytes_that_are_no_text_come_back_in_errors() -> None:
    assert encode(Problem(f"ERR {shown(bytes([0xFF, 0x41, 0, 0x42]))}"), 2) == b"-ERR \xffA\r\n"


@given(st.integers(-(1 << 63), (1 << 63) - 1))
def test_integers(number: int) -> None:
    assert strict_integer(b"%d" % number) == number


@pytest.mark.parametrize(
    "text", [b"", b"+1", b"01", b"-0", b" 1", b"1 ", b"1_0", b"9223372036854775808", b"0x1", b"1.0"]
)
def test_what_is_no_integer(text: bytes) -> None:
    with pytest.raises(Problem, match="not an integer"):
        integer(text)


@given(st.integers(-(10**18), 10**18), st.integers(-(10**18), 10**18))
def test_sums_of_integers_are_exact(left: int, right: int) -> None:
    assert long_double_sum(long_double(b"%d" % left), long_double(b"%d" % right)) == b"%d" % (left + right)


def test_a_long_double_has_64_bits() -> None:
    assert long_double(b"18446744073709551615") == (1 << 64) - 1
    assert long_double(b"18446744073709551617") == 1 << 64  # half to even
    assert long_double(b"0.1") != Fraction(1, 10)
    assert abs(long_double(b"0.1") - Fraction(1, 10)) < Fraction(1, 1 << 66)


@pytest.mark.parametrize("text", [b"1" * 4000 + b"x", b"1" * 4000 + b".x", b"." + b"1" * 4000 + b"e"])
def test_a_long_word_is_no_number_in_linear_time(text: bytes) -> None:
    """A pattern that may divide digits in two ways takes 260 ms of processor time for them, and this one 0.2 ms."""
    took: list[float] = []
    for _ in range(5):
        began = time.process_time()
        with pytest.raises(Problem, match="not a valid float"):
            long_double(text)
        took.append(time.process_time() - began)
    assert min(took) < 0.05
