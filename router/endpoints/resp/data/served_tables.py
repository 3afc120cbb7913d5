"""The tables as this endpoint serves them: found by name, made at first use, with their replicas at hand.

A connection begins in the table `default`. `SELECT flights` goes to another one by name; `SELECT 3` to the one that is
called `db3`, so that clients that only know numbers have their sixteen databases. `default` and the numbered ones are
made when the first command comes that needs them; a name has to be there.

**What has been seen.** `seen[p]` is the highest offset of partition p that any connection of this endpoint has seen:
the place of a write, or the state of a read that another node's replica answered. One list for all connections, and not
one for each: an application's pool writes by one connection and reads by the next, and expects what one Redis server
gives. It belongs to the table's id and outlives the object that serves the table
(`router/endpoints/resp/data/floors.py`).

A write is acknowledged when it is on stable storage, and the replica here applies it a tenth of a millisecond later.
Until then its key is among the **fresh** keys of its partition, and a reader of that key waits. Readers of other keys
need not: what they get is not older than that key's last acknowledged write, and registers that are linearizable one by
one are so together (Herlihy and Wing, 1990). Walks over all keys wait for `seen`.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping, Sequence, Set
from contextlib import suppress
from pathlib import Path
from typing import Final

from log_tier.catalog.cluster_map import ClusterMap, TableEntry
from log_tier.model.batch import Batch
from log_tier.model.errors import DuramenError, TableExists, TableNotFound
from log_tier.model.identifiers import NOTHING, Offset, Partition, TableId
from log_tier.model.table_ref import TableRef
from log_tier.model.tokens import Token
from log_tier.rows.definition import TableDefinition
from log_tier.rows.json_rows.json_table import JsonTable
from log_tier.rows.table_spec import TableSpec
from router.data.seam import TableAdmin
from router.endpoints.resp.data.floors import Floors
from router.endpoints.resp.data.freshness_page import FreshnessPages
from router.endpoints.resp.data.value_cache import CacheBudget, ValueCache
from router.endpoints.resp.wire.arguments import text_of
from router.endpoints.resp.wire.limits import REQUEST_TIMEOUT_S
from router.endpoints.resp.wire.replies import Problem
from serving_tier.index.lmdb.lmdb_index import LmdbIndex
from serving_tier.node.node import Node
from serving_tier.replica.replica import Replica

__all__ = ["DEFAULT_TABLE", "NUMBERS", "ServedTable", "ServedTables", "name_of"]

DEFAULT_TABLE: Final = "default"

NUMBERS: Final = 16
"""How many databases a Redis server has if nobody says otherwise."""


_is_number: Final = re.compile(r"-?[0-9]+").fullmatch
_is_database: Final = re.compile(r"db0*[1-9][0-9]?").fullmatch
# Python refuses to read numbers of thousands of digits; these are none of a database.
_NUMBER_LENGTH_MAX: Final = 20


def name_of(selected: bytes) -> str:
    """The table that SELECT names. Raises `Problem` for a number that is none of a database."""
    text = text_of(selected)
    if not _is_number(text):
        return text
    number = int(text) if len(text) <= _NUMBER_LENGTH_MAX else NUMBERS
    if not 0 <= number < NUMBERS:
        raise Problem("ERR DB index is out of range")
    return DEFAULT_TABLE if number == 0 else f"db{number}"


def is_numbered(name: str) -> bool:
    """Is it a table that is made at first use?"""
    return name == DEFAULT_TABLE or (bool(_is_database(name)) and int(name[-2:].lstrip("b")) < NUMBERS)


class ServedTable:
    """A table, and what of it is in this process."""

    __slots__ = (
        "_cache_budget",
        "_will_describe",
        "caches",
        "claims",
        "floor",
        "floors",
        "form",
        "fresh",
        "gone",
        "ids",
        "looks",
        "needed",
        "node",
        "page",
        "partition_of",
        "partitions",
        "ref",
        "replicas",
        "seen",
    )

    def __init__(
        self,
        ref: TableRef,
        node: Node | None,
        cache_budget: CacheBudget,
        floors: Floors | None = None,
        form: JsonTable | None = None,
    ) -> None:
        """`floors`: what is known of the table already; None: nothing. `form`: of a table with a definition."""
        floors = floors or Floors(ref.partitions)
        self.ref = ref
        self.form = form
        """The text of its keys and values; None: they are bytes, as clients send them. See `row_words.py`. That of its
        keys stays; for values `ServedTables.form_of` has the newest."""
        self.looks = 0
        """How often its definition was asked for anew."""
        self.node = node
        self.page = floors.page
        """The freshness page: what reader processes know of the table."""
        self._cache_budget = cache_budget
        self.partitions = ref.partitions
        self.ids: Final = [ref.partition(number) for number in range(ref.partitions)]
        """The identity of each partition, made once."""
        self.partition_of = ref.partition_of
        self.floors = floors
        """What its readers are shown at least. What follows is theirs, one step nearer."""
        self.seen = floors.seen
        self.floor = floors.floor
        self.fresh = floors.fresh
        self.needed = floors.needed
        self.replicas: list[Replica | None] = [None] * ref.partitions
        """By partition: the replica of this process, if there is one and it can be read at once."""
        self.caches: list[ValueCache | None] = [None] * ref.partitions
        """What was read of each of them lately."""
        self.claims: list[Set[bytes]] = [frozenset()] * ref.partitions
        """By partition: keys that a round of commands has read and not yet written; see `rounds/`."""
        self.gone = False
        """The table was dropped: a command that needs it looks the name up again."""
        self._will_describe = False
        self.look()

    @property
    def takes_together(self) -> bool:
        """May the log reject a row for what is in others? Then the writes of a group are one atomic group."""
        return self.form is not None and self.form.definition.judge.unique is not None

    def look(self) -> None:
        """Find the replicas that are here."""
        if self.node is None:
            return
        changed = False
        for partition in map(Partition, range(self.partitions)):
            before = self.replicas[partition]
            if before is not None and before.state not in ("closed", "stopped"):
                continue
            if before is not None:
                # Its successor must not show less.
                self.raise_floor(partition, max(before.index.shown, self.seen[partition]))
            replica: Replica | None = None
            with suppress(DuramenError):
                replica = self.node.replica(self.ids[partition])
            if replica is not None and (replica.failure is not None or replica.state == "replaying"):
                replica = None
            self._let_go(partition)
            self.replicas[partition], self.caches[partition] = replica, None
            changed = True
            if replica is not None:
                self.raise_floor(partition, replica.floor)
                self.caches[partition] = ValueCache.open(replica, self._cache_budget)
                if self.page is not None:
                    replica.observers.append(self)
        if changed:
            self._describe()

    def replica_applied(self, index: LmdbIndex, batches: Sequence[Batch]) -> None:
        """Nothing is kept here of what was applied."""

    def replica_left(self) -> None:
        """Reader processes must not read that index any more. Of a table that is cleared or dropped all leave together,
        and what follows is described once.
        """
        if self.page is None:
            return
        self.page.withdraw()
        if not self._will_describe:
            self._will_describe = True
            asyncio.get_running_loop().call_soon(self._describe)

    def _describe(self) -> None:
        """Publish to reader processes which indexes they may read."""
        self._will_describe = False
        if self.page is not None:
            self.page.describe([_readable_path(replica) for replica in self.replicas])

    def _let_go(self, partition: Partition) -> None:
        cache, replica = self.caches[partition], self.replicas[partition]
        if cache is not None:
            cache.close()
        if replica is not None and self in replica.observers:
            replica.observers.remove(self)

    def close(self) -> None:
        """Let go of what is kept in memory, but for the floors. Idempotent."""
        for partition in map(Partition, range(self.partitions)):
            self._let_go(partition)

    def saw(self, partition: Partition, offset: Offset) -> None:
        """A connection has seen `offset`."""
        self.floors.saw(partition, offset)

    def raise_floor(self, partition: Partition, offset: Offset) -> None:
        """A state was shown that holds `offset`, of whatever key."""
        self.floors.raise_floor(partition, offset)

    def reached(self, partition: Partition, offset: Offset) -> bool:
        """Does no later read of the partition show less than `offset`? True of a partition that the table has not."""
        if partition >= self.partitions:
            return True
        replica = self.replicas[partition]
        if replica is not None and replica.index.applied >= offset:
            self.raise_floor(partition, offset)
        return offset <= self.floor[partition]

    def token(self) -> Token:
        """Everything that this endpoint has shown of the table, its own replicas' states included."""
        offsets = {
            Partition(number): max(seen, NOTHING if replica is None else replica.index.shown)
            for number, (seen, replica) in enumerate(zip(self.seen, self.replicas, strict=True))
        }
        return Token({self.ref.id: {partition: offset for partition, offset in offsets.items() if offset != NOTHING}})


