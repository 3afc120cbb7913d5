"""The connection of a command on tables. Commands import it when they run: it brings the client."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import duramen
from duramen.blocking import Database
from duramen.cli.terminal.options import check_at

__all__ = ["connected"]


@contextmanager
def connected(at: str, timeout: float) -> Iterator[Database]:
    """A connection for one command. Raises `InvalidRequest` for what is no address, `Disconnected`."""
    check_at(at, timeout)
    with duramen.connect(at, timeout=timeout) as database:
        yield database
