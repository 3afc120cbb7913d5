"""The connection of a command on tables. Commands import it when they run: it brings the client."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import duramen
from duramen.blocking import Database
from duramen.cli.terminal.options import check_at
from log_tier.rpc.problems import no_answer

__all__ = ["connected"]

# A network that says nothing is left to `connect`.
_LOOK_S: Final = 1.0


@contextmanager
def connected(at: str, timeout: float) -> Iterator[Database]:
    """A connection for one command. Raises `InvalidRequest` for what is no address, `Disconnected`."""
    check_at(at, timeout)
    _check_listening(at, timeout)
    with duramen.connect(at, timeout=timeout) as database:
        yield database


def _check_listening(at: str, timeout: float) -> None:
    """Raise `Disconnected` at once where nobody listens, or the name has no address: `connect` would go on trying, and
    a person has most likely mistyped the address, or has started no server. One round trip.
    """
    host, _, port = at.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=min(timeout, _LOOK_S)).close()
    except (ConnectionRefusedError, socket.gaierror) as error:
        raise no_answer(at, error.strerror or str(error), sent=0) from error
    except OSError:
        pass  # a network that is away for the moment: connect() tries until the timeout
