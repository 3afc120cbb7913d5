"""A number of bytes, as people write it: `4096`, `500kB`, `10MB`, `1GiB`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from log_tier.model.errors import InvalidRequest

__all__ = ["parse_size"]

_UNITS: Final[Mapping[str, int]] = {
    "": 1,
    "B": 1,
    "kB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "KiB": 1 << 10,
    "MiB": 1 << 20,
    "GiB": 1 << 30,
}
_PATTERN: Final = re.compile(r"([0-9]{1,15})([A-Za-z]{0,3})")


def parse_size(text: str) -> int:
    """Bytes. A kB has 1,000, a KiB 1,024. Raises `InvalidRequest`."""
    found = _PATTERN.fullmatch(text)
    if found is None or found[2] not in _UNITS:
        units = ", ".join(unit for unit in _UNITS if unit)
        raise InvalidRequest(f"{text!r} is no number of bytes: give a number and a unit ({units}), like 10MB")
    return int(found[1]) * _UNITS[found[2]]
