"""The blocking interface: the same database for programs without an event loop.

An event loop runs in another thread (`duramen.client.transport.loop_thread`). Each method here runs the asynchronous
method there and waits for it; there is no second implementation. Calls may come from any number of threads; concurrent
calls share requests, as those of tasks do.

Two fast paths stay in the caller's thread, because crossing to the loop and back costs more than the call itself:

- `get`, and the first page of `scan` and `find`, on an embedded database: one LMDB transaction for each partition
  (`router.data.direct_reads`). Its `put` crosses to the loop, and on a quick disk the log commits without a third
  thread (`log_tier.embedded.commit`).
- plain `get` and `put` on a single server with a RESP endpoint: one exchange on a socket of the thread's own
  (`duramen.client.transport.resp_fast_path`).

A call with an argument that these paths do not know goes through the loop.

Reading order: `wrapped.py` (a blocking method of an asynchronous one), `table.py`, `observed_table.py`,
`row_streams.py`, `row_indexes.py`, `row_frames.py`, `row_table.py`, `typed_table.py` (rows are encoded and decoded in
the caller's thread), `database.py`.
"""

from typing import TYPE_CHECKING, Final

from duramen.blocking.database import Database, start
from duramen.blocking.table import AtomicBatch, Table, TableWriter
from duramen.later_names import later_names

if TYPE_CHECKING:
    from duramen.blocking.row_streams import AtomicRows, RowWriter
    from duramen.blocking.row_table import RowTable
    from duramen.blocking.typed_table import TypedTable

__all__ = [
    "AtomicBatch",
    "AtomicRows",
    "Database",
    "RowTable",
    "RowWriter",
    "Table",
    "TableWriter",
    "TypedTable",
    "start",
]

_LATER: Final = {
    "AtomicRows": "duramen.blocking.row_streams",
    "RowTable": "duramen.blocking.row_table",
    "RowWriter": "duramen.blocking.row_streams",
    "TypedTable": "duramen.blocking.typed_table",
}
"""Imported by programs with rows or typed tables."""

if not TYPE_CHECKING:
    __getattr__, __dir__ = later_names(globals(), _LATER)
