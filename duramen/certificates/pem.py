"""What PEM holds, parsed and compared. Whatever a file holds instead is a `CertificateInvalid` that names it."""

from __future__ import annotations

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

from log_tier.access.client.pem_files import malformed_pem
from log_tier.model.errors import CertificateInvalid

__all__ = [
    "UNREADABLE",
    "are_a_pair",
    "certificate_pem",
    "key_pem",
    "parse_certificate",
    "parse_certificates",
    "parse_key",
]

UNREADABLE: Final = (
    ValueError,
    TypeError,
    UnsupportedAlgorithm,
    x509.InvalidVersion,
    x509.DuplicateExtension,
    x509.UnsupportedGeneralNameType,
)
"""What `cryptography` raises for bytes that it cannot parse. It parses some parts of a certificate when asked."""


def parse_certificate(data: bytes, where: Path | str) -> x509.Certificate:
    """The first certificate of `data`: of a chain that of its holder. Raises `CertificateInvalid`."""
    try:
        return x509.load_pem_x509_certificate(data)
    except UNREADABLE as error:
        raise malformed_pem(where, "certificate", error) from error


def parse_certificates(data: bytes, where: Path | str) -> list[x509.Certificate]:
    """All certificates of `data`, one at least. Raises `CertificateInvalid`."""
    try:
        return x509.load_pem_x509_certificates(data)
    except UNREADABLE as error:
        raise malformed_pem(where, "certificate", error) from error


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
        raise malformed_pem(where, "private key", error) from error


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
