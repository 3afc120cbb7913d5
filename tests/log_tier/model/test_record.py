"""The attribute packs operation, condition, expiry and group; what it does not know it says."""

from __future__ import annotations

from itertools import product

import pytest

from log_tier.model.record import (
    CONDITION_SHIFT,
    EXPIRY_SHIFT,
    GROUPED,
    OPERATION_MASK,
    PLAIN_PUT,
    Condition,
    Expiry,
    Operation,
    attribute_of,
    unknown_attribute,
)


def test_an_attribute_says_what_went_into_it() -> None:
    seen = set()
    for operation, condition, expiry, grouped in product(Operation, Condition, Expiry, (False, True)):
        attribute = attribute_of(operation, condition=condition, expiry=expiry, grouped=grouped)
        assert attribute & OPERATION_MASK == operation
        assert attribute >> CONDITION_SHIFT & 3 == condition
        assert attribute >> EXPIRY_SHIFT & 3 == expiry
        assert bool(attribute & GROUPED) is grouped
        assert unknown_attribute([attribute]) is None
        seen.add(attribute)
    assert len(seen) == len(Operation) * len(Condition) * len(Expiry) * 2


def test_a_plain_put_is_one() -> None:
    assert attribute_of(Operation.PUT) == PLAIN_PUT == 1


@pytest.mark.parametrize("attribute", [11, 255, 1 << 13, 1 << 15 | PLAIN_PUT])
def test_the_unknown_is_named(attribute: int) -> None:
    assert unknown_attribute([PLAIN_PUT, attribute, PLAIN_PUT]) == attribute


def test_the_numbers_of_the_format_never_move() -> None:
    assert [(operation.name, operation.value) for operation in Operation] == [
        ("NOOP", 0),
        ("PUT", 1),
        ("DELETE", 2),
        ("ADD", 3),
        ("MULTIPLY", 4),
        ("MIN", 5),
        ("MAX", 6),
        ("APPEND", 7),
        ("VOID", 8),
        ("BARRIER", 9),
        ("PATCH", 10),
    ]
    assert [condition.value for condition in Condition] == [0, 1, 2, 3]
    assert [(expiry.name, expiry.value) for expiry in Expiry] == [("NONE", 0), ("TTL", 1), ("AT", 2), ("KEEP", 3)]
