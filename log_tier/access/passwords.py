"""Passwords as hashes that are slow to make: few are checked at once, in the order in which they came.

`ARGON2` makes them by argon2id, in threads: each takes 19 MiB and some 30 ms of a processor. Its threads have a low
priority, so calls under way come first: logins take what these leave of the processors. Its parameters are those that
OWASP recommends: 19 MiB, two passes, one thread. A hash names its own, so others can come later.

The password of an unknown user is checked against a hash that nobody has the password of, and takes as long.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Final, Protocol, TypeVar

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from log_tier.model.errors import InvalidRequest, Overloaded

__all__ = ["ARGON2", "PASSWORD_BYTES_MAX", "Hasher", "Passwords", "hash_password"]

_T = TypeVar("_T")

PASSWORD_BYTES_MAX: Final = 1024
"""Of UTF-8. A longer text is no password that somebody chose."""
_PASSWORD_CHARACTERS_MIN: Final = 8

# Half of the processors at most, and no more than two.
_AT_ONCE: Final = min(2, max(1, (os.cpu_count() or 1) // 2))

_NICE: Final = 10
"""The priority of a thread that hashes, as `nice` counts: a call's thread gets some nine times its share."""

# Each may hold 1 KiB of password; at two at once the last one waits some 4 s.
_WAITING_MAX: Final = 256

_NOBODYS: Final = "$argon2id$v=19$m=19456,t=2,p=1$ZHVyYW1lbi1ub2JvZHkhIQ$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
"""The hash of no password: the digest is all zeros."""

_HASHER: Final = PasswordHasher(time_cost=2, memory_cost=19 * 1024, parallelism=1, hash_len=32, salt_len=16)


def _give_way() -> None:
    """Lower the priority of this thread, where the system has one for each thread."""
    if sys.platform == "linux":
        with suppress(OSError):  # it has a lower one already, and nobody may raise it
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICE)


_THREADS: Final = ThreadPoolExecutor(_AT_ONCE, "duramen-password", initializer=_give_way)
"""Of all servers of this process. Threads begin when they are needed."""


def hash_password(password: str) -> str:
    """The hash for the catalog; some 30 ms, to be called in a thread. Raises `InvalidRequest` for one that is too short
    or too long.
    """
    if len(password) < _PASSWORD_CHARACTERS_MIN:
        raise InvalidRequest(f"a password has at least {_PASSWORD_CHARACTERS_MIN} characters")
    if len(password.encode()) > PASSWORD_BYTES_MAX:
        raise InvalidRequest(f"a password has at most {PASSWORD_BYTES_MAX} bytes")
    return _HASHER.hash(password)


class Hasher(Protocol):
    """Makes hashes and compares them, as slowly as it means to. It holds no event loop."""

    async def hash(self, password: str) -> str:
        """Another hash each time. Raises `InvalidRequest` for a password that is too short or too long."""
        ...

    async def matches(self, password_hash: str, password: str) -> bool:
        """Is it the password of this hash? No password is that of an empty hash, which takes as long to say."""
        ...


class _Argon2:
    """argon2id, in threads."""

    async def hash(self, password: str) -> str:
        return await _in_a_thread(hash_password, password)

    async def matches(self, password_hash: str, password: str) -> bool:
        return await _in_a_thread(_matches, password_hash or _NOBODYS, password) and password_hash != ""


ARGON2: Final[Hasher] = _Argon2()


class Passwords:
    """Makes hashes, and checks passwords against them. Belongs to one event loop."""

    def __init__(self, hasher: Hasher = ARGON2) -> None:
        self._hasher = hasher
        self._free = asyncio.Semaphore(_AT_ONCE)
        self._waiting = 0

    async def hash(self, password: str) -> str:
        """The hash for the catalog; few at once. Raises as `Hasher.hash`."""
        async with self._free:
            return await self._hasher.hash(password)

    async def match(self, password_hash: str, password: str, *, first: Callable[[], None] = lambda: None) -> bool:
        """`Hasher.matches`, when its turn has come.

        `first` is called when its turn has come, and may raise. Raises `Overloaded` where too many wait for theirs.
        """
        if len(password.encode(errors="replace")) > PASSWORD_BYTES_MAX:
            return False
        if self._waiting >= _WAITING_MAX:
            raise Overloaded(f"{_WAITING_MAX} logins are waiting for their turn: try again", limit=_WAITING_MAX)
        self._waiting += 1
        try:
            await self._free.acquire()
        finally:
            self._waiting -= 1
        try:
            first()
            return await self._hasher.matches(password_hash, password)
        finally:
            self._free.release()


async def _in_a_thread(work: Callable[..., _T], *arguments: str) -> _T:
    return await asyncio.get_running_loop().run_in_executor(_THREADS, work, *arguments)


def _matches(password_hash: str, password: str) -> bool:
    try:
        return _HASHER.verify(password_hash, password.encode(errors="replace"))
    except (VerificationError, InvalidHashError):
        return False