class ServedTables:
    """The tables that were used so far, by name."""

    def __init__(
        self,
        connection: TableAdmin,
        node: Node | None,
        partitions: Callable[[], int],
        cache_budget: CacheBudget,
        pages: FreshnessPages | None = None,
        *,
        known: Callable[[], Mapping[TableId, TableEntry]],
    ) -> None:
        """`partitions`: of a table that is created here. `cache_budget`: the memory of the value caches. `pages`: the
        freshness pages, if there are reader processes. `known`: the tables that the catalog has, as far as this process
        has heard.
        """
        self._cache_budget = cache_budget
        self._pages = pages
        self._connection = connection
        self._node = node
        self._partitions = partitions
        self._known = known
        self._open: dict[str, ServedTable] = {}
        self.dropped: tuple[TableId, ...] = ()
        """Of the map that the tables in use were compared with; an older one while one is gone and not made again."""
        self._floors: dict[TableId, Floors] = {}
        self._opening = asyncio.Lock()
        self._learning = asyncio.Lock()
        self.converting: Final = asyncio.Lock()
        """Held while a thread reads or makes JSON of many bytes: its memory is bounded for all clients together."""

    def at_hand(self, name: str) -> ServedTable | None:
        """The table, where it was used before and is still there, as far as this process has heard."""
        table = self._open.get(name)
        return None if table is None or table.gone or table.ref.id not in self._known() else table

    def served(self) -> list[ServedTable]:
        """The tables that were used so far, by name."""
        return [self._open[name] for name in sorted(self._open) if not self._open[name].gone]

    async def forget_dead_readers(self) -> None:
        """Give back the pages that processes which died held of the indexes. In a thread: there may be thousands."""
        replicas = [replica for table in self.served() for replica in table.replicas if replica is not None]
        await asyncio.to_thread(_forget_dead_readers, [each.index for each in replicas if each.failure is None])

    def map_changed(self, newest: ClusterMap) -> None:
        """Called with each newer map that has other dropped tables: connections that selected a table which was
        dropped, and made again under the same name, go on with the new one. O(tables in use).
        """
        made_again = True
        for name, table in self._open.items():
            if table.ref.id not in newest.tables and not table.gone:
                table.gone = newest.named(name) is not None
                made_again = made_again and table.gone
        if made_again:
            self.dropped = newest.dropped

    def close(self) -> None:
        """Let go of all of them. Idempotent."""
        for table in self._open.values():
            table.close()
        for floors in self._floors.values():
            floors.close()

    async def open(self, name: str) -> ServedTable:
        """Find a table; make it if it is a numbered one. Raises `TableNotFound`, `InvalidName`, and what else fails."""
        found = self.at_hand(name)
        if found is not None:
            return found
        async with self._opening:
            found = self.at_hand(name)
            if found is not None:
                return found
            try:
                ref = await self._find(name)
                form = await self._form_of(ref)
            finally:
                self._forget_dropped()
            return self._served(ref, form)

    async def _form_of(self, ref: TableRef) -> JsonTable | None:
        definition = await self._connection.definition(ref.id, timeout=REQUEST_TIMEOUT_S) if ref.defined else None
        return None if definition is None else JsonTable(definition)

    def form_of(self, table: ServedTable) -> JsonTable:
        """The text of a table's keys and values by the newest definition that this process has heard of."""
        assert table.form is not None, f"table {table.ref.name} has no definition"
        entry = self._known().get(table.ref.id)
        if entry is not None and entry.definition is not None:
            _renew(table, entry.definition)
        return table.form

    async def learn(self, table: ServedTable, form: JsonTable, schema: int) -> bool:
        """Ask for a definition with that schema, for who met it with `form`; is there a newer form? Those who meet
        something at once share one look at the catalog's end.
        """
        looks = table.looks
        async with self._learning:
            if looks == table.looks and table.form is form:
                found = await self._connection.definition(table.ref.id, schema=schema, timeout=REQUEST_TIMEOUT_S)
                table.looks += 1
                if found is not None:
                    _renew(table, found)
        return table.form is not form

    def _served(self, ref: TableRef, form: JsonTable | None) -> ServedTable:
        """The table behind a reference. One that is served already is served on by the same object."""
        found = self._open.get(ref.name)
        if found is not None and found.ref.id == ref.id:
            found.look()
            found.gone = False
            return found
        floors = self._floors.get(ref.id)
        if floors is None:
            # Reader processes have no definitions: such a table is read by the server.
            paged = self._pages is not None and self._node is not None and form is None
            page = self._pages.make(ref) if paged and self._pages is not None else None
            floors = self._floors[ref.id] = Floors(ref.partitions, page)
        found = self._open[ref.name] = ServedTable(ref, self._node, self._cache_budget, floors, form)
        return found

    def _forget_dropped(self) -> None:
        """Let go of the tables that the catalog has no more. O(tables that were used)."""
        known = self._known()
        for name, table in list(self._open.items()):
            if table.ref.id not in known:
                table.gone = True
                table.close()
                del self._open[name]
        for table_id in [each for each in self._floors if each not in known]:
            self._floors.pop(table_id).close()

    async def _find(self, name: str) -> TableRef:
        try:
            return await self._connection.find_table(name, timeout=REQUEST_TIMEOUT_S)
        except TableNotFound:
            if not is_numbered(name):
                raise
        with suppress(TableExists):  # another client was first
            return await self._connection.create_table(TableSpec(name, self._partitions()), timeout=REQUEST_TIMEOUT_S)
        return await self._connection.find_table(name, timeout=REQUEST_TIMEOUT_S)


def _forget_dead_readers(indexes: Sequence[LmdbIndex]) -> None:
    for index in indexes:
        with suppress(DuramenError):  # what is wrong with it stops its replica
            index.forget_dead_readers()


def _renew(table: ServedTable, definition: TableDefinition) -> None:
    if table.form is not None and definition.number > table.form.definition.number:
        table.form = JsonTable(definition)


def _readable_path(replica: Replica | None) -> Path | None:
    """Where the index lies, for other processes; None where they must not read it. No file is opened: to describe a
    table of 1,024 partitions takes one turn of the event loop.
    """
    if replica is None or replica.failure is not None or replica.index.is_closed:
        return None
    return replica.index.path
