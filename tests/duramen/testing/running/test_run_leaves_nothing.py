"""A run of a user leaves nothing in the process of the tests, whatever ends it: no descriptor, task or folder."""

from __future__ import annotations

import asyncio
import gc
import tempfile
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest
from kit.held_resources import held_resources

from duramen import testing
from duramen.testing.machine.simulated_loop import Stuck

SEEDS = 3


@pytest.fixture
def made_folders(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    made: list[Path] = []
    inner = tempfile.mkdtemp

    def note(*args: Any, **named: Any) -> str:
        made.append(Path(inner(*args, **named)))
        return str(made[-1])

    monkeypatch.setattr(tempfile, "mkdtemp", note)
    return made


@pytest.fixture
def no_collector() -> Iterator[None]:
    """What a run does not close itself is to be seen."""
    gc.disable()
    yield
    gc.enable()


async def whole() -> None:
    async with testing.Cluster(nodes=2) as cluster:
        table = await (await cluster.connect()).create_table("orders", partitions=2)
        await table.put(b"key", b"value")
        cluster.faults.kill("n1")
        await asyncio.sleep(1)


async def fails() -> None:
    async with testing.Cluster(nodes=2) as cluster:
        table = await (await cluster.connect()).create_table("orders", partitions=2)
        await asyncio.wait([asyncio.create_task(table.put(b"key", b"value"))], timeout=0.001)
        raise ValueError("the test says so")


async def takes_too_long() -> None:
    async with testing.Cluster(nodes=2) as cluster:
        table = await (await cluster.connect()).create_table("orders", partitions=2)
        async for _ in table.watch(start="earliest"):
            pass


async def is_stuck() -> None:
    async with testing.AsyncEmbedded() as embedded:
        table = await embedded.database.create_table("orders", partitions=2)
        watching = aiter(table.watch(start="earliest"))
        await table.put(b"key", b"value")
        await anext(watching)
        await asyncio.Event().wait()


@pytest.mark.usefixtures("no_collector")
@pytest.mark.parametrize(
    ("main", "ended_by"),
    [(whole, None), (fails, ValueError), (takes_too_long, testing.TooLong), (is_stuck, (Stuck, testing.TooLong))],
)
def test_a_users_run_leaves_nothing(
    main: Callable[[], Coroutine[Any, Any, None]],
    ended_by: type[BaseException] | tuple[type[BaseException], ...] | None,
    made_folders: list[Path],
) -> None:
    before = held_resources()
    for seed in range(SEEDS):
        if ended_by is None:
            testing.run(main, seed=seed, limit_s=60)
        else:
            with pytest.raises(ended_by):
                testing.run(main, seed=seed, limit_s=60)
    after = held_resources(collect=False)
    assert (after.descriptors, after.maps, after.threads, after.tasks) == before[:4]
    assert held_resources() == before
    assert len(made_folders) == SEEDS
    assert not [each for each in made_folders if each.exists()]
