"""How it stands with the part of a history that outlives its server. A value."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["KeptState"]


class KeptState(NamedTuple):
    """How it stands with the table."""

    is_read: bool = False
    """Is what was before this server's start known, as far as there is any?"""
    written_ms: int | None = None
    """The time of the newest row that this server has written, ms since 1970; None: none yet."""
    error: str = ""
    """Why the last try failed; empty: it did not."""
    left_out: int = 0
    """Rows that another version wrote."""
