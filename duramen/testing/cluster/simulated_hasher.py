"""Hashes of passwords that cost nothing: the time that argon2id takes is virtual."""

from __future__ import annotations

import asyncio
import hashlib
import random
from typing import Final

__all__ = ["SimulatedHasher"]

_MADE_IN: Final = (0.02, 0.08)
"""Seconds that one takes, at least and at most."""


class SimulatedHasher:
    """A `Hasher` of one server. Each hash has a salt of its own."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance

    async def hash(self, password: str) -> str:
        await self._take_time()
        salt = f"{self._chance.getrandbits(64):016x}"
        return f"simulated${salt}${_digest(salt, password)}"

    async def matches(self, password_hash: str, password: str) -> bool:
        await self._take_time()
        return self.is_of(password_hash, password)

    @staticmethod
    def is_of(password_hash: str, password: str) -> bool:
        """`matches`, in no time."""
        _, _, rest = password_hash.partition("$")
        salt, _, digest = rest.partition("$")
        return digest == _digest(salt, password)

    async def _take_time(self) -> None:
        await asyncio.sleep(self._chance.uniform(*_MADE_IN))


def _digest(salt: str, password: str) -> str:
    return hashlib.sha256(f"{salt}:{password}".encode()).hexdigest()
