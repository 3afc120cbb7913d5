"""Passwords are hashed in few threads, which give way to calls."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from pathlib import Path

import pytest

from log_tier.access.passwords import PASSWORD_BYTES_MAX, Passwords, hash_password
from log_tier.model.errors import InvalidRequest


async def test_a_hash_matches_its_password_alone() -> None:
    passwords = Passwords()
    made = await passwords.hash("correct horse")
    matches = [await passwords.match(made, each) for each in ("correct horse", "correct hors", "", "x" * 2000)]
    assert matches == [True, False, False, False]
    assert not await passwords.match("", "correct horse"), "an empty hash is no password's"


@pytest.mark.parametrize("password", ["short", "x" * (PASSWORD_BYTES_MAX + 1)], ids=["short", "long"])
def test_a_password_has_its_limits(password: str) -> None:
    with pytest.raises(InvalidRequest, match="a password has at"):
        hash_password(password)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has a priority for each thread")
async def test_who_hashes_gives_way_to_calls() -> None:
    passwords = Passwords()
    made = await passwords.hash("correct horse")
    assert all(await asyncio.gather(*(passwords.match(made, "correct horse") for _ in range(8))))
    hashing = [thread for thread in threading.enumerate() if thread.name.startswith("duramen-password")]
    assert 1 <= len(hashing) <= 2, hashing
    here = os.getpriority(os.PRIO_PROCESS, 0)
    for thread in hashing:
        assert thread.native_id is not None
        assert os.getpriority(os.PRIO_PROCESS, thread.native_id) >= min(10, here + 1)
    stat = Path(f"/proc/self/task/{threading.get_native_id()}/stat").read_text()
    assert stat.rpartition(")")[2].split()[16] == str(here)  # behind the name, which may have blanks


async def test_another_hasher_stands_in_its_place() -> None:
    """The limits and the turns are of `Passwords`, whatever makes the hashes."""

    class Plain:
        async def hash(self, password: str) -> str:
            return f"plain {password}"

        async def matches(self, password_hash: str, password: str) -> bool:
            return password_hash == f"plain {password}"

    passwords = Passwords(Plain())
    made = await passwords.hash("correct horse")
    assert [await passwords.match(made, each) for each in ("correct horse", "correct hors")] == [True, False]
    assert not await passwords.match(made, "x" * (PASSWORD_BYTES_MAX + 1))
