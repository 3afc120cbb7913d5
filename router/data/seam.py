"""The seam between callers and implementations of the data plane: `DataPlane` for records, `TableAdmin` for tables,
`CallerReads` for reads in the caller's own thread, which an embedded database has (`router.data.direct_reads`).

Implementations: `router.data.local_data.LocalData` (the replicas of this process), `router.remote.grpc_connection` (a
server over gRPC), `router.routing` (many nodes: routed, local first, failover) and the client's deferred connection.
All of them are both, which is a `Connection`. A caller takes the narrower protocol where it is enough.

Contract (`tests/kit/cluster/data_plane_contract.py` and `tests/kit/cluster/table_admin_contract.py` run it against
every implementation):

- P1 `timeout` is in seconds and covers the call, whatever the call waits for; then it ends with an error of ours.
- P2 A request of several parts is answered part by part, in their order. The result of a part that fails is its error;
  only a failure of the whole request raises.
- P3 A result of `write` means that the batch is on stable storage. A `WriteUnknown` means that it is in the log once or
  not at all.
- P4 A table that `create_table` returned can be found, listed, described and used by the same caller at once; one that
  `drop_table` returned from is gone for it, and the definition that `alter_table` returned is the one it gets.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from log_tier.model.errors import DuramenError
from log_tier.model.identifiers import Offset, Partition, TableId
from log_tier.model.retention import Retention
from log_tier.model.table_ref import TableRef
from router.data.requests import (
    OutcomesPart,
    ReadPart,
    ReadResult,
    ScanRequest,
    ScanResult,
    TableDescription,
    WatchEvent,
    WritePart,
    WriteResult,
)

if TYPE_CHECKING:
    from log_tier.rows.alter_table import TableChange
    from log_tier.rows.definition import TableDefinition
    from log_tier.rows.table_spec import TableSpec

__all__ = ["NOT_FRESH", "CallerReads", "Connection", "DataPlane", "FirstPage", "TableAdmin"]

NOT_FRESH: Final = object()
"""The index has not got that far, or the call is one for the slow path."""


class DataPlane(Protocol):
    """Reads, writes, scans and watches the records of tables that are known by their id."""

    async def read(
        self, parts: Sequence[ReadPart], *, timeout: float, patience: float = 0.0
    ) -> Sequence[ReadResult | DuramenError]:
        """Read keys. A part that must wait longer than `patience` seconds (0: than `timeout`) fails by itself."""
        ...

    async def write(
        self, parts: Sequence[WritePart], *, timeout: float, patience: float = 0.0
    ) -> Sequence[WriteResult | DuramenError]:
        """Append batches; each result means that the batch is on stable storage.

        Outcomes that are not known within `patience` seconds (0: within `timeout`) come as `pending`.
        """
        ...

    async def outcomes(self, parts: Sequence[OutcomesPart], *, timeout: float) -> Sequence[WriteResult | DuramenError]:
        """What became of batches that are in the log; `WriteUnknown` where that is not known in time."""
        ...

    async def scan(self, request: ScanRequest, *, timeout: float) -> ScanResult:
        """One page of a table in key order, read at the offsets that the result names. It may hold fewer entries than
        `limit`; `more` says whether others follow. Raises `LimitExceeded` for a page of a size that is not served.
        """
        ...

    def watch(
        self, table_id: TableId, start: Mapping[Partition, Offset], partitions: Sequence[Partition] = ()
    ) -> AsyncGenerator[WatchEvent, None]:
        """Follow a table's changes (of `partitions`, or of all); those without a start begin at the end.

        Ends only by `aclose` or an error. It has no timeout: a table that nothing is written to has no events.
        """
        ...

    async def producer(
        self, table_id: TableId, producer_id: int, *, timeout: float, partitions: Sequence[Partition] = ()
    ) -> Mapping[Partition, int]:
        """The last sequence of a producer that was applied, by partition (of `partitions`, or of all)."""
        ...


class TableAdmin(Protocol):
    """Creates, finds, describes, alters and drops tables, and sets how much of their logs they keep."""

    async def create_table(self, spec: TableSpec, *, timeout: float) -> TableRef:
        """Create a table. Raises `TableExists`, `CommandRejected` where there are too few nodes for its replicas; with
        `over`, `TableNotFound` where there is no such topic, and `InvalidRequest` where it has another number of
        partitions or the log has no topics of others.
        """
        ...

    async def find_table(self, name: str, *, timeout: float) -> TableRef:
        """The table of that name. Raises `TableNotFound` naming the tables that exist."""
        ...

    async def definition(self, table_id: TableId, *, schema: int = 0, timeout: float) -> TableDefinition | None:
        """What the keys and values of a table are; None: bytes. Raises `TableNotFound`.

        `schema`: the number of a schema that the caller has met; where the table does not have it as far as is known
        here, the answer comes after a look at the catalog's end. `NEWEST_SCHEMA`: after such a look in any case.
        """
        ...

    async def list_tables(self, *, timeout: float) -> list[TableRef]:
        """All tables, in the order of their names."""
        ...

    async def describe_table(self, name: str, *, timeout: float) -> TableDescription:
        """A table and the state of its partitions."""
        ...

    async def alter_table(self, name: str, change: TableChange, *, timeout: float) -> TableDefinition:
        """Give a table another schema, or an index more or less; returns its definition when every partition has it.
        Its job goes on when the caller's time is over, and the same call again waits for it.

        Raises `TableNotFound`, `InvalidSchema` with the field and the reason where the schema may not follow those
        that the table has, `InvalidRequest` for a table without rows, `CommandRejected` where another change came
        first, which it names, and `Unavailable` where its job has failed, or no node is there that could do it.
        """
        ...

    async def set_retention(self, name: str, *, ms: int | None, size: int | None, timeout: float) -> Retention:
        """Change how much of its log a table keeps, in milliseconds and in bytes of each partition; None: as it is, 0:
        no such bound. Returns both bounds as they are then.

        Raises `TableNotFound`, `InvalidRequest` where nothing is named or the log cannot keep to a bound, and
        `CommandRejected` for a table over a topic of others.
        """
        ...

    async def drop_table(self, name: str, *, timeout: float) -> None:
        """Delete a table and its log (not a topic of others)."""
        ...


class Connection(DataPlane, TableAdmin, Protocol):
    """A way to all of a database, which its owner closes."""

    async def close(self) -> None:
        """Close what the connection owns: channels, replicas, the log. Calls under way end. Idempotent."""
        ...


class FirstPage(NamedTuple):
    """The first page of a scan, and the table that it is of."""

    table: TableRef
    page: ScanResult


class CallerReads(Protocol):
    """Reads the values of one table, in the caller's own thread. Safe from any thread."""

    def get(self, key: bytes) -> object:
        """The value, None where the key is absent, or `NOT_FRESH`."""
        ...

    def first_page(
        self,
        start: bytes,
        end: bytes | None,
        *,
        reverse: bool,
        limit: int,
        index_name: str = "",
        index_number: int = 0,
        key_prefix: bytes = b"",
    ) -> FirstPage | None:
        """The first page of a scan of a range that is not empty, at most `limit` entries; `index_name`, `index_number`:
        of an ordered index. `key_prefix`: only keys that begin with these elements are wanted. None: not all partitions
        that may have some can answer now, or the call is one for the slow path.
        """
        ...

    def note_shown(self) -> None:
        """Merge into the session all that these reads can have shown: the newest state of each replica, including the
        writes of others. O(partitions).
        """
        ...
