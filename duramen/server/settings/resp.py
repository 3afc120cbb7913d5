"""A role's settings of the RESP endpoint, as the endpoint takes them."""

from __future__ import annotations

from pathlib import Path

from duramen.server.settings.models import NodeSettings, RouterSettings
from router.endpoints.resp.server.sockets import RespSettings

__all__ = ["resp_settings"]


def resp_settings(settings: NodeSettings | RouterSettings, pair: tuple[Path, Path] | None = None) -> RespSettings:
    """Convert a role's `resp_*` settings to `RespSettings`. `pair`: the server's certificate and key, for an endpoint
    that has none of its own.
    """

    def path(text: str) -> Path | None:
        return Path(text) if text else None

    return RespSettings(
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
    ).with_certificate(pair)
