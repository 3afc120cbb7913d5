"""Certificates as a company's own CA makes them, with whatever names and keys."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import NameOID

from duramen.certificates.pair import PemPair
from duramen.certificates.pem import certificate_pem, key_pem

__all__ = ["foreign_pair"]

Key = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey


def foreign_pair(
    common_names: Sequence[str] = (),
    alternatives: Sequence[x509.GeneralName] = (),
    *,
    key: Key | None = None,
    is_ca: bool = False,
) -> PemPair:
    """A certificate that signs itself: what it says is as it would be from a CA."""
    key = key or ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, each) for each in common_names])
    now = datetime.now(UTC).replace(microsecond=0)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=100))
    )
    if is_ca:
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    if alternatives:
        builder = builder.add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
    return PemPair(certificate_pem(builder.sign(key, hashes.SHA256())), key_pem(key))
