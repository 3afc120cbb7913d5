"""What a certificate may be called and valid for, and every file name of a folder of certificates.

certs/                0700
  ca.crt              the CA; while it is changed, the new one and then the old one
  ca.key              0600
  server.crt          one certificate
  server.key          0600
  server.key.part     what a write that was interrupted leaves
  .lock               held while a command changes the folder
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Literal, NamedTuple

from log_tier.model.errors import InvalidName, InvalidRequest

__all__ = [
    "AUTHORITY",
    "HOSTS_MAX",
    "NAME_CHARACTERS_MAX",
    "CertificateIdentity",
    "IdentityKind",
    "PairFiles",
    "check_authority_name",
    "check_name",
    "files_of",
    "is_address",
    "is_name",
    "leaf_names",
    "lock_of",
    "pair_names",
    "parse_hosts",
    "part_of",
]

IdentityKind = Literal["server", "user"]

AUTHORITY: Final = "ca"
"""The name of the CA's files; no other certificate has it."""
NAME_CHARACTERS_MAX: Final = 64
"""The limit of X.509 for a common name (`ub-common-name`)."""
HOSTS_MAX: Final = 100
"""Hosts of one server. A client reads all of them at each handshake; a server has a handful."""

_NAME: Final = re.compile(rf"[A-Za-z0-9_][A-Za-z0-9._-]{{0,{NAME_CHARACTERS_MAX - 1}}}")
_DNS_LABEL: Final = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?")
_DNS_CHARACTERS_MAX: Final = 253

_CERTIFICATE: Final = ".crt"
_KEY: Final = ".key"
_PART: Final = ".part"
_LOCK: Final = ".lock"


class CertificateIdentity(NamedTuple):
    """A server or a user, as a certificate names it."""

    kind: IdentityKind
    """`server` only where the certificate says so in a URI."""
    name: str
    """As `duramen cert issue` took it; of a company's certificate its CN, or its first DNS name or e-mail address."""


class PairFiles(NamedTuple):
    """A certificate's file and that of its key."""

    certificate: Path
    key: Path


def is_name(text: str) -> bool:
    """Whether a server or a user may be called so. A leading dot would hide its files, a leading `-` is an option."""
    return _NAME.fullmatch(text) is not None and text.lower() != AUTHORITY


def check_name(text: str) -> str:
    """The name itself. Raises `InvalidName`."""
    if not is_name(text):
        raise InvalidName(
            f"{text[: 2 * NAME_CHARACTERS_MAX]!r} cannot name a certificate: use 1 to {NAME_CHARACTERS_MAX} of A-Z a-z "
            f"0-9 . _ -, beginning with a letter, a digit or _, and not {AUTHORITY!r}, which is the CA's"
        )
    return text


def check_authority_name(text: str) -> str:
    """The common name of a CA, which is shown and names no file. Raises `InvalidName`."""
    if not 0 < len(text) <= NAME_CHARACTERS_MAX or not text.isprintable():
        raise InvalidName(
            f"{text[: 2 * NAME_CHARACTERS_MAX]!r} cannot name a CA: use 1 to {NAME_CHARACTERS_MAX} printable characters"
        )
    return text


def parse_hosts(text: str) -> tuple[str, ...]:
    """The hosts of `localhost,127.0.0.1`: DNS names and IP addresses, each once, in their order.

    Raises `InvalidRequest` for what is neither.
    """
    hosts = tuple(dict.fromkeys(_host(each.strip()) for each in text.split(",")))
    if len(hosts) > HOSTS_MAX:
        raise InvalidRequest(f"{len(hosts)} hosts for one certificate; the limit is {HOSTS_MAX}: issue several")
    return hosts


def is_address(host: str) -> bool:
    """Whether a host is an IP address, and no DNS name."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _host(text: str) -> str:
    if is_address(text):
        address = ipaddress.ip_address(text)
        if getattr(address, "scope_id", None) is not None:
            raise InvalidRequest(f"{text} has a zone, which means something on one machine only: leave out %…")
        return str(address)
    labels = text.removeprefix("*.").split(".")
    # What ends in a number is an address that was mistyped (RFC 1123), and no client would match it as a name.
    is_dns = all(map(_DNS_LABEL.fullmatch, labels)) and not labels[-1].isdigit() and len(text) <= _DNS_CHARACTERS_MAX
    if not is_dns:
        raise InvalidRequest(
            f"{text[:_DNS_CHARACTERS_MAX]!r} is neither a DNS name nor an IP address: name hosts without scheme, port "
            "or brackets, as clients call them, like --server db1.example.org,10.0.0.5"
        )
    return text.lower()


def files_of(folder: Path, name: str) -> PairFiles:
    """The files of the certificate `name`."""
    return PairFiles(folder / f"{name}{_CERTIFICATE}", folder / f"{name}{_KEY}")


def leaf_names(folder: Path) -> Sequence[str]:
    """The names of the certificates in a folder, without the CA, sorted. Raises `OSError`."""
    found = (each.name.removesuffix(_CERTIFICATE) for each in folder.iterdir() if each.name.endswith(_CERTIFICATE))
    return sorted(name for name in found if is_name(name))


def pair_names(folder: Path) -> Sequence[str]:
    """The names of which a folder has a certificate, a key, or what is left of a change; the CA too. Sorted.

    Raises `OSError`.
    """
    found = {
        name.removesuffix(end)
        for name in (each.name.removesuffix(_PART) for each in folder.iterdir())
        for end in (_CERTIFICATE, _KEY)
        if name.endswith(end)
    }
    return sorted(name for name in found if name == AUTHORITY or is_name(name))


def part_of(file: Path) -> Path:
    """Where a file's next content is written before it is renamed."""
    return file.with_name(file.name + _PART)


def lock_of(folder: Path) -> Path:
    """The file that a command holds while it changes the folder."""
    return folder / _LOCK
