"""What can be wrong with a file. They never cross a wire; the tree below hangs under `InvalidRequest`.

InvalidRequest
└── LoadRefused
    ├── FileRefused       the file as a whole: missing, empty, of no known format, without a key column
    ├── RowRefused        one row: which, where, and why
    ├── FileChanged       it was written to while it was read
    └── ExtraMissing      its format needs a library that is not installed
"""

from __future__ import annotations

from log_tier.model.errors import DuramenError

__all__ = ["ExtraMissing", "FileChanged", "FileRefused", "LoadRefused", "RowRefused"]


class LoadRefused(DuramenError):
    """A load that cannot begin or cannot go on. Fields: `written`, `skipped` where it had begun."""

    code = "load_refused"
    fault = "caller"


class FileRefused(LoadRefused):
    """The file as a whole cannot be loaded; nothing was written. Field: `file`."""

    code = "file_refused"


class RowRefused(LoadRefused):
    """A row cannot be loaded. Fields: `file`, `row` (from 1, without the header), `line`, `column`."""

    code = "row_refused"


class FileChanged(LoadRefused):
    """The file changed while it was read, so what was written is of no single state of it. Field: `file`."""

    code = "file_changed"


class ExtraMissing(LoadRefused):
    """A library is missing. Field: `extra`, what to install Duramen with."""

    code = "extra_missing"
