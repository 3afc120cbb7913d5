"""A node that hosts what the map assigns to it, over a log and a catalog."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from kit.cluster.hosted_node import Sources

from log_tier.catalog.catalog import Catalog
from log_tier.catalog.commands import (
    RegisterNode,
)
from log_tier.catalog.map_follower import MapFollower
from log_tier.embedded import EmbeddedLog, EngineSettings
from serving_tier.node import bring_up as module
from serving_tier.node.hosting import Hosting
from serving_tier.node.node import Node


@pytest.fixture
async def log(tmp_path: Path) -> AsyncIterator[EmbeddedLog]:
    async with await EmbeddedLog.open(tmp_path / "log", settings=EngineSettings(segment_bytes=4096)) as opened:
        yield opened


@pytest.fixture
async def catalog(log: EmbeddedLog) -> AsyncIterator[Catalog]:
    opened = await Catalog.open(log)
    for name in ("n1", "n2"):
        await opened.submit(RegisterNode(name, f"{name}:1", name))
    yield opened
    await opened.close()


@pytest.fixture
async def node(tmp_path: Path, log: EmbeddedLog) -> AsyncIterator[Node]:
    opened = await Node.open(log, tmp_path / "n1")
    yield opened
    await opened.close()


@pytest.fixture
def sources() -> Sources:
    return Sources()


@pytest.fixture
async def hosting(
    catalog: Catalog, node: Node, sources: Sources, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Hosting]:
    monkeypatch.setattr(module, "_RETRY_FIRST_S", 0.005)
    opened = await Hosting.open(MapFollower(catalog), node, node_id="n1", identity="n1", bootstrap=sources)
    yield opened
    await opened.close()
