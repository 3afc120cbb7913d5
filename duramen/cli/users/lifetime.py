"""How long a token lives, as people write it: `90s`, `15m`, `12h`, `30d`, `8w`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from log_tier.model.errors import InvalidRequest

__all__ = ["parse_lifetime"]

_UNITS_S: Final[Mapping[str, int]] = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_PATTERN: Final = re.compile(r"([1-9][0-9]{0,8})([smhdw])")


def parse_lifetime(text: str | None) -> int:
    """Milliseconds; 0 for None: for ever. Raises `InvalidRequest`."""
    if text is None:
        return 0
    found = _PATTERN.fullmatch(text)
    if found is None:
        raise InvalidRequest(f"{text!r} is no time: give a number and s, m, h, d or w, like 30d")
    return int(found[1]) * _UNITS_S[found[2]] * 1000
