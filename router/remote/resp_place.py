"""Where the RESP endpoint of a server is, for Duramen's own client."""

from __future__ import annotations

from typing import Final, NamedTuple

from log_tier.privacy.machine_socket import MachineSocket

__all__ = ["NOWHERE", "RespPlace"]


class RespPlace(NamedTuple):
    """A way to an endpoint: plain TCP, or a socket of the same machine."""

    host: str
    port: int
    """0: not by TCP."""
    machine_socket: MachineSocket | None = None
    """For clients on the same machine, before TCP; None: there is none."""
    secured: bool = False
    """Does TCP go with TLS?"""
    users: bool = False
    """Does a connection have to prove which user it is?"""

    @property
    def is_known(self) -> bool:
        """Is there a way to it?"""
        return self.machine_socket is not None or self.port > 0


NOWHERE: Final = RespPlace("", 0)
"""It is not known where the endpoint is, or whether there is one."""
