"""Everything that one machine needs, wired in one place: log, node, data plane.

The log lies in the data folder, or outside of it (`log_url`: a Kafka cluster, usually). The process that owns the log's
folder is its only node, whatever the catalog says; on a log that others may use too, the node is who its own folder
says it is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import quote

from duramen.server.wiring.collector import OpenedObjects
from duramen.server.wiring.foreign_names import DATA_NAMES, refuse_foreign
from duramen.server.wiring.node_folder import NodeFolder
from duramen.server.wiring.register import register_node
from duramen.server.wiring.serving_node import ON_DEMAND, ServingNode, SnapshotPolicy
from log_tier.catalog.catalog import Catalog
from log_tier.catalog.cluster_map import ClusterMap
from log_tier.catalog.commands import RegisterNode
from log_tier.concurrency.clocks import SYSTEM_CLOCK, Clock
from log_tier.concurrency.disk_errors import disk_refusal
from log_tier.concurrency.workers import THREADS, Workers
from log_tier.model.errors import DuramenError, InvalidRequest, NodeIdTaken
from log_tier.model.log import Log
from log_tier.open import LOG_FOLDER, open_log
from log_tier.privacy.private_files import tighten
from router.data.catalog_tables import CatalogTables
from router.data.local_data import LocalData
from serving_tier.locations.allowed import ANY_LOCAL, AllowedLocations

__all__ = ["NODE_ID", "THIS_MACHINE", "MachineParts", "SingleMachine", "open_local_data", "open_single_machine"]

NODE_ID: Final = "n1"
"""What the only node of one machine is called in the catalog."""

# Log and node share a data folder, so there cannot be a second node of that name.
_IDENTITY: Final = "single"


async def _own_log(url: str) -> Log:
    return await open_log(url)


@dataclass(frozen=True, slots=True)
class MachineParts:
    """What a database takes of its machine: the seam at which a test puts a disk that fails, and virtual time."""

    open_log: Callable[[str], Awaitable[Log]] = _own_log
    """Opens the log in the data folder, by its URL."""
    clock: Clock = SYSTEM_CLOCK
    workers: Workers = THREADS


THIS_MACHINE: Final = MachineParts()


async def open_local_data(
    data: Path,
    *,
    log_url: str | None = None,
    take_over: bool = False,
    snapshots: SnapshotPolicy = ON_DEMAND,
    machine: MachineParts = THIS_MACHINE,
) -> LocalData:
    """Open the data folder (made where it is missing) and serve what is in it; `LocalData.close` ends it all.

    Returns as soon as the replicas follow the log: one that still catches up lets its readers wait. Raises
    `FolderInUse`, `ForeignFolder`, `FolderReadOnly`, `UnknownFormat`, `DiskFull`, `LogDamaged`; with a `log_url` also
    `Disconnected`, and `NodeIdTaken` where another folder is that log's only node: `take_over` says that it is lost.
    """
    opened = await open_single_machine(data, log_url=log_url, take_over=take_over, snapshots=snapshots, machine=machine)
    return opened.data_plane


class SingleMachine(NamedTuple):
    """A whole database in this process. The data plane owns everything: `data_plane.close()`."""

    data_plane: LocalData
    node: ServingNode


async def open_single_machine(
    data: Path,
    *,
    log_url: str | None = None,
    take_over: bool = False,
    address: str = "",
    snapshots: SnapshotPolicy = ON_DEMAND,
    allowed: AllowedLocations = ANY_LOCAL,
    machine: MachineParts = THIS_MACHINE,
) -> SingleMachine:
    """`open_local_data`, but return all parts and not the data plane alone. `address`: host:port of the server around
    it, if there is one. `allowed`: the locations of versions that it opens.
    """
    objects = OpenedObjects()
    with objects.making():
        async with AsyncExitStack() as opened:
            opened.callback(objects.release)
            try:
                identity = _IDENTITY
                if log_url is not None:
                    _check_no_log(data)
                    folder = await asyncio.to_thread(NodeFolder.open, data, node_id=NODE_ID)
                    opened.callback(folder.close)
                    identity = folder.identity
                log: Log = (
                    await open_log(log_url)
                    if log_url is not None
                    else await machine.open_log(await asyncio.to_thread(_checked_url, data))
                )
                opened.push_async_callback(log.close)
                await asyncio.to_thread(tighten, data)
                catalog = await Catalog.open(log)
                opened.push_async_callback(catalog.close)
                _check_alone(catalog.map, data)
                # The process that owns the log's folder owns everything: no other process can be this node.
                command = RegisterNode(NODE_ID, address, identity, take_over=log_url is None or take_over)
                await _register(catalog, command)
                if log_url is None:
                    await CatalogTables(log, catalog).reconcile()
                node = await ServingNode.open(
                    log,
                    catalog,
                    data,
                    node_id=NODE_ID,
                    identity=identity,
                    snapshots=snapshots,
                    allowed=allowed,
                    clock=machine.clock,
                    workers=machine.workers,
                )
                opened.push_async_callback(node.close)
            except DuramenError:
                raise  # some of them are a `TimeoutError`, so an `OSError`
            except OSError as error:
                what = f"the data folder {data} cannot be used"
                raise disk_refusal(error, what, path=data, effect="the database was not opened") from error
            await node.hosting.settled()
            return SingleMachine(LocalData(log, catalog, node.hosting, resources=opened.pop_all()), node)
    raise AssertionError("not reached")


async def _register(catalog: Catalog, command: RegisterNode) -> None:
    try:
        await register_node(catalog, command)
    except NodeIdTaken as error:
        raise NodeIdTaken(
            f"this log has its server already, with another data folder ({error.message.partition(': ')[0]}): connect "
            "to that one, or run several nodes with `duramen serve node`; if its data folder is lost for good, start "
            "this one with `--take-over` (take_over=True in a program)",
            node=command.node,
        ) from error


def _check_no_log(data: Path) -> None:
    if (data / LOG_FOLDER).exists():
        raise InvalidRequest(
            f"{data} holds a log of its own, whose tables would not be in the other one: start it without --log, or "
            "name another folder"
        )


def _check_alone(cluster: ClusterMap, data: Path) -> None:
    """Refuse a cluster's folder: one process would serve only what its first node has."""
    others = sorted(
        {
            replica.node
            for table in cluster.tables.values()
            for assigned in table.assignments
            for replica in assigned
            if all(other.node != NODE_ID for other in assigned)
        }
    )
    if others:
        raise InvalidRequest(
            f"{data} was used by a cluster, and {', '.join(others)} hold partitions that {NODE_ID} does not: start it "
            f"with `duramen up --nodes {len(cluster.nodes)} --data {data}`, or give {NODE_ID} all partitions first "
            "(`duramen admin drain`)"
        )


def _checked_url(data: Path) -> str:
    """The log's URL. Refuses a folder that another program made, before anything is written into it."""
    refuse_foreign(data, DATA_NAMES)
    return f"file://{quote(str(data.absolute()))}"
