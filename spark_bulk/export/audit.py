"""The audit of an export: is what it says, what its files hold and what the table held the same?

For each partition of each export at a place three counts are made: by the manifest, of the Parquet files as they lie
there now, and of the table at the export's offset. The last one comes from a replica's copy where no write came since,
else from a snapshot or the log, which is folded up to that offset; it is read by LMDB itself. An export reads pages
(`spark_bulk.source.table`), and prefers the log for a short table: the two share no reader, and mostly no source.
Of changes, the log is read again. Where neither can be had any more, files and manifest are compared, and the
answer says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Final, NamedTuple

import lmdb

from log_tier.model.errors import (
    Damaged,
    DuramenError,
    IndexDamaged,
    InvalidRequest,
    OffsetTrimmed,
    PermissionDenied,
    TokenAhead,
    Unauthenticated,
)
from log_tier.model.identifiers import Offset, Partition
from log_tier.privacy.masked_url import mask_url
from serving_tier.fold.entry import entry_of, is_live
from spark_bulk.export.comparison import ExportVerdict, PartAudit, RowSource, compared, count_rows, differing_keys
from spark_bulk.export.export_place import ExportPlace
from spark_bulk.export.export_tasks import change_schema
from spark_bulk.export.manifest import ExportManifest
from spark_bulk.export.row_checksum import HashedRows, RowCount, hashed_batch, hashed_rows
from spark_bulk.runtime.waiting import wait_for
from spark_bulk.runtime.work_folder import work_folder
from spark_bulk.source.log.feed import FeedPart, read_feed
from spark_bulk.source.model.cluster_login import ClusterLogin
from spark_bulk.source.model.steps import stepped
from spark_bulk.source.model.table_place import TablePlace, all_bounds, find_table
from spark_bulk.source.table.index_copies import WantedCopy, open_index_copy

__all__ = ["audit_exports"]

_ROWS: Final = 4096

_DATABASES: Final = 8


class _State(NamedTuple):
    """What the table held, or its log."""

    rows: RowSource
    source: str


def audit_exports(
    login: ClusterLogin,
    table: str,
    url: str,
    *,
    partition: Partition | None = None,
    snapshots: str = "",
    timeout_s: float = 600.0,
) -> Iterator[PartAudit]:
    """Audit all exports of `table` at `url`, the newest first, one partition after the other. `snapshots`: the URL of
    the cluster's snapshot store, to read states from as well; `timeout_s`: to find one partition's state in.

    Reads all files and, for each export, the table once. Raises `InvalidRequest` where there is no export,
    `TableNotFound`, `Disconnected`, `PermissionDenied`, `SnapshotStoreUnavailable`; `Damaged` for a manifest.
    """
    place = wait_for(find_table(login, table, timeout_s=timeout_s))
    if partition is not None and partition >= place.topic.partitions:
        raise InvalidRequest(f"{table} has {place.topic.partitions} partitions: there is no {partition}")
    exports = ExportPlace.open(url)
    empty = True
    for export in exports.exports():
        empty = False
        audited = _Audit(place, exports, export, snapshots, timeout_s)
        for number in range(export.partitions):
            if partition in (None, number):
                yield audited.of(Partition(number))
    if empty:
        raise InvalidRequest(f"there is no export at {mask_url(url)}: name the URL that `duramen export` was given")


class _Audit:
    """Of one export."""

    def __init__(
        self, place: TablePlace, exports: ExportPlace, export: ExportManifest, snapshots: str, timeout_s: float
    ) -> None:
        self._place, self._exports, self._export = place, exports, export
        self._snapshots, self._timeout_s = snapshots, timeout_s

    def of(self, partition: Partition) -> PartAudit:
        """Audit one partition."""
        export = self._export
        said = RowCount(
            sum(file.rows for file in export.files if file.partition == partition),
            0 if export.checksums is None else export.checksums[partition],
        )
        files: RowCount | None = None
        held: RowCount | None = None
        wrong, reason, source = "", "", ""
        keys: tuple[bytes, ...] = ()
        retryable = False
        try:
            files = count_rows(self._files(partition))
        except Damaged as error:
            wrong = error.message
        try:
            with self._state(partition) as state:
                held, source = count_rows(state.rows()), state.source
                self._check_log(partition)
                if files is not None and held != files:
                    keys = differing_keys(lambda: self._files(partition), state.rows)
        except (PermissionDenied, Unauthenticated):
            raise
        except TokenAhead as error:
            wrong = "; ".join(filter(None, (wrong, f"{error.message}, before what was exported")))
        except DuramenError as error:
            held, reason, retryable = None, f"not compared with the table: {error.message}", error.retryable
        checked = export.checksums is not None
        found = compared(said, files, held, checked=checked, until=export.until[partition])
        if wrong or found:
            reason = "; ".join(filter(None, (wrong, found, reason)))
            return PartAudit(export, partition, "different", reason, said, checked, files, held, source, keys)
        verdict: ExportVerdict = "equal" if held is not None else "unverified" if retryable else "not compared"
        if held is None:
            what = "rows and checksum" if checked else "rows, as this manifest has no checksums"
            reason = f"{reason} (files and manifest are equal in {what})"
        return PartAudit(export, partition, verdict, reason, said, checked, files, held, source)

    def _files(self, partition: Partition) -> Iterator[HashedRows]:
        for file in self._export.files:
            if file.partition == partition:
                yield from map(hashed_batch, self._exports.read_rows(self._export, file))

    @contextmanager
    def _state(self, partition: Partition) -> Iterator[_State]:
        place, export = self._place, self._export
        if (export.table, export.partitions) != (place.topic.id, place.topic.partitions):
            raise OffsetTrimmed(f"it is of table {export.table}, and {place.topic.name} is {place.topic.id} now")
        until = export.until[partition]
        self._check_log(partition)
        if export.kind == "table":
            wanted = WantedCopy(
                place.only(partition),
                partition,
                until,
                exact=True,
                snapshots_url=self._snapshots,
                folder=str(work_folder()),
                timeout_s=self._timeout_s,
                prefers_copy=True,
            )
            with _opened(wanted) as state:
                yield state
        else:
            yield _State(self._changes(partition, until), "the log")

    def _changes(self, partition: Partition, until: Offset) -> Callable[[], Iterator[HashedRows]]:
        first = self._first(partition)
        part = FeedPart(
            self._place.only(partition), partition, first, until, all_records=False, timeout_s=self._timeout_s
        )

        def rows() -> Iterator[HashedRows]:
            if until >= first:
                yield from map(hashed_batch, stepped(read_feed(part, change_schema("bytes", "bytes"))))

        return rows

    def _first(self, partition: Partition) -> Offset:
        return Offset(max(self._export.after[partition] + 1, self._place.starts[partition]))

    def _check_log(self, partition: Partition) -> None:
        """Raise where the log ends before the export does; of changes, where they are not all there any more."""
        bounds = wait_for(all_bounds(self._place, timeout_s=self._timeout_s))[partition]
        until, first = self._export.until[partition], self._first(partition)
        if until > bounds.latest:
            raise TokenAhead(
                f"the log of {self._place.named(partition)} ends at {bounds.latest}",
                partition=partition,
                asked=until,
                latest=bounds.latest,
            )
        lowest = max(bounds.earliest, bounds.compacted)
        if self._export.kind == "changes" and until >= first and (first < lowest or bounds.cleaned):
            raise OffsetTrimmed(
                f"changes from offset {first} on were trimmed, or compacted below offset {lowest}", partition=partition
            )


@contextmanager
def _opened(wanted: WantedCopy) -> Iterator[_State]:
    """A partition's state, read by LMDB's own cursor."""
    env, log_time_ms, source = wait_for(_environment(wanted))
    if env is None:
        yield _State(lambda: iter(()), source)
        return

    def rows() -> Iterator[HashedRows]:
        try:
            with env.begin() as txn:
                pairs = txn.cursor(env.open_db(b"data", txn=txn, create=False)).iternext()
                while some := list(islice(pairs, _ROWS)):
                    live = [(key, entry_of(stored)) for key, stored in some if is_live(stored, log_time_ms)]
                    yield hashed_rows(
                        [entry.version for _, entry in live],
                        [entry.expires_at_ms for _, entry in live],
                        [key for key, _ in live],
                        [entry.value for _, entry in live],
                    )
        except lmdb.Error as error:
            raise IndexDamaged(f"{source} cannot be read: {error}") from error

    with env:
        yield _State(rows, source)


async def _environment(wanted: WantedCopy) -> tuple[lmdb.Environment | None, int, str]:
    """The state's file, mapped; its folder is gone already."""
    async with open_index_copy(wanted) as found:
        if found.data is None:
            return None, 0, found.source
        folder: Path = found.data.parent
        env = lmdb.open(str(folder), max_dbs=_DATABASES, readonly=True, lock=False)
        return env, found.log_time_ms, found.source
