"""Tasks that run for as long as their owner: one that ends notifies its owner, and writes to the log."""

from __future__ import annotations

import asyncio

import pytest
from kit.deadlines import patience_s

from log_tier.concurrency.background import failing, only_logged, run_forever
from log_tier.model.errors import DuramenError, OffsetTrimmed, ShuttingDown


async def raising(error: Exception | None) -> None:
    await asyncio.sleep(0)
    if error is not None:
        raise error


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (RuntimeError("a bug"), "the loop ended (RuntimeError('a bug')): restart this process"),
        (OffsetTrimmed("the log begins at 7"), "the loop ended (the log begins at 7): restart this process"),
        (None, "the loop ended (it came to its end): restart this process"),
    ],
    ids=["a bug", "an error of ours", "the end"],
)
async def test_the_owner_hears_why(error: Exception | None, said: str, caplog: pytest.LogCaptureFixture) -> None:
    ended: asyncio.Future[DuramenError] = asyncio.get_running_loop().create_future()
    failed = failing(ended)
    task = run_forever(raising(error), name="the loop", failed=failed)
    reason = await asyncio.wait_for(ended, patience_s(10))
    assert reason.message.startswith(said)
    assert "the loop ended" in caplog.text
    assert ("Traceback" in caplog.text) == (error is not None)
    assert task.done()
    failed(DuramenError("another one"))
    assert ended.result() is reason, "the first reason stays"


@pytest.mark.parametrize("how", ["cancelled", "shutting down"])
async def test_an_end_that_was_asked_for_is_no_failure(how: str, caplog: pytest.LogCaptureFixture) -> None:
    heard: list[DuramenError] = []
    task = run_forever(raising(ShuttingDown("closed")), name="the loop", failed=heard.append)
    if how == "cancelled":
        task.cancel()
    await asyncio.wait([task])
    await asyncio.sleep(0)
    assert heard == []
    assert caplog.text == ""


async def test_without_an_owner_it_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    task = run_forever(raising(RuntimeError("a bug")), name="the loop", failed=only_logged)
    await asyncio.wait([task])
    await asyncio.sleep(0)
    assert "RuntimeError: a bug" in caplog.text
