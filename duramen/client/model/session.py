"""The session: what this client has seen, so that no replica shows it an older state.

It holds one offset per table and partition, the highest seen, and only ever rises: reads and writes merge into it by
themselves. Any thread may change it; a reader of a table's list sees plain numbers.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping

from log_tier.concurrency.forking import on_fork
from log_tier.model.identifiers import NOTHING, Offset, Partition, TableId
from log_tier.model.table_ref import TableRef
from log_tier.model.tokens import Token

__all__ = ["Session"]


class Session:
    """Everything seen through one client. Invariant: no entry ever falls."""

    def __init__(self) -> None:
        self._tables: dict[TableId, list[Offset]] = {}
        """By table that this client has used, 8 bytes a partition. An entry stays when the table is dropped: a node
        that says so may be wrong, and the session would see less than before."""
        self._imported = Token(session=True)
        self._lock = threading.Lock()
        on_fork(self)

    def after_fork(self) -> None:
        """What was seen is seen here as well; the lock may be held by a thread that is not."""
        self._lock = threading.Lock()

    def offsets(self, table: TableRef) -> list[Offset]:
        """What was seen of a table, by partition: the live list, to be looked at and not changed."""
        found = self._tables.get(table.id)
        return found if found is not None else self._made(table)

    def _made(self, table: TableRef) -> list[Offset]:
        with self._lock:
            found = self._tables.get(table.id)
            if found is None:
                found = [NOTHING] * table.partitions
                for partition, offset in self._imported.tables.get(table.id, {}).items():
                    if partition < table.partitions:
                        found[partition] = offset
                self._tables = {**self._tables, table.id: found}
            return found

    def seen(self, table: TableRef) -> dict[Partition, Offset]:
        """What was seen of a table, by partition, without the partitions of which nothing was seen."""
        return {Partition(number): offset for number, offset in enumerate(self.offsets(table)) if offset > NOTHING}

    def saw(self, table: TableRef, partition: Partition, offset: Offset) -> None:
        """A reply came from a state that holds `offset`."""
        offsets = self._tables.get(table.id) or self.offsets(table)
        if offset > offsets[partition]:
            with self._lock:
                if offset > offsets[partition]:  # another thread may have seen more meanwhile
                    offsets[partition] = offset

    def saw_all(self, table: TableRef, seen: Mapping[Partition, Offset]) -> None:
        """Note the offsets of several partitions that a reply showed. O(partitions)."""
        for partition, offset in seen.items():
            self.saw(table, partition, offset)

    def merge(self, token: Token) -> None:
        """Merge what another client has seen."""
        with self._lock:
            self._imported = Token(self._imported.merge(token).tables, session=True)
            for table_id, offsets in self._tables.items():
                for partition, offset in token.tables.get(table_id, {}).items():
                    if partition < len(offsets) and offset > offsets[partition]:
                        offsets[partition] = offset

    def token(self) -> Token:
        """Everything seen, to be carried to another process."""
        seen = {
            table_id: {Partition(number): offset for number, offset in enumerate(offsets) if offset > NOTHING}
            for table_id, offsets in self._tables.items()
        }
        return self._imported.merge(Token(seen, session=True))
