"""How channels of this process are secured: with TLS to a CA's servers, or not at all; and what a server's end knows.

The security belongs to the context (`contextvars`) that makes a connection, as the transport does: what a client opens
in the background, to servers that it learns of later, is secured as its first connection is. So a cluster cannot send
a client to a server by plain TCP.

gRPC reads a channel's files once, when it is made. `renewed_channel.py` makes another one when they have changed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final, NamedTuple, Protocol

from log_tier.model.errors import HandshakeFailed

__all__ = [
    "SECURITY",
    "ChannelPems",
    "ChannelSecurity",
    "channel_credentials",
    "handshake_failure",
    "secured",
    "shown_certificate",
]


class ChannelPems(NamedTuple):
    """What a TLS client needs, in PEM."""

    ca: bytes
    """The CAs that sign the servers' certificates."""
    certificate: bytes | None
    """The client's own certificate with its chain; None: it shows none."""
    key: bytes | None
    """The certificate's key; None exactly where there is no certificate."""


class ChannelSecurity(Protocol):
    """Where a channel's certificates come from. It can be pickled, and compared."""

    def read(self) -> ChannelPems:
        """What is there now; certificate and key match. Raises `CertificateInvalid`."""
        ...

    def stamp(self) -> object:
        """What changes when that does; never raises, some microseconds."""
        ...


SECURITY: Final[ContextVar[ChannelSecurity | None]] = ContextVar("security", default=None)
"""The security of the channels that are made in the present context; None: plain TCP."""


@contextmanager
def secured(security: ChannelSecurity | None) -> Iterator[None]:
    """Secure the channels that are made inside, and by the tasks that begin inside."""
    before = SECURITY.set(security)
    try:
        yield
    finally:
        SECURITY.reset(before)


def channel_credentials(security: ChannelSecurity) -> Any:
    """gRPC's credentials for a new channel, for either of its interfaces. Reads the files; raises
    `CertificateInvalid`.
    """
    # Here, and not at the top: an embedded database has no channels, and does not wait for gRPC's import.
    from log_tier.rpc.core import grpc_core

    ca, certificate, key = security.read()
    return grpc_core().ssl_channel_credentials(ca, key, certificate)


# gRPC's and BoringSSL's words for a handshake that failed, and what to do. The first that is found counts.
_ADVICE: Final = (
    ("WRONG_VERSION_NUMBER", "the server does not speak TLS: call it with duramen://, or start it with --certs DIR"),
    ("certificate has expired", "the server's certificate has expired: `duramen cert rotate NAME` reissues it"),
    (
        "certificate is not yet valid",
        "the server's certificate is not valid yet: compare the clocks of both machines, or issue it again",
    ),
    (
        "Hostname Verification Check failed",
        "the server's certificate is for other hosts: call it by one of them, or issue a certificate with this one "
        "(`duramen cert issue NAME --server HOST,…`)",
    ),
    (
        "CERTIFICATE_VERIFY_FAILED",
        "the server's certificate is not of the CA that was given: name that CA's file (ca=, --ca, DURAMEN_CA)",
    ),
    ("handshake failed", "the handshake failed: look at the certificates with `duramen cert show`"),
)


def handshake_failure(target: str, details: str) -> HandshakeFailed | None:
    """The error of a call whose connection could not be secured, from gRPC's words; None for all other failures."""
    advice = next((advice for words, advice in _ADVICE if words in details), None)
    return None if advice is None else HandshakeFailed(f"{target}: {advice} ({details})", sent=0)


# gRPC's name for the client's certificate among what a handshake has found out.
_SHOWN: Final = "x509_pem_cert"


def shown_certificate(context: Any) -> bytes | None:
    """The certificate that the client of a `grpc.aio.ServicerContext` showed, PEM, without its chain; None on a port
    that asks for none.

    The handshake has checked that the client has its key, that one of the server's CAs signed it, and that it was valid
    then. Whom it names is the caller's to read. Some microseconds.
    """
    shown = context.auth_context().get(_SHOWN)
    return next(iter(shown), None) if shown else None
