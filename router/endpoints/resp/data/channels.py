"""The channels of keyspace notifications: which tables a name means, and what happened in Redis' words. Pure."""

from __future__ import annotations

import re
from typing import Final

from log_tier.model.record import EXPIRY_SHIFT, OPERATION_MASK, Expiry, Operation
from router.endpoints.resp.data.served_tables import NUMBERS

__all__ = ["ANY_NUMBER", "events_of", "numbered_table", "numbers_of"]

ANY_NUMBER: Final = -1
"""A channel or a pattern that may mean any numbered table."""

numbered_table: Final = re.compile(rb"__key(?:space|event)@(\d{1,4})__:").match
"""The number of the table that a channel or a pattern means, as group 1; None: it names none."""

_NAMES: Final = {
    Operation.PUT: b"set",
    Operation.DELETE: b"del",
    Operation.ADD: b"incrby",
    Operation.MULTIPLY: b"multiply",
    Operation.MIN: b"min",
    Operation.MAX: b"max",
    Operation.APPEND: b"append",
    Operation.PATCH: b"set",
}


def numbers_of(name: bytes) -> list[int]:
    """Which numbered tables a channel or a pattern means; `ANY_NUMBER`: it may be any."""
    match = numbered_table(name)
    if match is None:
        return [ANY_NUMBER]
    return [int(match[1])] if int(match[1]) < NUMBERS else []


def events_of(attribute: int) -> list[bytes]:
    """The events that a record with this attribute is, in Redis' words."""
    name = _NAMES.get(Operation(attribute & OPERATION_MASK))
    if name is None:
        return []
    if attribute >> EXPIRY_SHIFT & 3 in (Expiry.TTL, Expiry.AT):
        return [name, b"expire"]
    return [name]
