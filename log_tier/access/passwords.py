"""Passwords as argon2id hashes, checked in threads: few at once, since each takes 19 MiB and some 30 ms of a processor.

The parameters are those that OWASP recommends for argon2id: 19 MiB, two passes, one lane. A hash names its own, so
others can come later. Whoever checks the password of an unknown user checks it against a hash that nobody has the
password of, and takes as long.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from log_tier.model.errors import InvalidRequest

if TYPE_CHECKING:
    from argon2 import PasswordHasher

__all__ = ["PASSWORD_BYTES_MAX", "Passwords", "hash_password"]

PASSWORD_BYTES_MAX: Final = 1024
"""Of UTF-8. A longer text is no password that somebody chose."""
_PASSWORD_CHARACTERS_MIN: Final = 8

# Two processors at most are taken from calls under way.
_AT_ONCE: Final = 2

_NOBODYS: Final = "$argon2id$v=19$m=19456,t=2,p=1$ZHVyYW1lbi1ub2JvZHkhIQ$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
"""The hash of no password: the digest is all zeros."""


def _hasher() -> PasswordHasher:
    # Here: an embedded database has no passwords, and does not wait for the import.
    from argon2 import PasswordHasher

    return PasswordHasher(time_cost=2, memory_cost=19 * 1024, parallelism=1, hash_len=32, salt_len=16)


def hash_password(password: str) -> str:
    """The hash for the catalog; some 30 ms, to be called in a thread. Raises `InvalidRequest` for one that is too short
    or too long.
    """
    if len(password) < _PASSWORD_CHARACTERS_MIN:
        raise InvalidRequest(f"a password has at least {_PASSWORD_CHARACTERS_MIN} characters")
    if len(password.encode()) > PASSWORD_BYTES_MAX:
        raise InvalidRequest(f"a password has at most {PASSWORD_BYTES_MAX} bytes")
    return _hasher().hash(password)


class Passwords:
    """Checks passwords against hashes. Belongs to one event loop."""

    def __init__(self) -> None:
        self._free = asyncio.Semaphore(_AT_ONCE)

    async def match(self, password_hash: str, password: str) -> bool:
        """Is it the password of this hash? Empty hash: no password is, which takes as long to say."""
        if len(password.encode(errors="replace")) > PASSWORD_BYTES_MAX:
            return False
        async with self._free:
            return await asyncio.to_thread(_matches, password_hash or _NOBODYS, password) and password_hash != ""


def _matches(password_hash: str, password: str) -> bool:
    from argon2.exceptions import InvalidHashError, VerificationError

    try:
        return _hasher().verify(password_hash, password.encode(errors="replace"))
    except (VerificationError, InvalidHashError):
        return False
