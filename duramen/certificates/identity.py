"""Whom a certificate is for: a server, or a user.

    URI duramen:server:NAME      a server of this database
    URI duramen:user:NAME        a user
    CN=NAME                      a user, in a certificate of a company's own CA

Only the URI makes a server. A company's CA that issues certificates for servers adds it to them; all other certificates
of that CA are users', so a certificate that was issued for another purpose never becomes a server's.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from cryptography import x509
from cryptography.x509.oid import NameOID

from duramen.certificates.names import CertificateIdentity, IdentityKind, is_name
from duramen.certificates.pem import UNREADABLE, parse_certificate
from log_tier.model.errors import CertificateInvalid

__all__ = ["CertificateIdentity", "identity_in", "identity_of", "uri_of"]

_SCHEME: Final = "duramen"
_KINDS: Final[tuple[IdentityKind, ...]] = ("server", "user")
FOREIGN_CHARACTERS_MAX: Final = 255
"""The longest name of a company's certificate: that of a DNS name or an e-mail address."""


def identity_of(certificate_pem: bytes) -> CertificateIdentity:
    """Whom the first certificate of `certificate_pem` is for. Whether it is to be trusted is decided by the handshake.

    Raises `CertificateInvalid` for what is no certificate, for one that names nobody, and for one whose `duramen:` URI
    is malformed or not the only one. A pure function of the bytes, so a caller may cache it by them; some 40 µs.
    """
    return identity_in(parse_certificate(certificate_pem, "the certificate"), "the certificate")


def identity_in(certificate: x509.Certificate, where: str) -> CertificateIdentity:
    """Whom a certificate is for. `where` names it in errors. Raises `CertificateInvalid`."""
    try:
        alternatives = _alternatives_of(certificate)
        uris = [] if alternatives is None else alternatives.get_values_for_type(x509.UniformResourceIdentifier)
        ours = [uri for uri in uris if uri.lower().startswith(f"{_SCHEME}:")]
        if ours:
            return _parse_uris(ours, where)
        name = next(_foreign_names(certificate, alternatives), None)
    except UNREADABLE as error:
        raise CertificateInvalid(f"{where} has names that cannot be read: {error}") from error
    if name is None:
        raise CertificateInvalid(
            f"{where} names nobody: it has no URI {_SCHEME}:server:NAME or {_SCHEME}:user:NAME, no common name, no DNS "
            "name and no e-mail address; have it issued with one of them"
        )
    if not 0 < len(name) <= FOREIGN_CHARACTERS_MAX or not name.isprintable():
        raise CertificateInvalid(
            f"{where} has the name {name[:FOREIGN_CHARACTERS_MAX]!r}; a name has 1 to {FOREIGN_CHARACTERS_MAX} "
            "printable characters: have it issued again"
        )
    return CertificateIdentity("user", name)


def uri_of(identity: CertificateIdentity) -> str:
    """The URI that says the identity in a certificate."""
    return f"{_SCHEME}:{identity.kind}:{identity.name}"


def _parse_uris(uris: list[str], where: str) -> CertificateIdentity:
    """The identity of the only URI. A malformed one never falls back to the common name: what was meant is unknown."""
    if len(uris) > 1:
        raise CertificateInvalid(f"{where} has several identities ({', '.join(map(repr, uris[:3]))}): it needs one")
    for kind in _KINDS:
        prefix = f"{_SCHEME}:{kind}:"
        if uris[0].startswith(prefix) and is_name(name := uris[0].removeprefix(prefix)):
            return CertificateIdentity(kind, name)
    raise CertificateInvalid(
        f"{where} has the URI {uris[0][:FOREIGN_CHARACTERS_MAX]!r}, which is neither {_SCHEME}:server:NAME nor "
        f"{_SCHEME}:user:NAME: have it issued again"
    )


def _alternatives_of(certificate: x509.Certificate) -> x509.SubjectAlternativeName | None:
    try:
        return certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return None


def _foreign_names(certificate: x509.Certificate, alternatives: x509.SubjectAlternativeName | None) -> Iterator[str]:
    """The names of a certificate without our URI, the one that counts first."""
    # The last common name is the most specific: directories have CN=Users above CN=alice.
    for attribute in reversed(certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)):
        yield attribute.value if isinstance(attribute.value, str) else attribute.value.decode("utf-8", "replace")
    if alternatives is not None:
        yield from (each.value for each in alternatives if isinstance(each, x509.DNSName | x509.RFC822Name))
