"""When a table that was just made counts as there, in a process that routes."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest
from kit.virtual_loop import run_virtually

from log_tier.catalog.catalog import MapFeed
from log_tier.catalog.cluster_map import Assignment, ClusterMap, NodeEntry, TableEntry, address_for_clients
from log_tier.concurrency.clocks import SYSTEM_CLOCK
from log_tier.concurrency.persistent_map import PersistentMap
from log_tier.model.identifiers import Offset, TableId
from log_tier.model.table_ref import TableRef
from log_tier.rows.table_spec import TableSpec
from router.membership.live_membership import LiveMembership
from router.routing.routes import Routes
from router.routing.tables import RoutedTables, TableChanges

TABLE = TableEntry(TableId("AAAAAAAAAAAAAAAAAAAAAA"), "flights", 1, 1, ((Assignment("n1", "member"),),))


class Made:
    """Table changes of a server whose map is this process's."""

    def __init__(self, maps: MapFeed, node: NodeEntry) -> None:
        self._maps = maps
        self._node = node

    async def create(self, _: TableSpec, *, timeout: float) -> TableRef:
        tables, nodes = PersistentMap({TABLE.id: TABLE}), PersistentMap({"n1": self._node})
        self._maps.advance(
            ClusterMap(version=Offset(self._maps.map.version + 1), tables=tables, nodes=cast("Any", nodes))
        )
        return TABLE.ref


@pytest.mark.parametrize(
    ("address", "peer_address", "waited_s"),
    [("", "", 0.0), ("host:1", "", 5.0), ("", "host:2", 5.0)],
    ids=["nobody else", "an address", "for servers"],
)
def test_nodes_that_serve_nobody_else_are_not_waited_for(address: str, peer_address: str, waited_s: float) -> None:
    """This process hears nothing of them; of others that are silent it waits some seconds for a word."""

    async def create() -> float:
        maps = MapFeed()
        membership = LiveMembership(cast("Any", maps), SYSTEM_CLOCK, address_for_clients)
        made = cast(TableChanges, Made(maps, NodeEntry("n1", address, "n1", peer_address=peer_address)))
        tables = RoutedTables(Routes(cast("Any", maps), membership), made, None, None)
        assert await tables.create(TableSpec("flights", 1), timeout=10.0) == TABLE.ref
        return asyncio.get_running_loop().time()

    assert run_virtually(create()) == pytest.approx(waited_s)
