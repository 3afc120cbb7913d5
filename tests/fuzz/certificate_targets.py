"""Certificates: what a peer sends in a handshake, and what lies in a folder."""

from __future__ import annotations

import base64
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from cryptography.utils import CryptographyDeprecationWarning

from duramen.certificates.facts import facts_of
from duramen.certificates.identity import identity_of
from duramen.certificates.pem import parse_certificate, parse_certificates
from fuzz.target import Target

__all__ = ["certificate_targets"]

# Of `duramen cert init`, `issue server --server localhost,127.0.0.1,::1` and `issue alice`. An input is a number, so
# the samples have to be the same in every run; that they end some day is nothing to a parser.
_AUTHORITY: Final = (
    "MIIBqDCCAU2gAwIBAgIUXCBVFSlKYYCf6Z4ijwBUE9v/1wcwCgYIKoZIzj0EAwIwMDETMBEGA1UEAwwKRHVyYW1lbiBDQTEZMBcGA1UEBRMQNW"
    "MyMDU1MTUyOTRhNjE4MDAeFw0yNjExMjUwNDIzMjBaFw0zNjExMjIwNDI4MjBaMDAxEzARBgNVBAMMCkR1cmFtZW4gQ0ExGTAXBgNVBAUTEDVj"
    "MjA1NTE1Mjk0YTYxODAwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNCAARiRkRz09husgiRPX+mkHeVNLADqB6DRq6P1YCV6R7ESbWMAM66PcTFAW"
    "aJ1LlCWAhJQPbFzqYCHMh/+Ce8aLbio0UwQzASBgNVHRMBAf8ECDAGAQH/AgEAMA4GA1UdDwEB/wQEAwIBBjAdBgNVHQ4EFgQU34Iv1FifNGTO"
    "PbIaRWy9xVgURkkwCgYIKoZIzj0EAwIDSQAwRgIhAMLZYr9MkBsu9+wlh8ybKFzqKbgD78DQ/M4pGUhIIOe1AiEAsvuIfAexMFMIvhkVaixoGP"
    "ilMM9iJnNa380jdzFuwRw="
)
_SERVER: Final = (
    "MIICCTCCAa+gAwIBAgIUOiu3+1LmOt3KDgf04OkI26jBjLIwCgYIKoZIzj0EAwIwMDETMBEGA1UEAwwKRHVyYW1lbiBDQTEZMBcGA1UEBRMQNW"
    "MyMDU1MTUyOTRhNjE4MDAeFw0yNjExMjUwNDIzMjhaFw0yNzExMjUwNDI4MjhaMBExDzANBgNVBAMMBnNlcnZlcjBZMBMGByqGSM49AgEGCCqG"
    "SM49AwEHA0IABHAqH8ohjtfJmbasQt48vaWN3XBjaHbngNq2RtHClnu2q9AelzGH0DgC2wPhJByaOEghhT/57ZeKNkJP++KByRujgcUwgcIwDA"
    "YDVR0TAQH/BAIwADAOBgNVHQ8BAf8EBAMCB4AwHQYDVR0lBBYwFAYIKwYBBQUHAwEGCCsGAQUFBwMCMEMGA1UdEQQ8MDqCCWxvY2FsaG9zdIcE"
    "fwAAAYcQAAAAAAAAAAAAAAAAAAAAAYYVZHVyYW1lbjpzZXJ2ZXI6c2VydmVyMB0GA1UdDgQWBBTVP4zWaslOXZ8SFDJWwDccdWpYETAfBgNVHS"
    "MEGDAWgBTfgi/UWJ80ZM49shpFbL3FWBRGSTAKBggqhkjOPQQDAgNIADBFAiEA/5cZni71GRmCe2RiUz270eLKdNIr2G71rJsFZhVhXMsCIHNJ"
    "rJAV9WN3FZLy1MhtuqeBILYXKV1bgeIMyn4NSELs"
)
_USER: Final = (
    "MIIB1zCCAX6gAwIBAgIUYz7r9IbvOlOvTJP+1hUbraW5NzQwCgYIKoZIzj0EAwIwMDETMBEGA1UEAwwKRHVyYW1lbiBDQTEZMBcGA1UEBRMQNW"
    "MyMDU1MTUyOTRhNjE4MDAeFw0yNjExMjUwNDIzMjhaFw0yNzExMjUwNDI4MjhaMBAxDjAMBgNVBAMMBWFsaWNlMFkwEwYHKoZIzj0CAQYIKoZI"
    "zj0DAQcDQgAE/KCMk1qDa9efMmZ9Akq+D0MCPRTED4gKQU4HGaSTg1pz9Uh/eRy4ufC0eLtby1ToHmXvyObBVZZ3DCh4UM9seaOBlTCBkjAMBg"
    "NVHRMBAf8EAjAAMA4GA1UdDwEB/wQEAwIHgDATBgNVHSUEDDAKBggrBgEFBQcDAjAdBgNVHREEFjAUhhJkdXJhbWVuOnVzZXI6YWxpY2UwHQYD"
    "VR0OBBYEFG+lOh5djSdvv3EKKJe++fl7xi00MB8GA1UdIwQYMBaAFN+CL9RYnzRkzj2yGkVsvcVYFEZJMAoGCCqGSM49BAMCA0cAMEQCIB1xGS"
    "To7BeO2mO4u9SOxCGp7ZZv4sOQL2qCeJppb9MvAiApmstHKVUxMelCdm+JrCm2iQcgsm3YFs1ArKMeF9gRUw=="
)

_SAMPLES: Final = (_AUTHORITY, _SERVER, _USER)
_FILE: Final = Path("sample.crt")


def _as_pem(data: bytes) -> bytes:
    return b"-----BEGIN CERTIFICATE-----\n" + base64.encodebytes(data) + b"-----END CERTIFICATE-----\n"


def _read(data: bytes) -> None:
    """As a server and as `duramen cert show`."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CryptographyDeprecationWarning)  # of a serial number that is negative
        kind, name = identity_of(data)
        assert kind in ("server", "user")
        assert name.isprintable()
        for certificate in parse_certificates(data, _FILE):
            facts_of(certificate, _FILE)
        facts_of(parse_certificate(data, _FILE), _FILE)


def certificate_targets() -> Iterator[Target]:
    """The text, in which most changes end at base64; and the bytes in it."""
    yield Target("certificate", lambda: [_as_pem(base64.b64decode(each)) for each in _SAMPLES], _read)
    yield Target("certificate, sealed", lambda: [base64.b64decode(each) for each in _SAMPLES], _read, seal=_as_pem)
