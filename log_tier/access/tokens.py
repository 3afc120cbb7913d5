"""API tokens: a text that proves a user, and what the catalog keeps of it.

    dt1_ID_SECRET_USER        ID: 12 hex digits, no secret;  SECRET: 64 hex digits, 256 random bits

The catalog has the id and the SHA-256 of the whole text. So a token of one user is none of another one, and what the
catalog's log holds proves nothing.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from typing import Final, NamedTuple

__all__ = ["MintedToken", "ReadToken", "mint_token", "read_token"]

_PATTERN: Final = re.compile(r"dt1_([0-9a-f]{12})_[0-9a-f]{64}_([\x21-\x7e]{1,255})")


class MintedToken(NamedTuple):
    """A new token."""

    text: str
    """What the user gets, once."""
    id: str
    sha256: str
    """64 hex digits, for the catalog."""


class ReadToken(NamedTuple):
    """What a token's text claims."""

    user: str
    id: str
    sha256: str


def mint_token(user: str) -> MintedToken:
    """A new random token for a user of this name."""
    token_id = secrets.token_hex(6)
    text = f"dt1_{token_id}_{secrets.token_hex(32)}_{user}"
    return MintedToken(text, token_id, hashlib.sha256(text.encode()).hexdigest())


def read_token(text: str) -> ReadToken | None:
    """What the text of a token claims; None for what has not the form of one. 2 µs."""
    found = _PATTERN.fullmatch(text)
    if found is None:
        return None
    return ReadToken(found[2], found[1], hashlib.sha256(text.encode()).hexdigest())
