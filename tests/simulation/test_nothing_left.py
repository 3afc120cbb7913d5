"""A run leaves nothing in its process, however it ends: no descriptor, environment of LMDB, task, thread or folder."""

from __future__ import annotations

import asyncio
import gc
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kit.held_resources import HeldResources, held_resources

from simulation.planted import plant
from simulation.run import run_seed
from simulation.worlds import BUGS, WorldName

BROKEN: dict[WorldName, str] = {
    "log": "a replay puts nothing back",
    "database": "the fold gets a batch of another partition",
    "cluster": "an index is a transaction late",
}
"""Bugs that show in the first seed."""


@pytest.fixture
def folders(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Those that are made meanwhile."""
    made: list[Path] = []
    inner = tempfile.mkdtemp

    def note(*args: Any, **named: Any) -> str:
        made.append(Path(inner(*args, **named)))
        return str(made[-1])

    monkeypatch.setattr(tempfile, "mkdtemp", note)
    return made


@pytest.fixture
def uncollected() -> Iterator[None]:
    """Nobody collects garbage meanwhile but the runs themselves, and what they have not reached stays to be seen."""
    gc.disable()
    yield
    gc.enable()


def held_after(world: WorldName, seeds: int) -> list[HeldResources]:
    """After each of some runs of a seed; the first one loads what is loaded late."""
    found: list[HeldResources] = []
    for _ in range(seeds):
        outcome = run_seed(0, world)
        assert outcome.virtual_s > 0
        found.append(held_resources(collect=False))
    return found


@pytest.mark.usefixtures("uncollected")
@pytest.mark.parametrize("world", ["log", "database"])
def test_a_whole_run_leaves_nothing(world: WorldName, folders: list[Path]) -> None:
    first, *others = held_after(world, 3)
    assert others == [first, first]
    assert not [each for each in folders if each.exists()]


@pytest.mark.usefixtures("uncollected")
@pytest.mark.parametrize("world", BROKEN)
def test_a_broken_run_leaves_nothing(world: WorldName, folders: list[Path]) -> None:
    run_seed(1, "log")
    before = held_resources()
    with plant(BUGS[world][BROKEN[world]]):
        assert run_seed(0, world).broken
    after = held_resources(collect=False)
    assert after == before
    assert not [each for each in folders if each.exists()]


@pytest.mark.usefixtures("uncollected")
@pytest.mark.parametrize("world", ["log", "database", "cluster-resp"])
def test_a_run_that_its_loop_ends_leaves_nothing(world: WorldName, folders: list[Path]) -> None:
    """In its middle: nobody who runs on that loop hears of it."""
    whole = run_seed(0, world)
    before = held_resources()
    cut = run_seed(0, world, within_s=whole.processor_s / 3)
    assert cut.is_stopped
    assert 0 < cut.virtual_s < whole.virtual_s
    assert held_resources(collect=False) == before
    assert not [each for each in folders if each.exists()]


def test_what_is_held_is_seen(tmp_path: Path) -> None:
    """Else the others could not fail."""

    async def wait(loop_ended: list[HeldResources]) -> None:
        waiting = asyncio.create_task(asyncio.Event().wait())
        await asyncio.sleep(0)
        loop_ended.append(held_resources())
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)

    before = held_resources()
    seen: list[HeldResources] = []
    asyncio.run(wait(seen))
    assert len(seen[0].tasks) > len(before.tasks)
    assert seen[0].coroutines > before.coroutines
    with (tmp_path / "open").open("wb"):
        assert held_resources().descriptors > before.descriptors
    assert held_resources() == before


def test_a_server_that_other_tests_share_is_not_ours() -> None:
    """Its tasks come and go while a run is looked at."""
    started, end = threading.Event(), threading.Event()

    async def serve() -> None:
        async def wait() -> None:
            await asyncio.sleep(3600)

        waiting = [asyncio.create_task(wait()) for _ in range(3)]
        started.set()
        await asyncio.to_thread(end.wait)
        for each in waiting:
            each.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)

    before = held_resources()
    server = threading.Thread(target=asyncio.run, args=(serve(),))
    server.start()
    try:
        assert started.wait(60)
        seen = held_resources()
        assert (seen.tasks, seen.coroutines) == (before.tasks, before.coroutines)
    finally:
        end.set()
        server.join()
    assert held_resources() == before
