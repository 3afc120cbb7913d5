"""What a verification says of one file."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple, Self

from log_tier.model.errors import DuramenError

__all__ = ["FileFinding"]


class FileFinding(NamedTuple):
    """What is wrong with a file, and what to do about it."""

    file: Path
    message: str
    """Names the file, the place and what to do."""
    is_damage: bool = True
    """False: a note. A crash leaves such a thing, and the next start puts it right."""
    position: int | None = None
    """Where in the file, in bytes, if that is known."""
    offset: int | None = None
    """Which offset should be there, if that is known."""

    @classmethod
    def of(cls, error: DuramenError, file: Path) -> Self:
        """The finding that an error is. `file`: where the error does not name one."""
        named = error.fields.get("file")
        position, offset = error.fields.get("position"), error.fields.get("offset")
        return cls(
            Path(str(named)) if named else file,
            error.message,
            position=int(position) if isinstance(position, int) else None,
            offset=int(offset) if isinstance(offset, int) else None,
        )
