"""What happens to a cluster: faults of the log's disk, incidents of processes and links, and when it is level."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

from duramen.testing.cluster.levelling import behind
from simulation.book import Broken
from simulation.cluster_audit import check_audit
from simulation.cluster_connections import check_connections
from simulation.cluster_history import check_histories, meddle_with_history
from simulation.cluster_jobs import bugs, damages, finish_drops, maps_differ, under_way, unfinished, work
from simulation.cluster_passwords import check_passwords, use_passwords
from simulation.cluster_past import check_builds, check_pasts, restore_pasts
from simulation.cluster_patches import check_patches, patch_rows
from simulation.cluster_peers import check_peers, use_peers
from simulation.cluster_places import check_places, use_places
from simulation.cluster_put_back import accept_loss
from simulation.cluster_quotas import check_quotas, use_quotas
from simulation.cluster_rows import check_row_replicas, check_rows, use_rows
from simulation.cluster_table_quotas import check_table_quotas, use_table_quotas
from simulation.cluster_tallies import check_tallies
from simulation.cluster_trims import change_logs, lose_indexes, secure_rollbacks
from simulation.cluster_unique import check_unique_rows, want_values
from simulation.cluster_users import check_revocations, use_grants
from simulation.cluster_versions import change_versions
from simulation.cluster_world import NODES, ClusterWorld
from simulation.job_steps import TASKLESS, meets_jobs
from simulation.node_faults import strike_nodes
from simulation.plan import TASK, Incident
from simulation.planned_machine import faults, set_clocks

__all__ = ["OPERATORS", "Operator", "disk_operator", "happen", "level"]

Operator = Callable[[ClusterWorld, asyncio.Event], Coroutine[Any, Any, None]]
"""Works until the event is set."""

OPERATORS: Final[tuple[Operator, ...]] = (
    work,
    change_versions,
    change_logs,
    restore_pasts,
    use_grants,
    use_quotas,
    use_table_quotas,
    use_places,
    use_peers,
    use_passwords,
    meddle_with_history,
    use_rows,
    patch_rows,
    want_values,
)
_PACE: Final = 0.6
"""What the times of a plan are multiplied by."""
_OPERATOR_S: Final = 1.0
"""What an operator takes to see that a log server has stopped."""
_LOOK_S: Final = 0.25
_SPOT_S: Final = 0.004
"""So often is looked for a task to aim an incident at."""
_POWER_CHANCE: Final = 0.5
"""Of the kills of a node, so many are losses of power."""
_BRIEF: Final = ("compact", "move", "swap")
"""Tasks that are done soon, or are rare: a fault is aimed at them rather than at others."""
_LEVEL_S: Final = 60.0
"""Virtual time in which everything is level again after the last fault."""


async def disk_operator(world: ClusterWorld) -> None:
    """Start the log server again where its disk has failed: it takes no writes any more."""
    while True:
        await asyncio.sleep(_LOOK_S)
        failures = _disk_failures(world)
        if failures > world.failures_seen:
            await asyncio.sleep(_OPERATOR_S)
            world.story.tell("operator", "starts the log server again")
            world.processes["log"].end(politely=False)
            world.failures_seen = failures


def _disk_failures(world: ClusterWorld) -> int:
    return sum(count for name, count in world.story.met.items() if "fails at" in name)


async def happen(world: ClusterWorld, stop: asyncio.Event, operators: Sequence[Operator] = OPERATORS) -> None:
    """Let the plan's faults and incidents happen; when `stop` is set and they are over, wait until all is level."""
    world.disk_met = meets_jobs
    happening = [asyncio.create_task(_meet_at(world, each)) for each in world.plan.incidents if not each.aimed]
    happening += [asyncio.create_task(each(world, stop)) for each in (_aim, *operators)]
    happening.append(asyncio.create_task(strike_nodes(world.node_disks, world.plan.node_faults, _PACE)))
    happening.append(asyncio.create_task(set_clocks(world.plan, world.story, _PACE, world.clock_of)))
    try:
        await faults(world.machine, world.plan, _PACE)
        await stop.wait()
        await asyncio.gather(*happening)
    finally:
        for task in happening:
            task.cancel()
    world.disk.calm()
    for disk in world.node_disks.values():
        disk.calm()
    world.network.calm()
    await asyncio.sleep(world.plan.copies_s)  # the last copies arrive
    world.story.tell("world", "the faults are over")
    if world.drops:
        await world.processes["router"].up.wait()
        await finish_drops(world)
    await level(world)
    await check_revocations(world)
    await check_quotas(world)
    await check_table_quotas(world)
    await check_places(world)
    await check_peers(world)
    await check_connections(world)
    await check_passwords(world)
    await check_audit(world)
    await check_histories(world)
    await check_rows(world)
    await check_patches(world)
    await check_unique_rows(world)
    await check_tallies(world)
    await check_pasts(world)
    await check_builds(world)
    if world.plan.trims is not None:
        await secure_rollbacks(world)
        await level(world)
        lose_indexes(world)
        await level(world)
        await check_tallies(world)
        await check_row_replicas(world)
    for bug in bugs(world):
        raise Broken("typed", bug)
    for damage in damages(world):
        raise Broken("damage", damage)


