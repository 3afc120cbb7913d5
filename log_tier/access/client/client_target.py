"""The address that a client is given.

host:port                         one server, plain
host:port,host:port               several; the first that answers is taken
duramen://host:port,host:port     the same
duramens://host:port,host:port    the same, with TLS
duramens://alice@host:port        the same, as the user alice; the secret is given apart from the address
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from log_tier.model.errors import InvalidRequest
from log_tier.rpc.address import checked_address
from log_tier.trust.names import check_trust_name

__all__ = ["ClientTarget", "parse_target"]

_SCHEMES: Final = {"duramen": False, "duramens": True}


class ClientTarget(NamedTuple):
    """Which servers, and how to call them."""

    servers: tuple[str, ...]
    """Each host:port, at least one."""
    secure: bool
    """Whether they are called with TLS."""
    user: str = ""
    """Who calls them; empty: the address does not say so."""


def parse_target(target: str | Sequence[str]) -> ClientTarget:
    """The servers of an address, or of several that agree on TLS and on the user.

    Raises `InvalidRequest` where there is none, for one that is no address, for another scheme, and for a password,
    which is not shown.
    """
    if not isinstance(target, str):
        parsed = [_parse(each) for each in target]
        if len({each.secure for each in parsed}) > 1:
            raise InvalidRequest(f"{target!r} has servers with TLS and without: write all of them alike")
        if len({each.user for each in parsed}) > 1:
            raise InvalidRequest("the servers' addresses name several users, or some none: write all of them alike")
        servers = tuple(server for each in parsed for server in each.servers)
        secure, user = any(each.secure for each in parsed), "".join({each.user for each in parsed})
    else:
        servers, secure, user = _parse(target)
    if not servers:
        raise InvalidRequest(f"{target!r} names no server: connect takes host:port, or several of them")
    return ClientTarget(servers, secure, user)


def _parse(text: str) -> ClientTarget:
    scheme, mark, rest = text.strip().partition("://")
    if not mark:
        scheme, rest = "duramen", text
    user, at, hosts = rest.rpartition("@")
    if scheme not in _SCHEMES:
        shown = f"{scheme}://…@{hosts}" if at else text
        raise InvalidRequest(f"{shown!r} is no address: give HOST:PORT, duramen://HOST:PORT, or duramens:// with TLS")
    if ":" in user:
        raise InvalidRequest(
            f"the address of {hosts} has a password in it, and addresses are shown and logged: leave it out, and give "
            "password= and user=, or a token (token=, token_file=); for commands DURAMEN_PASSWORD or --token-file"
        )
    if at:
        check_trust_name(user)
    servers = (each.strip() for each in hosts.rstrip("/").split(","))
    return ClientTarget(tuple(checked_address(each) for each in servers if each), _SCHEMES[scheme], user)
