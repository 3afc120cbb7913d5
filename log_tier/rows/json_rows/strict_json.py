"""JSON as the rows of tables have it: no name comes twice in an object, and each number is one."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

__all__ = ["strict_json"]


def strict_json(text: str) -> Any:
    """What a text says. Raises `ValueError` with what is wrong. O(its size)."""
    try:
        return _DECODER.decode(text)
    except RecursionError:
        raise ValueError("it is nested too deep") from None


def _once(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("an object has a name twice")
    return found


def _no_number(name: str) -> Any:
    raise ValueError(f'{name} is no number of JSON: write "{name}"')


_DECODER: Final = json.JSONDecoder(object_pairs_hook=_once, parse_constant=_no_number)