async def _aim(world: ClusterWorld, stop: asyncio.Event) -> None:
    """Let the aimed incidents of the plan happen, each at another task."""
    met: set[tuple[int, int] | str] = set()
    async with asyncio.TaskGroup() as happening:
        for incident in filter(lambda each: each.aimed, world.plan.incidents):
            at_s = incident.at_s * _PACE
            await asyncio.sleep(max(_SPOT_S, at_s - world.loop.time()))
            while not stop.is_set():
                world.begun.clear()
                with suppress(TimeoutError):
                    async with asyncio.timeout_at(world.loop.time() + _SPOT_S):
                        await world.begun.wait()
                found = next((each for each in _spotted(world) if each[0] not in met), None)
                if found is not None:
                    key, node = found
                    met.add(key)
                    happening.create_task(_meet_after(world, incident.delay_s, _at_node(incident, node)))
                    break


def _spotted(world: ClusterWorld) -> Iterator[tuple[tuple[int, int] | str, str]]:
    """What a fault may be aimed at: the tasks of jobs, and once in a run each kind of what has none."""
    yield from ((what, TASKLESS[what]) for what, count in world.under_way.items() if count and what in TASKLESS)
    yield from under_way(world, first=_BRIEF)


def _at_node(incident: Incident, node: str) -> Incident:
    one, other = (node if each == TASK else each for each in (incident.one, incident.other))
    return replace(incident, one=one, other="log" if one == other else other)


async def _meet_at(world: ClusterWorld, incident: Incident) -> None:
    await _meet_after(world, incident.at_s * _PACE, incident)


async def _meet_after(world: ClusterWorld, seconds: float, incident: Incident) -> None:
    await asyncio.sleep(seconds)
    await _meet(world, incident)


async def _meet(world: ClusterWorld, incident: Incident) -> None:
    one, other, seconds, network = incident.one, incident.other, incident.seconds, world.network
    world.story.tell("incident", f"{incident.kind} {one} {other} for {seconds:.2f} s")
    world.story.met[f"incident {incident.kind}"] += 1
    meets_jobs(world, incident.kind)
    if incident.kind in ("kill", "stop"):
        world.keeps[one] = incident.kind == "stop" or incident.keeps
        if incident.kind == "kill" and one in NODES and world.crashes.random() < _POWER_CHANCE:
            world.keeps[one] = True
            world.powerless.add(one)
        world.processes[one].end(politely=incident.kind == "stop", down_s=seconds)
    elif incident.kind == "reset":
        network.reset(one, other)
    elif incident.kind == "reset reply":
        network.link(one, other).reset_next = True
    elif incident.kind == "copies":
        network.link(one, other).copies_s = incident.late_s
        await asyncio.sleep(seconds)
        network.link(one, other).copies_s = 0.0
    elif incident.kind in ("late", "behind", "slow"):
        links = [network.link(one, other)]
        if incident.kind == "late":
            links.append(network.link(other, one))
        for link in links:
            link.late_s = incident.late_s
        await asyncio.sleep(seconds)
        for link in links:
            link.late_s = 0.0
    else:
        pairs = [(one, other)] if incident.kind == "one way" else [(one, other), (other, one)]
        if incident.kind == "pause":
            pairs = [pair for each in world.processes if each != one for pair in ((one, each), (each, one))]
        for source, target in pairs:
            network.cut(source, target)
        await asyncio.sleep(seconds)
        for source, target in pairs:
            network.heal(source, target)


async def level(world: ClusterWorld) -> None:
    """Return when everybody is alive and every replica has applied the log. Raises `Broken` if that takes too long."""
    deadline_s = world.loop.time() + _LEVEL_S
    while what := await _not_level(world):
        if world.plan.copied_s is not None:
            accept_loss(world)
        if world.loop.time() > deadline_s:
            raise Broken("level", f"{_LEVEL_S:g} s after the last fault {what}")
        await asyncio.sleep(0.1)
    world.story.tell("world", "all is level")


async def _not_level(world: ClusterWorld) -> str:
    if _disk_failures(world) > world.failures_seen:
        return "the log server has not been started again"
    for process in world.processes.values():
        if process.name != "clients" and not process.up.is_set():
            return f"{process.name} does not answer"
    for name, (_, plane) in world.nodes.items():
        if plane.hosting.pending:
            why = ", ".join(f"{place}: {each.trouble}" for place, each in plane.hosting.pending.items())
            return f"{name} has not opened {len(plane.hosting.pending)} replicas ({why})"
    assert world.log is not None, "its process is up"
    if what := await behind({name: plane.node for name, (_, plane) in world.nodes.items()}, world.log):
        return what
    if maps_differ(world):
        return "somebody has an older map"
    for job, task in unfinished(world):
        node = world.nodes[task.node][0] if task.node in world.nodes else None
        progress = node and {key: run.phase for key, run in node.worker.running().items()}
        return f"job {job.id} ({job.kind} {job.subject}) has {task.action} {task.state} on {task.node}: {progress}"
    return ""
