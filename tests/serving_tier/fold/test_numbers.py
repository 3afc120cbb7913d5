from __future__ import annotations

import doctest
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from log_tier.model.record import Operation
from serving_tier.fold import numbers
from serving_tier.fold.numbers import INTEGER_MAX, INTEGER_MIN, NUMBER_BYTES_MAX, combine, format_number, parse_number

ADD, MULTIPLY, MIN, MAX = Operation.ADD, Operation.MULTIPLY, Operation.MIN, Operation.MAX


def test_the_examples_in_the_text() -> None:
    result = doctest.testmod(numbers)
    assert (result.failed, result.attempted) == (0, 3)


@pytest.mark.parametrize(
    ("text", "number"),
    [
        (b"0", 0),
        (b"-0", 0),
        (b"007", 7),
        (b"-9223372036854775808", INTEGER_MIN),
        (b"9223372036854775807", INTEGER_MAX),
        (b"1.", 1.0),
        (b".5", 0.5),
        (b"-1.5e-3", -0.0015),
        (b"1E5", 100000.0),
        (b"0" * (NUMBER_BYTES_MAX - 1) + b"1", 1),
    ],
)
def test_numbers(text: bytes, number: float) -> None:
    found = parse_number(text)
    assert found == number
    assert type(found) is type(number)


@pytest.mark.parametrize(
    "text",
    [
        *(
            b"",
            b"-",
            b"+1",
            b" 1",
            b"1 ",
            b"1\n",
            b"1_000",
            b"0x10",
            b"inf",
            b"-nan",
            b"1e",
            b".",
            b"-.",
            b"e5",
            b"1e999",
        ),
        *("١".encode(), b"\xff", b"9223372036854775808", b"-9223372036854775809", b"0" * NUMBER_BYTES_MAX + b"1"),
    ],
)
def test_no_numbers(text: bytes) -> None:
    assert parse_number(text) is None


@given(st.one_of(st.integers(INTEGER_MIN, INTEGER_MAX), st.floats(allow_nan=False, allow_infinity=False)))
def test_what_is_written_reads_back_as_the_same(number: float) -> None:
    text = format_number(number)
    back = parse_number(text)
    assert len(text) <= 24
    assert type(back) is type(number)
    assert back == number
    assert back is not None
    assert math.copysign(1, back) == math.copysign(1, number)


@pytest.mark.parametrize(
    ("operation", "current", "operand", "result"),
    [
        (ADD, None, 5, 5),
        (ADD, 40, 2, 42),
        (ADD, 1, 0.5, 1.5),
        (ADD, INTEGER_MAX, 1, None),
        (ADD, INTEGER_MIN, -1, None),
        (ADD, INTEGER_MAX, 1.0, 2.0**63),
        (MULTIPLY, None, 5, 0),
        (MULTIPLY, -3, 4, -12),
        (MULTIPLY, 1 << 62, 2, None),
        (MULTIPLY, 1e200, 1e200, None),
        (MIN, None, 5, 5),
        (MIN, 3, 3.0, 3),
        (MIN, 3, 2.5, 2.5),
        (MIN, INTEGER_MAX, 1e300, INTEGER_MAX),
        (MAX, None, -5, -5),
        (MAX, 3, 3.0, 3),
        (MAX, 2, 2.5, 2.5),
    ],
)
def test_combining(operation: Operation, current: float | None, operand: float, result: float | None) -> None:
    found = combine(operation, current, operand)
    assert found == result
    assert type(found) is type(result)
