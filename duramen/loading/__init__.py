"""Loading a file into a table, so that it may be interrupted at any time and run again.

What it promises:

- A row is written once. A load that is run again (same content, same options, same table) goes on where the
  last run ended, also after `kill -9`: the writer's producer name is made of exactly those three things, and the table
  knows how far that producer had come.
- Nothing half-loaded goes unreported. A row that cannot be read ends the load with its number, line and column; every
  row before it is written, and the error says how many. With `skip_bad` such rows go to a rejects file instead, and
  the rest of the file is loaded.
- Nothing is converted in silence. A CSV has no types, so its fields stay text unless `numbers` asks for more; then a
  field becomes a number only where its text is one already, digit by digit.

How a row passes through:

    file ──▶ csv_rows / json_rows / frame_rows ──▶ chunks of (key, value) ──▶ TableWriter ──▶ batches, one sync each
                     │
                     └──▶ rejects: row, line, column, why, and the text as it was

A row's key is the text of its key columns, joined by a separator; its value is the whole row as compact JSON in the
order of the columns, or one column. Two rows with one key are two writes: the later row stays. In a table that has a
schema both follow from it: a row is what `duramen put` takes, and what does not fit is rejected by line, field, value
and the type that the field has. Nothing is converted in silence, and what `duramen export` wrote is loaded to the same
bytes.

Invariants:

- Reading is deterministic: the same file and options give the same pairs in the same order. Resuming rests on it.
- Rejected rows are not counted by the writer, so a load that stopped at a bad row goes on with `skip_bad`.
- Memory is bounded: a chunk of rows, whatever the size of the file.

What it deliberately does not do: guess a delimiter, an encoding or a schema; read from a pipe, which nobody can read
again; delete keys that the file no longer has; undo what an interrupted load has written.

Reading order: `options.py` (the options of a load), `errors.py`, `rows.py` (what a chunk and a reject are, how keys are
made), `reading.py` (which reader a file needs), the readers `csv_rows.py`, `json_rows.py`, `frames.py` and
`parquet_rows.py`; for tables of rows `typed_json.py`, `csv_cells.py`, `typed_csv.py`, `typed_frames.py`; then
`rejects.py`, `content_identity.py` and `run.py`. Nothing here knows the command line.
"""

from duramen.loading.content_identity import ContentIdentity, identify, producer_name
from duramen.loading.errors import ExtraMissing, FileChanged, FileRefused, LoadRefused, RowRefused
from duramen.loading.options import FORMATS, FileFormat, LoadOptions, RowOptions, format_of
from duramen.loading.reading import read_rows
from duramen.loading.rejects import RejectsFile
from duramen.loading.rows import Reject, RowChunk
from duramen.loading.run import LoadProgress, LoadSummary, load_file

__all__ = [
    "FORMATS",
    "ContentIdentity",
    "ExtraMissing",
    "FileChanged",
    "FileFormat",
    "FileRefused",
    "LoadOptions",
    "LoadProgress",
    "LoadRefused",
    "LoadSummary",
    "Reject",
    "RejectsFile",
    "RowChunk",
    "RowOptions",
    "RowRefused",
    "format_of",
    "identify",
    "load_file",
    "producer_name",
    "read_rows",
]
