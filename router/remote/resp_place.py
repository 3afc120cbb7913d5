"""Where the RESP endpoint of a server is, for Duramen's own client."""

from __future__ import annotations

from typing import Final, NamedTuple

__all__ = ["NOWHERE", "RespPlace"]


class RespPlace(NamedTuple):
    """A way to an endpoint: plain TCP, or a socket of the same machine."""

    host: str
    port: int
    """0: not by TCP."""
    machine_socket: str = ""
    """For clients on the same machine, before TCP: a name of `log_tier.privacy.machine_socket`; empty: none."""
    owner: int = 0
    """The user id of the process that listens at it."""
    secured: bool = False
    """Does TCP go with TLS?"""
    users: bool = False
    """Does a connection have to prove which user it is?"""

    @property
    def is_known(self) -> bool:
        """Is there a way to it?"""
        return bool(self.machine_socket) or self.port > 0


NOWHERE: Final = RespPlace("", 0)
"""It is not known where the endpoint is, or whether there is one."""
