"""A server's address as people write it: HOST:PORT.

gRPC takes nearly every text for a target. It adds port 443 where none is given, takes a port modulo 65,536, and asks a
name server for `http://localhost:7070`. A caller with a mistyped address would wait for a server that they never meant.
"""

from __future__ import annotations

import ipaddress
import re
from typing import Final

from log_tier.model.errors import InvalidRequest

__all__ = ["checked_address", "is_loopback"]

_HOST_AND_PORT: Final = re.compile(r"(?:\[[0-9A-Fa-f:.%\w]+\]|[^\s:/\[\]]+):([0-9]{1,5})")
_PORT_MAX: Final = 65_535


def checked_address(address: str) -> str:
    """Return `address` unchanged if it has the form HOST:PORT. Raises `InvalidRequest` unless it is a host (IPv6 in
    brackets), a colon, and a port from 1.
    """
    found = _HOST_AND_PORT.fullmatch(address)
    if found is None or not 0 < int(found[1]) <= _PORT_MAX:
        raise InvalidRequest(f"{address!r} is no address: give HOST:PORT, like localhost:7070")
    return address


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches `host`. A name other than localhost may be anybody's."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.lower() == "localhost"
