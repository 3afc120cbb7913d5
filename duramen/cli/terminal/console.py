"""The terminal as rich sees it. Commands import it when they print a table or a bar."""

from __future__ import annotations

import os
from typing import Final

from rich.console import Console

__all__ = ["console"]

# Columns; wider than every table.
_WIDTH_UNBOUNDED: Final = 10_000


def console(*, stderr: bool = False) -> Console:
    """Rich's console; it drops colours by itself where nobody sees them.

    Where the output is no terminal and `COLUMNS` is not set, lines are as long as they are: rich's 80 columns would cut
    what another program reads.
    """
    made = Console(stderr=stderr, highlight=False)
    if not made.is_terminal and "COLUMNS" not in os.environ:
        made.width = _WIDTH_UNBOUNDED
    return made
