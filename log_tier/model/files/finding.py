"""The finding of a verification about one file."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, NamedTuple, Self

from log_tier.model.errors import DuramenError, IndexDamaged, LogDamaged, SnapshotDamaged

__all__ = ["FileFinding", "Remedy"]

Remedy = Literal["", "copy", "alone", "snapshot"]
"""What puts a file right: a repair from a copy of the log, a repair without one, or a new snapshot. Empty: none."""


class FileFinding(NamedTuple):
    """A fault of a file, or a note about it, and what to do."""

    file: Path
    message: str
    """Names the file, the place and what to do."""
    is_damage: bool = True
    """False: a note. A crash leaves such a thing, and the next start puts it right."""
    position: int | None = None
    """Where in the file, in bytes, if that is known."""
    offset: int | None = None
    """Which offset should be there, if that is known."""
    remedy: Remedy = ""

    @classmethod
    def of(cls, error: DuramenError, file: Path) -> Self:
        """The finding for an error. `file`: the file, if the error names none."""
        named = error.fields.get("file")
        position, offset = error.fields.get("position"), error.fields.get("offset")
        return cls(
            Path(str(named)) if named else file,
            error.message,
            position=int(position) if isinstance(position, int) else None,
            offset=int(offset) if isinstance(offset, int) else None,
            remedy=_remedy_of(error),
        )


def _remedy_of(error: DuramenError) -> Remedy:
    if isinstance(error, LogDamaged):
        return "copy"
    if isinstance(error, IndexDamaged):
        return "alone"
    return "snapshot" if isinstance(error, SnapshotDamaged) else ""
