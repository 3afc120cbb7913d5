"""A network that goes and comes back: everybody works again within the time that OPERATIONS names."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest
from kit.client.black_hole import DIRECTIONS, BlackHole, Direction
from kit.deadlines import patience_s, within

from duramen import aio
from duramen.server.roles.log_role import LogRole
from duramen.server.roles.node_role import NodeRole
from duramen.server.roles.router_role import RouterRole
from log_tier.model.errors import DuramenError
from log_tier.rpc.channel import CUT_NOTICED_S, RECONNECTED_S

# For the call itself on a machine that runs other things.
SLACK_S = 4.0

LOOPBACK = "127.0.0.1"


class Cut:
    """A log, a node, a router and a client; every connection between two of them goes through a hole."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.holes: list[BlackHole] = []

    async def hole(self, opened: AsyncExitStack, target: str = "") -> BlackHole:
        made = BlackHole(target)
        await made.start()
        opened.push_async_callback(made.close)
        self.holes.append(made)
        return made

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Cut]:
        async with AsyncExitStack() as opened:
            self.log = await LogRole.open(self.folder / "log", host=LOOPBACK, port=0)
            opened.push_async_callback(self.log.close)
            log = f"{LOOPBACK}:{self.log.port}"
            to_node = await self.hole(opened)
            node_to_log = await self.hole(opened, log)
            self.node = await NodeRole.open(
                self.folder / "n1",
                node_id="n1",
                log_url=f"grpc://{node_to_log.address}",
                host=LOOPBACK,
                port=0,
                advertise=to_node.address,
            )
            opened.push_async_callback(self.node.close)
            to_node.target = f"{LOOPBACK}:{self.node.port}"
            router_to_log = await self.hole(opened, log)
            self.router = await RouterRole.open(log_url=f"grpc://{router_to_log.address}", host=LOOPBACK, port=0)
            opened.push_async_callback(self.router.close)
            to_router = await self.hole(opened, f"{LOOPBACK}:{self.router.port}")
            self.db = await aio.connect(to_router.address, direct=False)
            opened.push_async_callback(self.db.close)
            self.direct = await aio.connect(to_router.address)
            opened.push_async_callback(self.direct.close)
            yield self

    def cut(self, direction: Direction) -> None:
        for hole in self.holes:
            hole.cut(direction)

    def heal(self) -> None:
        for hole in self.holes:
            hole.heal()

    def streams(self) -> int:
        """Those that the servers have open; none may stay open after its client has gone."""
        return sum(len(role.shell.streams) for role in (self.log, self.node, self.router))

    async def works(self, value: bytes) -> None:
        """Return when writes and reads go through: by the router, straight to the node, and all of them level."""
        for db in (self.db, self.direct):
            table = db.table("flights")
            while True:
                try:
                    await table.put(b"key", value, timeout=patience_s(1))
                    assert await table.get(b"key", level="strong", timeout=patience_s(1)) == value
                    break
                except DuramenError:
                    await asyncio.sleep(0.05)
        (replica,) = self.node.data_plane.node
        while replica.state != "ready":  # noqa: ASYNC110 - the replica notifies nobody here
            await asyncio.sleep(0.02)


@pytest.mark.embedded_log_only
async def test_after_a_cut_everybody_works_again(tmp_path: Path) -> None:
    async def one(direction: Direction) -> float:
        async with Cut(tmp_path / direction).open() as cut:
            await cut.db.create_table("flights", partitions=1)
            await cut.works(b"before")
            before = cut.streams()
            cut.cut(direction)
            table = cut.db.table("flights")
            with pytest.raises(DuramenError):
                await table.put(b"key", b"lost", timeout=0.5)
            cut.heal()
            healed = asyncio.get_running_loop().time()
            await cut.works(b"after")
            took = asyncio.get_running_loop().time() - healed
            assert not cut.node.ended.done()
            assert not cut.router.ended.done()
            async with within(CUT_NOTICED_S + SLACK_S):
                while cut.streams() > before:  # noqa: ASYNC110 - a server notifies nobody when a stream ends
                    await asyncio.sleep(0.05)
            return took

    took = await asyncio.gather(*(one(direction) for direction in DIRECTIONS))
    assert max(took) < patience_s(CUT_NOTICED_S + RECONNECTED_S + SLACK_S), took
