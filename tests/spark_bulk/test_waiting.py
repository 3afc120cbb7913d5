from __future__ import annotations

import asyncio
import subprocess
import sys
import threading

import pytest
from kit.deadlines import patience_s

from log_tier.model.errors import Overloaded
from spark_bulk.runtime.waiting import wait_for


async def answer(value: int) -> int:
    await asyncio.sleep(0)
    return value


async def trouble() -> None:
    raise Overloaded("not now")


def test_what_it_returns_or_raises_comes_back() -> None:
    assert wait_for(answer(7)) == 7
    with pytest.raises(Overloaded, match="not now"):
        wait_for(trouble())


async def test_a_caller_with_a_loop_of_its_own_can_wait() -> None:
    """A notebook's cells run in a loop."""
    assert wait_for(answer(8)) == 8


def test_all_calls_share_one_loop() -> None:
    async def which() -> asyncio.AbstractEventLoop:
        return asyncio.get_running_loop()

    found: list[asyncio.AbstractEventLoop] = []
    threads = [threading.Thread(target=lambda: found.append(wait_for(which()))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert len(set(map(id, found))) == 1


def test_a_process_that_ends_with_tasks_under_way_says_nothing() -> None:
    program = """
import asyncio
import subprocess
import sys
from spark_bulk.runtime.waiting import wait_for

kept = []

async def begin():
    kept.append(asyncio.create_task(asyncio.sleep(1000)))
    return 7

print(wait_for(begin()))
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=patience_s(60)
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "7\n", "")
