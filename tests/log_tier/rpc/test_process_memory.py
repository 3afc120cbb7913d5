"""The memory of the process, read when no file can be opened any more."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from log_tier.rpc.messages.process_memory import ProcessMemory

_WITHOUT_DESCRIPTORS = """
import asyncio, resource
from log_tier.rpc.messages.arriving_calls import ArrivingCalls
from router.endpoints.resp.bounds.connections_memory import ConnectionsMemory

class Held:
    held_bytes_max = 1 << 40
    evicted = 0
    def held_bytes(self):
        return self.held_bytes_max
    def evict(self, reason):
        self.evicted += 1

async def main():
    held = Held()
    loop = asyncio.get_running_loop()
    connections, arriving = ConnectionsMemory(1, lambda: [held], loop.time), ArrivingCalls(message_s=0.1)
    async def coming():
        await asyncio.Event().wait()
    call = loop.create_task(coming())
    arriving.methods[call] = "/a/call"
    resource.setrlimit(resource.RLIMIT_NOFILE, (1, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    try:
        open("/dev/null")
        raise AssertionError("there is a descriptor left")
    except OSError:
        pass
    arriving.watch()
    connections.joined()
    async with asyncio.timeout(60):
        while not (held.evicted and call.cancelled()):
            await asyncio.sleep(0.05)
    await connections.close()
    arriving.close()

asyncio.run(main())
"""


def test_the_bounds_of_memory_hold_when_every_descriptor_is_taken() -> None:
    done = subprocess.run([sys.executable, "-c", _WITHOUT_DESCRIPTORS], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]


def test_what_is_allocated_is_seen_and_the_descriptor_given_back() -> None:
    descriptors = len(list(Path("/proc/self/fd").iterdir()))
    memory = ProcessMemory()
    before = memory.private_bytes()
    held = os.urandom(64 << 20)
    assert memory.private_bytes() - before >= len(held) // 2
    del memory
    assert len(list(Path("/proc/self/fd").iterdir())) == descriptors
