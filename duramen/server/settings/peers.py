"""Whether a server has a port for peers, and which."""

from __future__ import annotations

from duramen.server.settings.models import NodeSettings, RouterSettings
from log_tier.model.errors import InvalidRequest

__all__ = ["checked_peer_port", "peer_port_of"]


def peer_port_of(settings: NodeSettings | RouterSettings) -> int | None:
    """The port for peers of a role; None if it has none. Raises `InvalidRequest`."""
    return checked_peer_port(settings.peer_port, secured=settings.certs != "")


def checked_peer_port(port: int, *, secured: bool) -> int | None:
    """`port` as a server takes it: 0 is a free one, None is none. A server that is not `secured` has none. Raises
    `InvalidRequest` where such a server was to listen on a certain port.
    """
    if secured:
        return None if port < 0 else port
    if port > 0:
        raise InvalidRequest(f"--peer-port {port} goes with --certs: its clients show certificates")
    return None
