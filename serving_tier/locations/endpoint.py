"""The address of an object store. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from serving_tier.locations.addresses import is_local, is_local_name, parse_address

__all__ = ["Endpoint", "parse_endpoint"]

_FORM: Final = re.compile(r"(https?)://(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._\-]+)(?::([0-9]{1,5}))?/?")
_PORTS: Final = {"http": 80, "https": 443}

# Systems read `127.1`, `0x7f000001` and `2130706433` as addresses; a name's last label is no number.
_NUMBER: Final = re.compile(r"[0-9]+|0[xX][0-9a-fA-F]*")


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where an object store listens."""

    scheme: str
    """`http` or `https`."""
    host: str
    """A name in lower case, or an address in its one form; without brackets."""
    port: int

    @property
    def url(self) -> str:
        """The endpoint's one text."""
        return f"{self.scheme}://{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}"

    @property
    def is_local(self) -> bool:
        """Is it of the local network, by its text alone?"""
        address = parse_address(self.host)
        return is_local_name(self.host) if address is None else is_local(address)

    @property
    def is_address(self) -> bool:
        """Is the host an address, which no name server need be asked for?"""
        return parse_address(self.host) is not None


def parse_endpoint(url: str) -> Endpoint | None:
    """The endpoint of a URL without user, path, query or fragment; None for all else."""
    found = _FORM.fullmatch(url)
    if found is None:
        return None
    scheme, host = found[1], found[2].strip("[]").lower().removesuffix(".")
    port = _PORTS[scheme] if found[3] is None else int(found[3])
    address = parse_address(host)
    if address is None and (found[2].startswith("[") or _is_numeric(host)):
        return None
    if not 0 < port < 65536 or not host or ".." in host or host.startswith("."):
        return None
    return Endpoint(scheme, host if address is None else str(address), port)


def _is_numeric(host: str) -> bool:
    return _NUMBER.fullmatch(host.rpartition(".")[2]) is not None
