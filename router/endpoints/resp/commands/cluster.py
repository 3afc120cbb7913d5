"""CLUSTER and its relatives: which node holds which slots of the selected table.

Partitions are ranges of slots, so the map of slots follows from the catalog: the first node of a partition that may be
read stands as its master. There are no masters: any node takes any write, as the log orders
them, and a server that does not hold a key asks one that does. `MOVED` goes only to connections that have shown that
they know what it means, by asking for the map or by READONLY.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, Final

from log_tier.model.identifiers import Partition
from log_tier.model.partitioner import SLOTS, slot_of, slots_of_partition
from router.endpoints.resp.command_spec import async_command, sync_command
from router.endpoints.resp.context import CommandContext, Place
from router.endpoints.resp.data.tables import ServedTable
from router.endpoints.resp.wire.arguments import text_of
from router.endpoints.resp.wire.replies import Problem, Simple

__all__ = ["SPECS", "asking", "cluster", "node_name", "readonly", "readwrite", "slot_ranges"]

_OK: Final = Simple("OK")

_CLUSTER_WORDS: Final = {"SLOTS": 2, "SHARDS": 2, "NODES": 2, "INFO": 2, "MYID": 2, "KEYSLOT": 3}
"""What may follow CLUSTER, with its arity."""


def node_name(node: str) -> str:
    """A node's id as Redis Cluster writes them: 40 hex digits."""
    return hashlib.sha1(node.encode(), usedforsecurity=False).hexdigest()


def slot_ranges(partitions: int, holders: Sequence[Sequence[Place]]) -> list[tuple[int, int, Sequence[Place]]]:
    """First and last slot of each range with the same holders, and these."""
    ranges: list[tuple[int, int, Sequence[Place]]] = []
    for number, places in enumerate(holders):
        slots = slots_of_partition(Partition(number), partitions)
        if ranges and list(ranges[-1][2]) == list(places):
            ranges[-1] = (ranges[-1][0], slots[-1], places)
        else:
            ranges.append((slots[0], slots[-1], places))
    return ranges


async def cluster(client: CommandContext, args: Sequence[bytes]) -> Any:
    """CLUSTER SLOTS | SHARDS | NODES | INFO | MYID | KEYSLOT key"""
    name, rest = text_of(args[0]).upper(), args[1:]
    if name == "KEYSLOT":
        return slot_of(rest[0])
    server = client.server
    if name == "MYID":
        return node_name(server.node_id)
    if name in ("SLOTS", "SHARDS", "NODES"):
        client.asked_for_map = server.clustered
    table = await client.current_table()
    if table.ref.partitioner != "slot":
        raise Problem(f"ERR table {table.ref.name} places its keys by {table.ref.partitioner}, not by slots")
    ranges = slot_ranges(table.partitions, await holders(client, table))
    if name == "SLOTS":
        return [
            [first, last, *([place.host, place.port, node_name(place.node), []] for place in places)]
            for first, last, places in ranges
        ]
    nodes = _nodes(ranges)
    if name == "SHARDS":
        return _shards(ranges)
    if name == "NODES":
        return _node_lines(client, ranges, nodes)
    return "".join(
        f"{key}:{value}\r\n"
        for key, value in {
            "cluster_enabled": int(server.clustered),
            "cluster_state": "ok",
            "cluster_slots_assigned": SLOTS,
            "cluster_slots_ok": SLOTS,
            "cluster_slots_pfail": 0,
            "cluster_slots_fail": 0,
            "cluster_known_nodes": len(nodes),
            "cluster_size": len({places[0].node for _, _, places in ranges}),
            "cluster_current_epoch": server.epoch,
            "cluster_my_epoch": server.epoch,
        }.items()
    )


async def holders(client: CommandContext, table: ServedTable) -> list[list[Place]]:
    """By partition, the endpoints of the nodes that hold it; this server where no other is known.

    Clients take a node for a master or for a replica, and not for both. So a node that is the first of some partition
    is listed there and nowhere else.
    """
    host, port = client.local_address
    here = Place(client.server.node_id, host, port)
    places = await client.server.places(here)
    found: list[list[Place]] = []
    for partition in map(Partition, range(table.partitions)):
        nodes = client.server.holders(table, partition)
        found.append([places[node] for node in nodes if node in places] or [here])
    firsts = {each[0] for each in found}
    return [[each[0], *(place for place in each[1:] if place not in firsts)] for each in found]


def _nodes(ranges: Sequence[tuple[int, int, Sequence[Place]]]) -> list[Place]:
    return list(dict.fromkeys(place for _, _, places in ranges for place in places))


def _shards(ranges: Sequence[tuple[int, int, Sequence[Place]]]) -> list[Any]:
    """Ranges by their holders."""
    shards: dict[tuple[Place, ...], list[int]] = {}
    for first, last, places in ranges:
        shards.setdefault(tuple(places), []).extend((first, last))
    return [
        {
            "slots": slots,
            "nodes": [
                {
                    "id": node_name(place.node),
                    "port": place.port,
                    "ip": place.host,
                    "endpoint": place.host,
                    "role": "replica" if number else "master",
                    "replication-offset": 0,
                    "health": "online",
                }
                for number, place in enumerate(places)
            ],
        }
        for places, slots in shards.items()
    ]


def _node_lines(
    client: CommandContext, ranges: Sequence[tuple[int, int, Sequence[Place]]], nodes: Sequence[Place]
) -> str:
    lines: list[str] = []
    epoch = client.server.epoch
    for place in nodes:
        own = [f"{first}-{last}" for first, last, places in ranges if places[0] == place]
        first_of = next((places[0].node for _, _, places in ranges if place in places), place.node)
        role = "master" if own else "slave"
        flags = f"myself,{role}" if place.node == client.server.node_id else role
        master = "-" if own else node_name(first_of)
        lines.append(
            f"{node_name(place.node)} {place.host}:{place.port}@{place.port} {flags} {master} 0 0 {epoch} connected"
            + "".join(f" {slots}" for slots in own)
        )
    return "\n".join(lines) + "\n"


def readonly(client: CommandContext, args: Sequence[bytes]) -> Simple:
    """READONLY: replicas are always read here; it tells that the client knows about clusters."""
    client.asked_for_map = client.server.clustered
    return _OK


def readwrite(client: CommandContext, args: Sequence[bytes]) -> Simple:
    """READWRITE"""
    return _OK


def asking(client: CommandContext, args: Sequence[bytes]) -> Simple:
    """ASKING: slots do not migrate by asking here, so there is nothing to follow."""
    return _OK


SPECS: Final = (
    async_command("cluster", -2, cluster, summary="About slots and nodes.", words=_CLUSTER_WORDS),
    sync_command("readonly", 1, readonly, summary="Reads from replicas are welcome."),
    sync_command("readwrite", 1, readwrite, summary="Takes READONLY back."),
    sync_command("asking", 1, asking, summary="Follows an ASK redirection."),
)
"""The commands of this module."""
