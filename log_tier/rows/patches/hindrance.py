"""Why a patch changes nothing. Apart from the patches: a verdict names it, also in a process that has no rows."""

from __future__ import annotations

from enum import IntEnum

__all__ = ["Hindrance"]


class Hindrance(IntEnum):
    """Why a patch cannot change this row. The numbers are part of the index's stored format."""

    NULL = 0
    """The field, or a record around it, is null."""
    OTHER_TYPE = 1
    """A union holds a value of another type."""
    GONE = 2
    """The row is of a newer schema, which does not have the field, or not of such a type."""
    UNREADABLE = 3
    """The row is of an older schema, which the patch's schema does not read."""
    OVERFLOW = 4
    """The number is beyond its type."""
    TOO_LARGE = 5
    """The row would have more bytes or values than one may have."""
