"""The address that a client is given.

host:port                         one server, plain
host:port,host:port               several; the first that answers is taken
duramen://host:port,host:port     the same
duramens://host:port,host:port    the same, with TLS
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from log_tier.model.errors import InvalidRequest
from log_tier.rpc.address import checked_address

__all__ = ["ClientTarget", "parse_target"]

_SCHEMES: Final = {"duramen": False, "duramens": True}


class ClientTarget(NamedTuple):
    """Which servers, and how to call them."""

    servers: tuple[str, ...]
    """Each host:port, at least one."""
    secure: bool
    """Whether they are called with TLS."""


def parse_target(target: str | Sequence[str]) -> ClientTarget:
    """The servers of an address, or of several that agree on TLS.

    Raises `InvalidRequest` where there is none, for one that is no address, for another scheme, and for a user, of
    which there are none yet.
    """
    if not isinstance(target, str):
        parsed = [_parse(each) for each in target]
        if len({each.secure for each in parsed}) > 1:
            raise InvalidRequest(f"{target!r} has servers with TLS and without: write all of them alike")
        servers = tuple(server for each in parsed for server in each.servers)
        secure = any(each.secure for each in parsed)
    else:
        servers, secure = _parse(target)
    if not servers:
        raise InvalidRequest(f"{target!r} names no server: connect takes host:port, or several of them")
    return ClientTarget(servers, secure)


def _parse(text: str) -> ClientTarget:
    scheme, mark, rest = text.strip().partition("://")
    if not mark:
        scheme, rest = "duramen", text
    if scheme not in _SCHEMES:
        raise InvalidRequest(f"{text!r} is no address: give HOST:PORT, duramen://HOST:PORT, or duramens:// with TLS")
    if "@" in rest:
        raise InvalidRequest(f"{text!r} names a user, and this version has none: leave out what is before the @")
    servers = (each.strip() for each in rest.rstrip("/").split(","))
    return ClientTarget(tuple(checked_address(each) for each in servers if each), _SCHEMES[scheme])
