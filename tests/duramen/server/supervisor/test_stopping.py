"""A process that was started is stopped, whatever state it is in."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from asyncio.subprocess import PIPE, Process

import pytest

from duramen.server.supervisor.stopping import stop_process

pytestmark = pytest.mark.embedded_log_only

WAITING = "import signal, sys; print('ready', flush=True); sys.stdin.read()"
DEAF = "import signal, sys; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('ready', flush=True); sys.stdin.read()"


async def started(program: str) -> Process:
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", program, stdin=PIPE, stdout=PIPE)
    assert process.stdout is not None
    assert await process.stdout.readline() == b"ready\n"
    return process


@pytest.mark.parametrize("paused", [False, True])
async def test_it_ends_by_sigterm_paused_or_not(paused: bool) -> None:
    process = await started(WAITING)
    if paused:
        process.send_signal(signal.SIGSTOP)
    await stop_process(process, timeout_s=60)
    assert process.returncode == -signal.SIGTERM


async def test_the_exit_status_is_left_to_the_one_who_waits_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another one who asks may take it, and the wait ends with 255: once in a whole run of these tests."""
    process = await started(WAITING)
    asked: list[int] = []
    monkeypatch.setattr(subprocess.Popen, "poll", lambda asking: asked.append(asking.pid))
    await stop_process(process, timeout_s=60)
    assert (process.returncode, asked) == (-signal.SIGTERM, [])


async def test_one_that_does_not_listen_is_killed() -> None:
    process = await started(DEAF)
    await stop_process(process, timeout_s=0.05)
    assert process.returncode == -signal.SIGKILL


async def test_one_that_has_ended_stays_as_it_is() -> None:
    process = await started("print('ready', flush=True); raise SystemExit(3)")
    assert await process.wait() == 3
    await stop_process(process, timeout_s=60)
    assert process.returncode == 3
