"""What a find reads, as values: conditions on fields, and the range in which the rows lie that meet them."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["FieldCondition", "FindPlan"]


class FieldCondition(NamedTuple):
    """The elements that a field may have: `start` <= element < `end`."""

    path: str
    start: bytes
    end: bytes
    is_value: bool
    """It is one value, whose element is `start`."""

    def holds(self, element: bytes) -> bool:
        """Whether a row whose field has this element meets it."""
        return self.start <= element < self.end


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
