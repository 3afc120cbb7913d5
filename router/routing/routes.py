"""The candidates of a part: what the map says, joined with what the nodes say of themselves."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from random import random
from typing import Any, Final, Protocol

from log_tier.catalog.catalog import Maps
from log_tier.catalog.cluster_map import TableEntry
from log_tier.model.errors import DeadlineExceeded, DuramenError, TableNotFound
from log_tier.model.identifiers import Offset, PartitionId, TableId
from router.membership.live_membership import LiveMembership
from router.routing.choice import Candidate, Fitness, assign, fitness_of
from router.routing.targets import THROUGH, Askable, Through

__all__ = ["Part", "Routes"]

# Another client may have just made a table that our map does not have: the map gets so long to catch up.
_MAP_WAIT_S: Final = 0.5

# A table that a server has named is in its map, so ours will have it, or say that it was dropped. A call waits for that
# until its own deadline; a stream, which has none, for so long.
_EXPECTED_WAIT_S: Final = 30.0

# So many tables that a server has named are remembered. One beyond them is waited for as any other.
_EXPECTED_MAX: Final = 10_000


class Part(Protocol):
    """A part of a request: it concerns one partition."""

    @property
    def partition(self) -> PartitionId:
        """The part's table and partition."""
        ...

    @property
    def after(self) -> Offset:
        """The offset that the replica must have applied."""
        ...

    @property
    def lag_max_ms(self) -> int:
        """How long it may not have been level with the log; 0: any time."""
        ...


class Routes:
    """Finds replicas. `refresh` asks the catalog's end, if this process can; without it, a call for an unknown table
    waits `map_wait_s` seconds for a map that has it, and for one that a server has named until the call's deadline.
    """

    def __init__(
        self,
        maps: Maps,
        membership: LiveMembership,
        *,
        through: Through | None = None,
        refresh: Callable[[], Awaitable[Any]] | None = None,
        map_wait_s: float = _MAP_WAIT_S,
    ) -> None:
        self.maps = maps
        self.membership = membership
        self._through = through
        self._refresh = refresh
        self._map_wait_s = map_wait_s
        self._expected: set[TableId] = set()
        """Tables that a server has named and our map has not shown yet."""

    def candidates(self, part: Part) -> list[Candidate]:
        """Every replica that may answer a part, in the map's order. Raises `TableNotFound`."""
        table_id, partition = name = part.partition
        table = self.maps.map.tables.get(table_id)
        if table is None:
            raise self._absent(table_id)
        if not 0 <= partition < table.partitions:
            raise TableNotFound(
                f"table {table.name} has partitions 0 to {table.partitions - 1}, not {partition}", table=table.id
            )
        found: list[Candidate] = []
        members = self.membership.members
        for node, role in table.assignments[partition]:
            member = members.get(node)
            if member is not None and role != "joining":
                fitness = fitness_of(member.view, name, part.after, part.lag_max_ms)
                found.append(Candidate(node, fitness, member.load))
        if self._through is not None and all(each.fitness > Fitness.THROUGH for each in found):
            found.append(Candidate(THROUGH, Fitness.THROUGH, 0))
        return found

    def assign(
        self, placed: Iterable[tuple[int, Sequence[Candidate]]]
    ) -> tuple[list[tuple[Askable, list[int]]], list[int]]:
        """Nodes with their parts, and the parts that no node can serve. About 2 µs a part."""
        groups, nowhere = assign(placed, random)
        members = self.membership.members
        return [(members.get(node) or self._server(), mine) for node, mine in groups.items()], nowhere

    def _server(self) -> Through:
        assert self._through is not None, "a node was chosen that is not in the membership"
        return self._through

    def expect(self, table_id: TableId) -> None:
        """A server has named this table: a map that does not have it is older than the server's."""
        cluster = self.maps.map
        if self._refresh is not None or table_id in cluster.tables:
            return
        if len(self._expected) >= _EXPECTED_MAX:
            self._expected = {each for each in self._expected if each not in cluster.tables}
        if len(self._expected) < _EXPECTED_MAX:
            self._expected.add(table_id)

    async def _wait_expected(self, table_id: TableId) -> None:
        try:
            await self.maps.wait_for(
                lambda cluster: table_id in cluster.tables or table_id in cluster.dropped, timeout=_EXPECTED_WAIT_S
            )
        except DeadlineExceeded:
            self._expected.discard(table_id)  # no later call waits as long again
            raise

    async def known(self, table_id: TableId) -> TableEntry:
        """A table. If the map does not have it, wait for a newer map; shortly, unless a server has named the table.
        Raises `TableNotFound`; of one that a server has named also `DeadlineExceeded`.
        """
        cluster = self.maps.map
        found = cluster.tables.get(table_id)
        if found is None and table_id not in cluster.dropped:
            if self._refresh is not None:
                await self._refresh()
            elif table_id in self._expected:
                await self._wait_expected(table_id)
            else:
                with suppress(DeadlineExceeded):
                    await self.maps.wait_for(lambda cluster: table_id in cluster.tables, timeout=self._map_wait_s)
            cluster = self.maps.map
        self._expected.discard(table_id)
        found = found or cluster.tables.get(table_id)
        if found is None:
            raise self._absent(table_id)
        return found

    def _absent(self, table_id: TableId) -> TableNotFound:
        """The error about a table that the map does not have. A client's map has those that are shown to its user."""
        revoked = "" if self._refresh is not None else ", or its grants were revoked"
        return TableNotFound(f"no table has the id {table_id}: it was dropped, or never was{revoked}", table=table_id)

    async def all_known(self, parts: Sequence[Part]) -> None:
        """See that the map has the tables of these parts, as far as they are there. Parts of others fail by themselves.

        Costs a look for each part where all is known.
        """
        tables = self.maps.map.tables
        unknown = {part.partition.table for part in parts if part.partition.table not in tables}
        for table_id in unknown:
            with suppress(TableNotFound):
                await self.known(table_id)

    async def wait_for_change(self, pause: float) -> None:
        """Return when the map has changed, or after `pause` seconds."""
        version = self.maps.map.version
        try:
            await self.maps.wait_for(lambda cluster: cluster.version > version, timeout=pause)
        except DeadlineExceeded:
            return
        except DuramenError:
            await asyncio.sleep(pause)  # the map is followed no more; the nodes may still answer
