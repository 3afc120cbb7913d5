"""Whom a server can be reached by: an address that others reach needs TLS and users, or the operator's word."""

from __future__ import annotations

import logging
from pathlib import Path

from log_tier.model.errors import InvalidRequest
from log_tier.rpc.address import is_loopback

__all__ = ["check_exposure", "checked_peer_port", "needs_users", "warn_without_users"]

logger = logging.getLogger(__name__)


def check_exposure(host: str, *, certs: Path | str | None, insecure: bool) -> None:
    """Raise `InvalidRequest` for plain TCP on an address that other machines reach, unless `insecure` allows it. Then
    log a warning.
    """
    if is_loopback(host) or (certs is not None and certs != ""):
        return
    where = host or "every address"
    if not insecure:
        raise InvalidRequest(
            f"{where} is reached by other machines, and without certificates everybody there reads and writes "
            "everything: `duramen cert init && duramen cert issue server --server HOST,…` makes certificates, and "
            "`duramen up --certs certs --first-user admin --token-file admin.token` uses them, and makes the first "
            "user; --insecure does without; --host 127.0.0.1 is for this machine alone"
        )
    logger.warning("--insecure: everybody who reaches %s reads and writes everything, in plain TCP", where)


def needs_users(host: str, *, insecure: bool) -> bool:
    """Whether a server on this address must have users: others reach it, and nobody has said `insecure`."""
    return not insecure and not is_loopback(host)


def warn_without_users(host: str) -> None:
    """Say what is open where other machines reach a server with certificates that has no users."""
    logger.warning(
        "there are no users: everybody who reaches %s reads, writes and administers everything, and may become the "
        "first user; `--first-user admin --token-file admin.token` makes it before the server answers",
        host or "every address",
    )


def checked_peer_port(port: int, *, secured: bool) -> int | None:
    """`port` as a server takes it: 0 is a free one, None is none. A server that is not `secured` has none. Raises
    `InvalidRequest` where such a server was to listen on a certain port.
    """
    if secured:
        return None if port < 0 else port
    if port > 0:
        raise InvalidRequest(f"--peer-port {port} goes with --certs: its clients show certificates")
    return None
