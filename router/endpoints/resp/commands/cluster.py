"""CLUSTER and its relatives: which node holds which slots of the selected table.

Partitions are ranges of slots, so the map of slots follows from the catalog: the first node of a partition that may be
read is reported as its master. There are no masters: any node takes any write, as the log orders them, and a server
that does not hold a key asks one that does. `MOVED` goes only to connections that have shown that they know what it
means, by asking for the map or by READONLY.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, Final

from log_tier.model.identifiers import Partition
from log_tier.model.partitioner import SLOTS, slot_of, slots_of_partition
from router.endpoints.resp.command_spec import async_command, sync_command
from router.endpoints.resp.context import CommandContext, NodeAddress
from router.endpoints.resp.data.served_tables import ServedTable
from router.endpoints.resp.wire.arguments import text_of
from router.endpoints.resp.wire.replies import Problem, Simple

__all__ = ["SPECS", "asking", "cluster", "node_name", "readonly", "readwrite", "slot_ranges"]

_OK: Final = Simple("OK")

_CLUSTER_WORDS: Final = {"SLOTS": 2, "SHARDS": 2, "NODES": 2, "INFO": 2, "MYID": 2, "KEYSLOT": 3}
"""What may follow CLUSTER, with its arity."""

SlotRange = tuple[int, int, Sequence[NodeAddress]]
"""First and last slot, and the nodes that hold them."""


def node_name(node: str) -> str:
    """A node's id as Redis Cluster writes them: 40 hex digits."""
    return hashlib.sha1(node.encode(), usedforsecurity=False).hexdigest()


def slot_ranges(partitions: int, holders: Sequence[Sequence[NodeAddress]]) -> list[SlotRange]:
    """First and last slot of each range with the same holders, and these."""
    ranges: list[SlotRange] = []
    for number, addresses in enumerate(holders):
        slots = slots_of_partition(Partition(number), partitions)
        if ranges and list(ranges[-1][2]) == list(addresses):
            ranges[-1] = (ranges[-1][0], slots[-1], addresses)
        else:
            ranges.append((slots[0], slots[-1], addresses))
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
        client.cluster_aware = server.clustered
    table = await client.current_table()
    if table.ref.partitioner != "slot":
        raise Problem(f"ERR table {table.ref.name} places its keys by {table.ref.partitioner}, not by slots")
    ranges = slot_ranges(table.partitions, await holders(client, table))
    if name == "SLOTS":
        return [
            [first, last, *([address.host, address.port, node_name(address.node), []] for address in addresses)]
            for first, last, addresses in ranges
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
            "cluster_size": len({addresses[0].node for _, _, addresses in ranges}),
            "cluster_current_epoch": server.epoch,
            "cluster_my_epoch": server.epoch,
        }.items()
    )


async def holders(client: CommandContext, table: ServedTable) -> list[list[NodeAddress]]:
    """By partition, the endpoints of the nodes that hold it; this server where no other is known.

    Clients take a node for a master or for a replica, and not for both. So a node that is the first of some partition
    is listed there and nowhere else.
    """
    host, port = client.local_address
    here = NodeAddress(client.server.node_id, host, port)
    addresses = await client.server.addresses(here)
    found: list[list[NodeAddress]] = []
    for partition in map(Partition, range(table.partitions)):
        nodes = client.server.holders(table, partition)
        found.append([addresses[node] for node in nodes if node in addresses] or [here])
    firsts = {each[0] for each in found}
    return [[each[0], *(address for address in each[1:] if address not in firsts)] for each in found]


def _nodes(ranges: Sequence[SlotRange]) -> list[NodeAddress]:
    return list(dict.fromkeys(address for _, _, addresses in ranges for address in addresses))


def _shards(ranges: Sequence[SlotRange]) -> list[Any]:
    """Ranges by their holders."""
    shards: dict[tuple[NodeAddress, ...], list[int]] = {}
    for first, last, addresses in ranges:
        shards.setdefault(tuple(addresses), []).extend((first, last))
    return [
        {
            "slots": slots,
            "nodes": [
                {
                    "id": node_name(address.node),
                    "port": address.port,
                    "ip": address.host,
                    "endpoint": address.host,
                    "role": "replica" if number else "master",
                    "replication-offset": 0,
                    "health": "online",
                }
                for number, address in enumerate(addresses)
            ],
        }
        for addresses, slots in shards.items()
    ]


def _node_lines(client: CommandContext, ranges: Sequence[SlotRange], nodes: Sequence[NodeAddress]) -> str:
    lines: list[str] = []
    epoch = client.server.epoch
    for address in nodes:
        own = [f"{first}-{last}" for first, last, addresses in ranges if addresses[0] == address]
        first_of = next((addresses[0].node for _, _, addresses in ranges if address in addresses), address.node)
        role = "master" if own else "slave"
        flags = f"myself,{role}" if address.node == client.server.node_id else role
        master = "-" if own else node_name(first_of)
        location = f"{address.host}:{address.port}@{address.port}"
        lines.append(
            f"{node_name(address.node)} {location} {flags} {master} 0 0 {epoch} connected"
            + "".join(f" {slots}" for slots in own)
        )
    return "\n".join(lines) + "\n"


def readonly(client: CommandContext, args: Sequence[bytes]) -> Simple:
    """READONLY: replicas are always read here; the command shows that the client knows about clusters."""
    client.cluster_aware = client.server.clustered
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
