"""Errors about a table that is not there, or an offset that its log or replica cannot serve."""

from __future__ import annotations

from log_tier.model.errors.root import DuramenError

__all__ = [
    "HistoryGone",
    "IndexBuilding",
    "OffsetPassed",
    "OffsetTrimmed",
    "TableExists",
    "TableNotFound",
]


class TableNotFound(DuramenError, LookupError):
    """There is no table of that name or id, or it was dropped.

    Do: create the table, or check the name with `duramen table list`.
    """

    code = "table_not_found"
    fault = "caller"


class TableExists(DuramenError):
    """A table of that name exists.

    Do: use another name, or `if_missing=True` to take the existing table.
    """

    code = "table_exists"
    fault = "caller"


class OffsetTrimmed(DuramenError, LookupError):
    """The log no longer holds the offset; trimming or retention removed it. Fields: `partition`, `asked`, `earliest`.

    Do: begin at `earliest`, which is the first offset that is left; read the table for what came before.
    """

    code = "offset_trimmed"
    fault = "caller"


class HistoryGone(DuramenError, LookupError):
    """The table keeps its past only from a later offset on than the one at which it should be read, or fewer changes of
    the key. Fields: `asked`, `earliest`.

    Do: read at `earliest` or later, or make a table with a longer history.
    """

    code = "history_gone"
    fault = "caller"


class IndexBuilding(DuramenError):
    """The index that would serve is being built: the table's earlier rows are still going into it. Field: `index`.

    Do: ask again when it is in service (`duramen table index list`), or scan the table.
    """

    code = "index_building"
    fault = "transient"


class OffsetPassed(DuramenError):
    """The replica has applied more than the offset at which it should be read.

    Fields: `partition`, `asked`, `applied`.

    Do: repeat the comparison at an offset that is not below `applied`.
    """

    code = "offset_passed"
    fault = "transient"
