"""A role's settings of the RESP endpoint, as the endpoint takes them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from duramen.server.settings.models import NodeSettings, RouterSettings
from router.endpoints.resp.server.sockets import RespSettings

__all__ = ["resp_settings", "with_certificate"]


def resp_settings(settings: NodeSettings | RouterSettings, pair: tuple[Path, Path] | None = None) -> RespSettings:
    """Convert a role's `resp_*` settings to `RespSettings`. `pair`: the server's certificate and key, for an endpoint
    that has none of its own.
    """

    def path(text: str) -> Path | None:
        return Path(text) if text else None

    made = RespSettings(
        host=settings.host,
        port=settings.resp_port if settings.resp_port >= 0 else None,
        socket_path=path(settings.resp_socket),
        password=settings.resp_password,
        tls_certificate=path(settings.resp_tls_certificate),
        tls_key=path(settings.resp_tls_key),
        clients_mebibytes=settings.resp_clients_mebibytes,
        # A router has no replicas.
        readers=settings.resp_readers if isinstance(settings, NodeSettings) else 0,
        cache_mebibytes=settings.resp_cache_mebibytes if isinstance(settings, NodeSettings) else 0,
    )
    return with_certificate(made, pair)


def with_certificate(settings: RespSettings, pair: tuple[Path, Path] | None) -> RespSettings:
    """The same endpoint, with the server's certificate and key if it has none of its own."""
    if pair is None or settings.tls_certificate is not None or settings.tls_key is not None:
        return settings
    return replace(settings, tls_certificate=pair[0], tls_key=pair[1])
