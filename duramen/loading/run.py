"""The load itself: chunks into a table's writer, with an account of every row at the end, however it ends."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Final, NamedTuple

from duramen.blocking import Table, TableWriter
from duramen.loading.content_identity import identify, producer_name
from duramen.loading.errors import FileRefused, LoadRefused
from duramen.loading.options import FileFormat, LoadOptions, RowOptions
from duramen.loading.reading import read_rows, read_typed_rows
from duramen.loading.rejects import RejectsFile
from duramen.loading.rows import RowChunk
from log_tier.model.errors import DuramenError
from log_tier.model.table_ref import TableRef

__all__ = ["LoadProgress", "LoadSummary", "load_file"]

_NO_ROWS: Final = RowChunk(1, [], [], 0)

_GO_ON: Final = "run the same load again when that is mended: it goes on where this one ended"
_MEND: Final = (
    "mend it and load again (rows that are there are written again with the same content), or run the same load with "
    "--skip-bad: it goes on behind this row"
)


class LoadProgress(NamedTuple):
    """The progress of a load."""

    position: int
    """Bytes of the file that were read."""
    size: int
    rows: int
    """Good rows that were read; those of the newest chunks may not be written yet."""
    skipped: int


@dataclass(frozen=True, slots=True)
class LoadSummary:
    """What became of a file's rows: `written + skipped + rejected` is all of them."""

    written: int
    """By this run; on stable storage."""
    skipped: int
    """Written by an earlier run of the same load."""
    rejected: int
    token: str
    """A read with it sees every row of the file, whichever run wrote it."""


def load_file(
    table: Table,
    path: Path,
    file_format: FileFormat,
    options: LoadOptions | RowOptions,
    *,
    rejects: RejectsFile | None = None,
    progress: Callable[[LoadProgress], None] | None = None,
) -> LoadSummary:
    """Load a file; run it again after any interruption, and it goes on where it ended. `RowOptions` are for a table of
    rows.

    Without `rejects` a bad row ends the load: `RowRefused` says which, after every row before it was written. That and
    every other error carry `written` and `skipped`. Raises what reading and writing raise.
    """
    identity = identify(path)
    if isinstance(options, RowOptions):
        reading = read_typed_rows(path, file_format, options)
    else:
        reading = read_rows(path, file_format, options)
    with closing(reading) as chunks:
        # The first chunk is read before the table is touched: a file that cannot be loaded at all leaves no trace.
        first = next(chunks, _NO_ROWS)
        described = table.describe().table
        if isinstance(options, LoadOptions):
            _check_keys(described, path)
        producer = producer_name(identity, file_format, options, described.id)
        refused: LoadRefused | None = None
        writer = table.writer(producer)
        try:
            with writer:
                try:
                    rows = 0
                    for chunk in chain((first,), chunks):
                        _write(writer, chunk, path, rejects)
                        rows += len(chunk.pairs)
                        if progress is not None:
                            progress(LoadProgress(chunk.position, identity.size, rows, writer.skipped))
                except LoadRefused as error:
                    refused = error  # leave the block: what was read before it is written first
        except DuramenError as error:
            raise _with_account(error, writer, _GO_ON) from error
    if refused is not None:
        raise _with_account(refused, writer, _MEND if "line" in refused.fields else _GO_ON) from refused
    identity.check_unchanged(path)
    return LoadSummary(writer.written, writer.skipped, rejects.count if rejects else 0, table.end_token())


def _check_keys(table: TableRef, path: Path) -> None:
    """Raise where none of the keys that a load makes fits: each record would be void."""
    if table.defined and table.partitioner.startswith("fields:"):
        raise FileRefused(
            f"{path} cannot be loaded into {table.name}: a load writes keys that are text, and the keys of that table "
            "have fields. Load it with RowOptions",
            file=str(path),
            written=0,
            skipped=0,
        )


def _write(writer: TableWriter, chunk: RowChunk, path: Path, rejects: RejectsFile | None) -> None:
    if rejects is None:
        writer.put_rows(chunk.before_first_reject())
        if chunk.rejects:
            raise chunk.rejects[0].error(path)
    else:
        writer.put_rows(chunk.pairs)
        rejects.add(chunk.rejects)


def _with_account(error: DuramenError, writer: TableWriter, how: str) -> DuramenError:
    """The same error with what was written before it, and how to go on."""
    written, skipped = writer.written, writer.skipped
    runs = f"{written} by this run, {skipped} by earlier ones"
    account = f"rows before it that are in the table: {written + skipped} ({runs})"
    return type(error)(
        f"{error.message.rstrip('.')}. {account}; {how}", **error.fields, written=written, skipped=skipped
    )
