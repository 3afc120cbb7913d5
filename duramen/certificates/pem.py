"""PEM files: read, parsed and compared. Whatever a file holds instead is a `CertificateInvalid` that names it."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)

from log_tier.model.errors import CertificateInvalid

__all__ = [
    "PEM_BYTES_MAX",
    "UNREADABLE",
    "are_a_pair",
    "certificate_pem",
    "check_authorities",
    "key_pem",
    "parse_certificate",
    "parse_certificates",
    "parse_key",
    "read_pem",
]

PEM_BYTES_MAX: Final = 1 << 20
"""A bundle of all public CAs has 250 kB; anything longer is something else."""

UNREADABLE: Final = (
    ValueError,
    TypeError,
    UnsupportedAlgorithm,
    x509.InvalidVersion,
    x509.DuplicateExtension,
    x509.UnsupportedGeneralNameType,
)
"""What `cryptography` raises for bytes that it cannot parse. It parses some parts of a certificate when asked."""


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


def parse_certificate(data: bytes, where: Path | str) -> x509.Certificate:
    """The first certificate of `data`: of a chain that of its holder. Raises `CertificateInvalid`."""
    try:
        return x509.load_pem_x509_certificate(data)
    except UNREADABLE as error:
        raise _malformed(where, "certificate", error) from error


def parse_certificates(data: bytes, where: Path | str) -> list[x509.Certificate]:
    """All certificates of `data`, one at least. Raises `CertificateInvalid`."""
    try:
        return x509.load_pem_x509_certificates(data)
    except UNREADABLE as error:
        raise _malformed(where, "certificate", error) from error


def check_authorities(data: bytes, where: Path | str) -> None:
    """Refuse a bundle of CAs that TLS cannot use. Raises `CertificateInvalid`.

    OpenSSL decides, which lets pass what it has always let pass: in the bundles of systems are CAs that `cryptography`
    warns of, and will refuse.
    """
    try:
        # Between certificates there may be names of CAs, in any letters.
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=data.decode("ascii", "ignore"))
    except (ssl.SSLError, ValueError) as error:
        raise _malformed(where, "certificate", error) from error


def parse_key(data: bytes, where: Path | str) -> PrivateKeyTypes:
    """A private key without a passphrase. Raises `CertificateInvalid`."""
    try:
        return load_pem_private_key(data, password=None)
    except TypeError as error:
        raise CertificateInvalid(
            f"{where} has a passphrase, which nobody types when a server starts: store the key without one, in a file "
            "that only its owner can read",
            file=str(where),
        ) from error
    except UNREADABLE as error:
        raise _malformed(where, "private key", error) from error


def are_a_pair(certificate: x509.Certificate, key: PrivateKeyTypes) -> bool:
    """Whether the certificate is for this private key."""
    form = (Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return certificate.public_key().public_bytes(*form) == key.public_key().public_bytes(*form)


def certificate_pem(certificate: x509.Certificate) -> bytes:
    """A certificate as PEM."""
    return certificate.public_bytes(Encoding.PEM)


def key_pem(key: PrivateKeyTypes) -> bytes:
    """A private key as PKCS #8 in PEM, without a passphrase."""
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def _malformed(where: Path | str, what: str, error: Exception) -> CertificateInvalid:
    why = str(error).split("\n", 1)[0][:200]
    fields = {"file": str(where)} if isinstance(where, Path) else {}
    return CertificateInvalid(
        f"{where} holds no {what} in PEM ({why}): name the right file, or issue it again", **fields
    )
