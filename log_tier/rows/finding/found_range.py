"""What a find reads, as a value: the range in which the rows lie that meet its conditions."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from log_tier.rows.table_index import FieldCondition

__all__ = ["FindPlan"]


class FindPlan(NamedTuple):
    """A range of the entries of one index, or of keys, and the conditions that each of its rows is looked at for."""

    index_name: str
    """Empty: the table's key."""
    start: bytes
    end: bytes | None
    reverse: bool
    rest: tuple[FieldCondition, ...]
    index_number: int = 0
    """Of the index; 0: the table's key."""
    key_prefix: bytes = b""
    """The keys of all that is found begin with these elements, whatever is read: as many of the key's first fields
    as are given a value."""
    sort: tuple[str, ...] = ()
    """Fields by which who asks sorts the rows, since the index has not that order; empty: they come in order."""
    sort_reverse: bool = False
