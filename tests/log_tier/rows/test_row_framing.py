"""The five bytes in front of a row."""

from __future__ import annotations

import pytest

from log_tier.model.errors import InvalidValue
from log_tier.rows.framing import frame, framed


@pytest.mark.parametrize(("number", "head"), [(1, "0000000001"), (258, "0000000102"), ((1 << 32) - 1, "00ffffffff")])
def test_a_number_is_found_again(number: int, head: str) -> None:
    value = frame(number, b"body")
    assert value == bytes.fromhex(head) + b"body"
    assert framed(value) == (number, b"body")


@pytest.mark.parametrize("value", [b"", b"\0\0\0\1", b"\1\0\0\0\1", b"{}"])
def test_a_value_without_framing(value: bytes) -> None:
    with pytest.raises(InvalidValue, match="no row"):
        framed(value)
    assert framed(b"\0\0\0\0\1") == (1, b"")
