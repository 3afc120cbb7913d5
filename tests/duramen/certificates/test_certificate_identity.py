"""Whom a certificate is for: ours, a company's, and those that name nobody."""

from __future__ import annotations

from pathlib import Path

import pytest
from cryptography import x509
from kit.foreign_certificates import foreign_pair

from duramen.certificates.folder import CertificateFolder
from duramen.certificates.identity import CertificateIdentity, identity_of, uri_of
from log_tier.model.errors import CertificateInvalid

pytestmark = pytest.mark.embedded_log_only


def uri(text: str) -> x509.GeneralName:
    return x509.UniformResourceIdentifier(text)


@pytest.mark.parametrize(
    ("identity", "hosts"),
    [
        (CertificateIdentity("server", "n1"), ("localhost", "127.0.0.1")),
        (CertificateIdentity("user", "alice"), ()),
    ],
)
def test_what_is_issued_is_what_is_found(identity: CertificateIdentity, hosts: tuple[str, ...], tmp_path: Path) -> None:
    folder = CertificateFolder(tmp_path / "certs")
    folder.make_authority()
    facts = folder.issue(identity, hosts)
    pem = facts.file.read_bytes()
    assert identity_of(pem) == identity
    assert identity_of(pem + (tmp_path / "certs" / "ca.crt").read_bytes()) == identity, "the first of a chain counts"
    assert identity_of((tmp_path / "certs" / "ca.crt").read_bytes()) == ("user", "Duramen CA"), "and no CA is a server"


@pytest.mark.parametrize(
    ("common_names", "alternatives", "identity"),
    [
        (["alice"], [], ("user", "alice")),
        (["Alice Müller"], [x509.DNSName("a.example.org")], ("user", "Alice Müller")),
        (["Users", "alice"], [], ("user", "alice")),
        ([], [x509.DNSName("a.example.org"), x509.DNSName("b")], ("user", "a.example.org")),
        ([], [x509.RFC822Name("alice@example.org"), x509.DNSName("b")], ("user", "alice@example.org")),
        (["db1.example.org"], [x509.DNSName("db1.example.org"), uri("duramen:server:db1")], ("server", "db1")),
        (["alice"], [uri("spiffe://example.org/db"), uri("duramen:user:al")], ("user", "al")),
        (["alice"], [uri("spiffe://example.org/db")], ("user", "alice")),
        # A name that looks like an identity is a name.
        (["duramen:server:n1"], [], ("user", "duramen:server:n1")),
        ([], [x509.DNSName("duramen:server:n1")], ("user", "duramen:server:n1")),
    ],
)
def test_certificates_of_a_company(
    common_names: list[str], alternatives: list[x509.GeneralName], identity: tuple[str, str]
) -> None:
    assert identity_of(foreign_pair(common_names, alternatives).certificate) == identity


@pytest.mark.parametrize(
    ("common_names", "alternatives", "message"),
    [
        ([], [], "names nobody"),
        ([], [uri("spiffe://example.org/db")], "names nobody"),
        (["a\nb"], [], "printable"),
        (["alice"], [uri("duramen:server:a"), uri("duramen:user:a")], "several identities"),
        (["alice"], [uri("duramen:user:a"), uri("duramen:user:a")], "several identities"),
        (["alice"], [uri("duramen:user:")], "neither duramen:server:NAME nor"),
        (["alice"], [uri("duramen:user:ca")], "neither duramen:server:NAME nor"),
        (["alice"], [uri("duramen:user:a/b")], "neither duramen:server:NAME nor"),
        (["alice"], [uri("duramen:admin:a")], "neither duramen:server:NAME nor"),
        (["alice"], [uri("DURAMEN:server:a")], "neither duramen:server:NAME nor"),
        (["alice"], [uri("duramen:")], "neither duramen:server:NAME nor"),
        ([], [x509.DNSName("x" * 256)], "1 to 255 printable"),
    ],
)
def test_certificates_that_name_nobody(
    common_names: list[str], alternatives: list[x509.GeneralName], message: str
) -> None:
    with pytest.raises(CertificateInvalid, match=message):
        identity_of(foreign_pair(common_names, alternatives).certificate)


@pytest.mark.parametrize(
    "data", [b"", b"no certificate", b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"]
)
def test_what_is_no_certificate(data: bytes) -> None:
    with pytest.raises(CertificateInvalid, match="holds no certificate in PEM"):
        identity_of(data)


def test_the_uri_of_an_identity() -> None:
    assert uri_of(CertificateIdentity("server", "n1")) == "duramen:server:n1"
