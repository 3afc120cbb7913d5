"""The guard of the log's port: a caller shows the certificate of a server.

The handshake has checked that the certificate is of a trusted CA and valid now. That CA issues certificates to users,
too, and a user who read or wrote the log would pass by every grant.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

import grpc
from grpc_health.v1 import health
from grpc_reflection.v1alpha import reflection

from duramen.certificates.names import CertificateIdentity
from log_tier.model.errors import CertificateInvalid, PermissionDenied
from log_tier.rpc.checked import Admit, AdmitStream
from log_tier.rpc.messages.early_refusals import EarlyRefusal, Metadata
from log_tier.rpc.security import shown_certificate

__all__ = ["ServersOnly", "check_server", "identity_shown"]

_UNGUARDED: Final = frozenset({health.SERVICE_NAME, reflection.SERVICE_NAME})
"""They say whether a server is well, and what its protos are."""


class ServersOnly:
    """A `CallGuard` that lets in servers, on a port that asks every client for a certificate."""

    is_closed: Final = True

    def admitting(self, method: str) -> Admit | None:
        """What lets in the calls of a method; None for health and reflection. It raises `PermissionDenied`."""
        return self.admitting_streams(method)

    def may_end(self, _method: str) -> bool:
        """No: see `unasked`."""
        return False

    def unasked(self, _method: str, _request: Any, _context: grpc.aio.ServicerContext[Any, Any]) -> None:
        """Nothing: it asks about every call."""

    def admitting_streams(self, method: str) -> AdmitStream | None:
        """The same for streams."""
        if method[1:].partition("/")[0] in _UNGUARDED:
            return None

        async def admit(_request: Any, context: grpc.aio.ServicerContext[Any, Any]) -> None:
            check_server(shown_certificate(context), method)

        return admit

    def early(self, _method: str, _metadata: Metadata) -> EarlyRefusal | None:
        """Nothing: servers have no quota."""
        return None


def check_server(certificate: bytes | None, what: str) -> None:
    """Raise `PermissionDenied` unless `certificate` (PEM, verified by the handshake) is a server's. `what` is named in
    the error. A microsecond for a certificate that was seen before.
    """
    if certificate is not None and (shown := identity_shown(certificate)) is not None and shown.kind == "server":
        return
    raise PermissionDenied(
        f"{what} is for servers of the cluster, and {_caller(certificate)} called it: clients call a router or a node"
    )


# A cluster has tens of servers; reading a certificate takes some 40 us, and each call shows one.
@lru_cache(maxsize=1024)
def identity_shown(certificate: bytes) -> CertificateIdentity | None:
    """Whom a certificate (PEM) names; None for one that names nobody."""
    from duramen.certificates.identity import identity_of

    try:
        return identity_of(certificate)
    except CertificateInvalid:
        return None


def _caller(certificate: bytes | None) -> str:
    if certificate is None:
        return "a client without a certificate"
    shown = identity_shown(certificate)
    return "a certificate without a name" if shown is None else f"the certificate of the {shown.kind} {shown.name!r}"
