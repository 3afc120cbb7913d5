"""What a certificate says, as one value for commands, logs and status pages."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final, Literal

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.x509.oid import NameOID

from duramen.certificates.identity import identity_in
from duramen.certificates.pem import UNREADABLE
from duramen.certificates.signing import hosts_of, is_authority
from log_tier.model.errors import CertificateInvalid

__all__ = ["CertificateFacts", "CertificateKind", "facts_of"]

CertificateKind = Literal["ca", "server", "user"]

_SHORT_NAMES: Final = {NameOID.SERIAL_NUMBER: "serialNumber"}


@dataclass(frozen=True, slots=True)
class CertificateFacts:
    """What one certificate says."""

    file: Path
    """Where it is."""
    kind: CertificateKind
    """What it is for."""
    name: str
    """The server's or the user's name; of a CA its common name."""
    hosts: tuple[str, ...]
    """The DNS names and IP addresses by which clients may call a server."""
    issuer: str
    """The subject of the CA that signed it (RFC 4514)."""
    valid_from: datetime
    """In UTC."""
    valid_to: datetime
    """In UTC; the last second at which it is valid."""
    fingerprint: str
    """SHA-256 of its DER bytes, as `openssl x509 -fingerprint -sha256` prints it."""


def facts_of(certificate: x509.Certificate, file: Path) -> CertificateFacts:
    """What the certificate in `file` says. Raises `CertificateInvalid` if it cannot be read or names nobody."""
    try:
        kind: CertificateKind
        if is_authority(certificate):
            common = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
            kind, name = "ca", str(common[-1].value) if common else certificate.subject.rfc4514_string()
        else:
            kind, name = identity_in(certificate, str(file))
        return CertificateFacts(
            file=file,
            kind=kind,
            name=name,
            hosts=hosts_of(certificate),
            issuer=certificate.issuer.rfc4514_string(_SHORT_NAMES),
            valid_from=certificate.not_valid_before_utc,
            valid_to=certificate.not_valid_after_utc,
            fingerprint=certificate.fingerprint(hashes.SHA256()).hex(":").upper(),
        )
    except UNREADABLE as error:
        raise CertificateInvalid(f"{file} has parts that cannot be read: {error}", file=str(file)) from error
