"""How often users, roles or grants have changed since the server started, in shared memory: what a reader process must
look at before it answers.

    trust      one cell of 8 bytes

A reader answers a connection's reads while the cell has the number that the connection's last fence named. The server
raises it in the turn in which it learns of a change, so a revocation ends what readers answer by themselves at once:
they ask the server again, which decides by the new grants.
"""

from __future__ import annotations

import mmap
import os
from pathlib import Path
from typing import Final

__all__ = ["TrustCell"]

_CELL_BYTES: Final = 8


class TrustCell:
    """The cell. The server alone writes it."""

    def __init__(self, folder: Path) -> None:
        """`folder`: of the freshness pages; the file is made where it is missing."""
        with open(folder / "trust", "ab+") as file:
            os.ftruncate(file.fileno(), _CELL_BYTES)
            self._memory = mmap.mmap(file.fileno(), _CELL_BYTES)
        self.cells = memoryview(self._memory).cast("q")
        """Of which the first one, and only, is the number."""

    def raise_to(self, changes: int) -> None:
        """So often something has changed by now. 0.1 µs."""
        self.cells[0] = changes

    def close(self) -> None:
        """Idempotent."""
        self.cells.release()
        self._memory.close()
