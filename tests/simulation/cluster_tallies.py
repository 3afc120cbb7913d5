"""The tallies of a simulated cluster: what every version of every replica, and each open watch, has counted is what the
log holds.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from contextlib import aclosing, asynccontextmanager
from typing import Any, Final

from log_tier.model.batch_header import HEADER_BYTES, BatchHeader, read_header, split_batches
from log_tier.model.errors import DuramenError
from log_tier.model.identifiers import NOTHING, Offset, PartitionId
from log_tier.tally.acknowledged import find_runs
from log_tier.tally.compare import compare, cuts
from log_tier.tally.count import count_pieces
from log_tier.tally.period import PartitionTally
from router.data import watch
from router.data.gather.write_gatherer import WriteGatherer
from serving_tier.index.lmdb.lmdb_index import LmdbIndex
from simulation.book import Broken
from simulation.cluster_jobs import checked_table, newest_map
from simulation.cluster_world import ClusterWorld
from simulation.planted import Patches

__all__ = ["PLANTED_IN_TALLIES", "check_tallies"]


async def check_tallies(world: ClusterWorld) -> None:
    """Compare all tallies of the clients' table with the log, minute by minute; then let each node do so, as it does by
    itself every minute. Before that, what snapshots hold that were asked for. Raises `Broken`.
    """
    world.story.met["asked snapshot compared"] += world.asked_snapshots.check(newest_map(world))
    table, log = checked_table(world), world.log
    if table is None or log is None:
        return
    for place in table.partition_ids():
        tallies = dict(_tallies(world, place))
        bounds = await log.bounds(place)
        lowest = max(bounds.earliest, bounds.compacted)
        if not tallies or lowest > bounds.latest:
            continue
        await _check_sessions(world, place, lowest)
        start = Offset(max(lowest, min(tally.since for tally in tallies.values())))
        headers: list[BatchHeader] = []
        reader: Any = log.read(place, start, follow=False)
        async with aclosing(reader) as chunks:
            async for chunk in chunks:
                headers += map(read_header, split_batches(chunk.data))
        pieces = list(count_pieces(headers, start=start, ends=cuts(tallies.values())))
        for line in compare(pieces, tallies, lowest=Offset(lowest)):
            for name, found in line.replicas.items():
                tier = "tally of a watch" if name.startswith("watch") else "tally"
                world.story.met[f"{tier} {found.verdict}"] += 1
                if found.verdict == "different":
                    raise Broken(
                        "tally",
                        f"{name} counted {found.counted} of partition {place.partition} in minute {line.minute}, and "
                        f"the log holds {found.written}",
                    )

    for name, (serving, plane) in list(world.nodes.items()):
        await serving.proof.round(rest=0)
        for place, proof in plane.node.proofs.items():
            world.story.met["proof of a node" if proof.proven > NOTHING else "proof of a node, of nothing"] += 1
            if proof.differs:
                raise Broken("tally", f"{name} says of partition {place.partition}: {proof.differs}")


async def _check_sessions(world: ClusterWorld, place: PartitionId, lowest: int) -> None:
    """What clients were acknowledged is in the log, as far as it still has it. Raises `Broken`."""
    runs = [run for session in world.sessions for run in session.runs() if run.partition == place]
    assert world.log is not None, "sessions are compared with a log that is there"
    headers: list[BatchHeader] = []
    reader: Any = world.log.read(place, (await world.log.bounds(place)).earliest, follow=False)
    async with aclosing(reader) as chunks:
        async for chunk in chunks:
            headers += map(read_header, split_batches(chunk.data))
    for found in find_runs(headers, runs):
        if found.is_equal():
            world.story.met["tally of a session equal"] += 1
        elif found.run.first < lowest:
            world.story.met["tally of a session not compared"] += 1
        else:
            raise Broken("tally", f"a session was acknowledged {found.run}, and the log holds {found}")


def _tallies(world: ClusterWorld, place: PartitionId) -> Iterator[tuple[str, PartitionTally]]:
    """Of the live version and of those that are level with it, and of the watches, at every node that lives."""
    for name, (_, plane) in world.nodes.items():
        replica = plane.node.hosted().get(place)
        if replica is not None:
            for index in (replica.index, *replica.versions.level.values()):
                yield f"version {index.version} at {name}", index.tally()
            for subscription, tally in plane.node.deliveries.of(place):
                yield f"{subscription} at {name}", tally


def _standby_takes_the_count_over() -> Patches:
    """A version that is made level takes everything over from the live one, its count of the minute included. Its
    entries are right, so no reader sees it.
    """
    inner = LmdbIndex.level_with

    def level_with(self: LmdbIndex, live: LmdbIndex) -> None:
        inner(self, live)
        self._state = self._state._replace(counting=live._state.counting)

    return [(LmdbIndex, "level_with", level_with)]


def _watch_skips_a_batch() -> Patches:
    """Where a watch is given several batches at once, it passes on all but the first. What it says of its positions is
    right, so nobody waits for them.
    """

    @asynccontextmanager
    async def skipping(reader: Any) -> AsyncIterator[Any]:
        async def chunks() -> AsyncGenerator[Any, None]:
            async for chunk in reader:
                _, *others = split_batches(chunk.data)
                yield chunk._replace(data=b"".join(others)) if others else chunk

        try:
            yield chunks()
        finally:
            await reader.aclose()

    return [(watch, "aclosing", skipping)]


def _session_counts_what_was_not_acknowledged() -> Patches:
    """A batch that was given up counts as if it had its place."""
    inner = WriteGatherer._give_up

    def give_up(self: Any, batch: Any, reason: DuramenError) -> None:
        if self._acknowledged is not None and batch.data:
            self._acknowledged.noted.append((batch.place, batch.data[:HEADER_BYTES], Offset(0), 0, True))
        inner(self, batch, reason)

    return [(WriteGatherer, "_give_up", give_up)]


PLANTED_IN_TALLIES: Final[dict[str, Callable[[], Patches]]] = {
    "a session counts what was not acknowledged": _session_counts_what_was_not_acknowledged,
    "a watch skips a batch": _watch_skips_a_batch,
    "a standby takes the live version's count for its own": _standby_takes_the_count_over,
}
