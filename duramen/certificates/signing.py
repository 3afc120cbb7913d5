"""Certificates as such: a CA signs one for a server or for a user. No file, and no clock but the time that is given.

Keys are ECDSA on P-256: every TLS library has it, a handshake costs a fraction of RSA's, and a certificate has 700
bytes.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from duramen.certificates.identity import CertificateIdentity, uri_of
from duramen.certificates.lifetimes import CLOCK_SKEW
from duramen.certificates.names import is_address
from duramen.certificates.pair import PemPair
from duramen.certificates.pem import UNREADABLE, certificate_pem, key_pem

__all__ = ["Authority", "hosts_of", "is_authority", "is_signed_by", "make_authority", "sign"]

_USAGES: Final = (
    "digital_signature",
    "content_commitment",
    "key_encipherment",
    "data_encipherment",
    "key_agreement",
    "key_cert_sign",
    "crl_sign",
    "encipher_only",
    "decipher_only",
)


class Authority(NamedTuple):
    """A CA that can sign."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey
    """Ours is on P-256; a company's may be RSA."""

    def as_pem(self) -> PemPair:
        """Its certificate and its key."""
        return PemPair(certificate_pem(self.certificate), key_pem(self.key))


def make_authority(name: str, *, now: datetime, lifetime: timedelta) -> Authority:
    """A new CA that signs itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    serial = x509.random_serial_number()
    # Two CAs of one name differ in their subjects: a verifier that looks for an issuer by its name finds one.
    unique = x509.NameAttribute(NameOID.SERIAL_NUMBER, f"{serial:040x}"[:16])
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name), unique])
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(serial)
        .not_valid_before(now - CLOCK_SKEW)
        .not_valid_after(now + lifetime)
        # It signs certificates of servers and users, and no CA below it.
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage("key_cert_sign", "crl_sign"), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )
    return Authority(builder.sign(key, hashes.SHA256()), key)


def sign(
    authority: Authority, identity: CertificateIdentity, hosts: Sequence[str], *, now: datetime, lifetime: timedelta
) -> PemPair:
    """A certificate for an identity, with a new key. It ends with its CA at the latest.

    A server's is for both ends of a connection, since servers are clients of each other; a user's for clients only.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    ca = authority.certificate
    uses = [ExtendedKeyUsageOID.CLIENT_AUTH]
    if identity.kind == "server":
        uses.insert(0, ExtendedKeyUsageOID.SERVER_AUTH)
    names = [*map(_general_name, hosts), x509.UniformResourceIdentifier(uri_of(identity))]
    builder = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, identity.name)]))
        .issuer_name(ca.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(max(now - CLOCK_SKEW, ca.not_valid_before_utc))
        .not_valid_after(min(now + lifetime, ca.not_valid_after_utc))
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage("digital_signature"), critical=True)
        .add_extension(x509.ExtendedKeyUsage(uses), critical=False)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(_key_identifier(authority), critical=False)
    )
    return PemPair(certificate_pem(builder.sign(authority.key, hashes.SHA256())), key_pem(key))


def is_authority(certificate: x509.Certificate) -> bool:
    """Whether the certificate is that of a CA."""
    try:
        return certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except x509.ExtensionNotFound:
        return False


def is_signed_by(certificate: x509.Certificate, ca: x509.Certificate) -> bool:
    """Whether the CA's key made the certificate's signature. Says nothing about times and uses."""
    try:
        certificate.verify_directly_issued_by(ca)
    except (InvalidSignature, *UNREADABLE):
        return False
    return True


def hosts_of(certificate: x509.Certificate) -> tuple[str, ...]:
    """The DNS names and IP addresses of a certificate, in its order."""
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return ()
    return tuple(str(each.value) for each in names if isinstance(each, x509.DNSName | x509.IPAddress))


def _general_name(host: str) -> x509.GeneralName:
    return x509.IPAddress(ipaddress.ip_address(host)) if is_address(host) else x509.DNSName(host)


def _usage(*allowed: str) -> x509.KeyUsage:
    return x509.KeyUsage(**{usage: usage in allowed for usage in _USAGES})


def _key_identifier(authority: Authority) -> x509.AuthorityKeyIdentifier:
    """By it a verifier finds the CA among several of one name."""
    try:
        own = authority.certificate.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    except x509.ExtensionNotFound:
        return x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.key.public_key())
    return x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(own)
