"""A process of a simulated cluster closes all that it has opened, also where the run ends meanwhile."""

from __future__ import annotations

import asyncio
import random
from contextlib import AsyncExitStack

from duramen.testing.machine.simulated_loop import SimulatedLoop
from duramen.testing.machine.simulated_machine import SimulatedMachine
from duramen.testing.machine.simulated_network import Network
from duramen.testing.machine.simulated_process import SimulatedProcess
from log_tier.embedded import EngineSettings


async def end_in_the_middle_of_an_end(loop: SimulatedLoop) -> list[str]:
    machine = SimulatedMachine(loop, 1, "test", lambda: None, settings=EngineSettings())
    network = Network(loop, random.Random(1), machine.story)
    did: list[str] = []

    async def close(what: str) -> None:
        did.append(f"{what} begins to close")
        await asyncio.sleep(1)
        did.append(f"{what} is closed")

    async def life(process: SimulatedProcess, opened: AsyncExitStack) -> None:
        for what in ("first", "second"):
            opened.push_async_callback(close, what)

    process = SimulatedProcess(
        "n1",
        machine,
        network,
        broke=lambda what, error: did.append(f"{what}: {error!r}"),
        cannot_start=lambda machine, name, error: did.append(f"{name}: {error!r}"),
        buried=lambda process: did.append("buried"),
    )
    living = process.start(process.live(life))
    await process.up.wait()
    process.end(politely=True)
    await asyncio.sleep(0.5)
    living.cancel()
    await asyncio.wait([living])
    machine.close()
    return did


def test_the_end_of_a_run_does_not_cut_short_the_end_of_a_process() -> None:
    loop = SimulatedLoop(random.Random(1))
    try:
        did = loop.run_until_complete(end_in_the_middle_of_an_end(loop))
    finally:
        loop.close()
    assert did == [
        "second begins to close",
        "second is closed",
        "first begins to close",
        "first is closed",
        "buried",
    ]
