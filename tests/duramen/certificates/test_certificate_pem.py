"""PEM files of the CAs that a TLS client or a server trusts."""

from __future__ import annotations

import datetime
import ssl
import warnings
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

import duramen
from duramen.certificates.pem import certificate_pem
from log_tier.access.client.pem_files import check_authorities

pytestmark = pytest.mark.embedded_log_only

WHERE = Path("ca.crt")
NOW = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)


def authority() -> x509.Certificate:
    """A CA with the serial number 1."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "a CA")])
    builder = x509.CertificateBuilder(name, name, key.public_key(), 1, NOW, NOW + datetime.timedelta(days=1))
    return builder.add_extension(x509.BasicConstraints(True, None), critical=True).sign(key, hashes.SHA256())


def with_serial_0(certificate: x509.Certificate) -> bytes:
    """As some old CAs have it, in PEM; nobody checks the signature of a CA that is trusted."""
    made = certificate.public_bytes(Encoding.DER)
    assert made.count(b"\x02\x01\x02\x02\x01\x01") == 1
    return ssl.DER_cert_to_PEM_cert(made.replace(b"\x02\x01\x02\x02\x01\x01", b"\x02\x01\x02\x02\x01\x00")).encode()


def test_a_systems_bundle_is_taken_without_a_word() -> None:
    bundle = "# Főtanúsítvány\n".encode() + certificate_pem(authority()) + with_serial_0(authority())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_authorities(bundle, WHERE)


@pytest.mark.parametrize("data", [b"", b"no PEM", b"\xff\x00"])
def test_what_holds_no_ca_is_refused(data: bytes) -> None:
    with pytest.raises(duramen.CertificateInvalid, match=r"ca\.crt holds no certificate in PEM"):
        check_authorities(data, WHERE)


def test_a_damaged_ca_behind_a_good_one_is_refused() -> None:
    good = certificate_pem(authority())
    damaged = good.replace(b"MII", b"AAA", 1)
    with pytest.raises(duramen.CertificateInvalid):
        check_authorities(good + damaged, WHERE)
