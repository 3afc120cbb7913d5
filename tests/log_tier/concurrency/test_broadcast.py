"""Waking everybody who waits: all of them, once, and nobody who comes later."""

from __future__ import annotations

import asyncio

from kit.deadlines import patience_s

from log_tier.concurrency.broadcast import Broadcast


async def test_everybody_who_waits_is_woken_once() -> None:
    changed, woken = Broadcast(), 0

    async def wait() -> None:
        nonlocal woken
        await changed.wait()
        woken += 1

    early = [asyncio.create_task(wait()) for _ in range(3)]
    await asyncio.sleep(0)
    assert woken == 0
    changed.notify_all()
    late = asyncio.create_task(wait())
    await asyncio.wait_for(asyncio.gather(*early), patience_s(10))
    await asyncio.sleep(0)
    assert (woken, late.done()) == (3, False)
    changed.notify_all()
    await asyncio.wait_for(late, patience_s(10))


async def test_no_change_is_missed_between_a_look_and_the_wait() -> None:
    changed, value, seen = Broadcast(), 0, []

    async def follow() -> None:
        while value < 100:
            await changed.wait()
            seen.append(value)

    follower = asyncio.create_task(follow())
    await asyncio.sleep(0)
    for _ in range(100):
        value += 1
        changed.notify_all()
        await asyncio.sleep(0)
    await asyncio.wait_for(follower, patience_s(10))
    assert seen[-1] == 100
