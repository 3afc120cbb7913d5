"""When a cluster is level: everybody runs, has the newest map, and every replica has applied what the log holds."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final

from duramen.testing.cluster.cluster_processes import ClusterProcesses
from duramen.testing.cluster.faults import ClusterFaults
from duramen.testing.running.errors import NotLevel
from log_tier.model.errors import DuramenError
from log_tier.model.identifiers import PartitionId
from log_tier.model.log import Log
from serving_tier.node.node import Node

__all__ = ["LEVEL_S", "behind", "wait_level"]

LEVEL_S: Final = 60.0
"""Virtual seconds in which everything is level after the last fault: Duramen's own simulation holds it to that."""

_LOOK_S: Final = 0.05


async def wait_level(processes: ClusterProcesses, faults: ClusterFaults, within_s: float) -> None:
    """Return when everything is level. Raises `NotLevel`, at once where a process is down until it is started."""
    loop = asyncio.get_running_loop()
    deadline_s = loop.time() + within_s
    while what := await _lacking(processes):
        down = [name for name in processes.names if processes.by_name[name].stays_down]
        if down or loop.time() > deadline_s:
            since = "" if down else f" after {within_s:g} s"
            going_on = "; ".join(faults.going_on()) or "no fault goes on"
            raise NotLevel(f"the cluster is not level{since}: {what} ({going_on})")
        await asyncio.sleep(_LOOK_S)


async def _lacking(processes: ClusterProcesses) -> str:
    for name, process in processes.by_name.items():
        if not process.up.is_set():
            return f"{name} is down" + (f", it does not start: {process.why_down}" if process.why_down else "")
    for name, plane in processes.planes.items():
        if plane.hosting.pending:
            return f"{name} has not opened {len(plane.hosting.pending)} replicas"
    if len({catalog.map.version for catalog in processes.catalogs.values()}) > 1:
        return "somebody has an older map of the cluster"
    newest = next(iter(processes.catalogs.values())).map
    for job, _, task in newest.unfinished_tasks():
        return f"job {job.id} ({job.kind}) has a task left: {task.action} on {task.node}"
    assert processes.log is not None, "its process is up"
    return await behind(processes.nodes(), processes.log)


async def behind(nodes: Mapping[str, Node], log: Log) -> str:
    """What keeps the replicas of these nodes from being level with the log, in words; empty: nothing."""
    ends: dict[PartitionId, int] = {}
    for name, node in nodes.items():
        for replica in list(node):
            if replica.state != "ready":
                return f"{name} has {replica.name} {replica.state}: {replica.failure}"
            place = replica.id
            if place not in ends:
                try:
                    ends[place] = (await log.bounds(place)).latest
                except DuramenError as error:
                    return f"the log does not answer for {replica.name}: {error.message}"
            if replica.applied < ends[place]:
                return f"{name} has applied {replica.applied} of {replica.name}, and the log ends at {ends[place]}"
    return ""
