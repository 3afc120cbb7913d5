"""Manifests that were changed: by a bit, which their checksum tells, or by hand and sealed again, which it does not."""

from __future__ import annotations

import json
from collections.abc import Callable

import google_crc32c
import pytest
from hypothesis import strategies as st

__all__ = ["changed_byte", "check_every_flipped_bit", "sealed_again"]


def sealed_again(document: dict[str, object]) -> bytes:
    """A document with the checksum that it should have."""
    document = {name: value for name, value in document.items() if name != "check"}
    check = f"{google_crc32c.value(json.dumps(document, indent=1).encode('ascii')):08x}"
    return json.dumps({**document, "check": check}, indent=1).encode("ascii") + b"\n"


def changed_byte(text: bytes, data: st.DataObject) -> bytes:
    """`text` with one byte changed to another one."""
    changed = bytearray(text)
    position = data.draw(st.integers(0, len(changed) - 1))
    changed[position] ^= data.draw(st.integers(1, 255))
    return bytes(changed)


def check_every_flipped_bit(
    text: bytes, parse: Callable[[bytes, str], object], refusals: tuple[type[Exception], ...]
) -> None:
    """`parse(changed, "here")` raises one of `refusals`, which names the place, whichever bit of `text` is flipped."""
    for position in range(len(text)):
        for bit in range(8):
            changed = bytearray(text)
            changed[position] ^= 1 << bit
            with pytest.raises(refusals, match="here"):
                parse(bytes(changed), "here")
