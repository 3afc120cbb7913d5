"""Which addresses are of the local network: every one that is not of the public internet. Pure."""

from __future__ import annotations

import ipaddress
from typing import Final

__all__ = ["IpAddress", "is_local", "is_local_name", "parse_address"]

IpAddress = ipaddress.IPv4Address | ipaddress.IPv6Address

# Addresses of IPv6 that carry one of IPv4 in their last 32 bits: the translators of RFC 6052, the old compatible form.
_CARRIERS: Final = tuple(map(ipaddress.IPv6Network, ("64:ff9b::/96", "64:ff9b:1::/48", "::/96")))

_SITE_LOCAL: Final = ipaddress.IPv6Network("fec0::/10")

# Names that mean this machine, and those of cloud metadata services and of networks without a public name.
_LOCAL_NAMES: Final = ("localhost", "localdomain", "local", "internal", "home.arpa")


def is_local(address: IpAddress) -> bool:
    """Is it loopback, link-local (cloud metadata at 169.254.169.254 included), private, shared, multicast, reserved, or
    an address of IPv6 that carries such a one?
    """
    if isinstance(address, ipaddress.IPv4Address):
        return not address.is_global or address.is_multicast
    carried = address.ipv4_mapped or address.sixtofour
    if carried is None and address.teredo is not None:
        carried = address.teredo[1]
    if carried is None and any(address in carrier for carrier in _CARRIERS):
        carried = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    if carried is not None:
        return is_local(carried)
    return not address.is_global or address.is_multicast or address in _SITE_LOCAL


def parse_address(host: str) -> IpAddress | None:
    """The address that a host is, without brackets; None for a name. Four decimal numbers, or IPv6 without a zone."""
    try:
        return ipaddress.ip_address(host) if "%" not in host else None
    except ValueError:
        return None


def is_local_name(host: str) -> bool:
    """Does a name, in lower case, mean this machine or its network whatever a name server says? A name without a dot
    is completed with the search domains of this machine's network.
    """
    return "." not in host or any(host == name or host.endswith(f".{name}") for name in _LOCAL_NAMES)
