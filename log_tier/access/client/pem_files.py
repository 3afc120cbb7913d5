"""PEM files of certificates as a client needs them before it has `cryptography`: read, and looked at by OpenSSL alone.

Spark's driver and executors take `CaFile`; programs and the command line may show a certificate of their own
(`duramen.certificates.channel_files`).
"""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Final, NamedTuple

from log_tier.model.errors import CertificateInvalid
from log_tier.rpc.security import ChannelPems

__all__ = ["PEM_BYTES_MAX", "CaFile", "check_authorities", "file_stamp", "malformed_pem", "read_pem"]

PEM_BYTES_MAX: Final = 1 << 20
"""A bundle of all public CAs has 250 kB; anything longer is something else."""


class CaFile(NamedTuple):
    """A `ChannelSecurity` of a client that shows no certificate: it knows the servers' CAs."""

    ca: Path
    """The CAs that sign the servers' certificates."""

    def read(self) -> ChannelPems:
        """What the file holds now. Raises `CertificateInvalid`, which names it."""
        authorities = read_pem(self.ca)
        check_authorities(authorities, self.ca)
        return ChannelPems(authorities, None, None)

    def stamp(self) -> object:
        """What changes when the file does: one `stat`."""
        return file_stamp(self.ca)


def file_stamp(file: Path) -> tuple[int, int, int] | None:
    """What changes when the file does; None if there is none."""
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size


def read_pem(file: Path) -> bytes:
    """The bytes of a file. Raises `CertificateInvalid` if it is missing, cannot be read, or is too long."""
    try:
        with file.open("rb") as opened:
            data = opened.read(PEM_BYTES_MAX + 1)
    except OSError as error:
        raise CertificateInvalid(
            f"{file} cannot be read: {error.strerror or error}; name the right file, or issue it again", file=str(file)
        ) from error
    if len(data) > PEM_BYTES_MAX:
        raise CertificateInvalid(
            f"{file} is longer than {PEM_BYTES_MAX:,} bytes, so it is no certificate: name the right file",
            file=str(file),
        )
    return data


def check_authorities(data: bytes, where: Path | str) -> None:
    """Refuse a bundle of CAs that TLS cannot use. Raises `CertificateInvalid`.

    OpenSSL decides, which lets pass what it has always let pass: in the bundles of systems are CAs that `cryptography`
    warns of, and will refuse.
    """
    try:
        # Between certificates there may be names of CAs, in any letters.
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=data.decode("ascii", "ignore"))
    except (ssl.SSLError, ValueError) as error:
        raise malformed_pem(where, "certificate", error) from error


def malformed_pem(where: Path | str, what: str, error: Exception) -> CertificateInvalid:
    """The error of a file that holds no `what`."""
    why = str(error).split("\n", 1)[0][:200]
    fields = {"file": str(where)} if isinstance(where, Path) else {}
    return CertificateInvalid(
        f"{where} holds no {what} in PEM ({why}): name the right file, or issue it again", **fields
    )
