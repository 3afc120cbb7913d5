"""A role's settings of the fast door, as the door takes them."""

from __future__ import annotations

from pathlib import Path

from duramen.settings.models import NodeSettings, RouterSettings
from router.resp_door.sockets import DoorSettings

__all__ = ["door_settings"]


def door_settings(settings: NodeSettings | RouterSettings) -> DoorSettings:
    """What `resp_…` says."""

    def path(text: str) -> Path | None:
        return Path(text) if text else None

    return DoorSettings(
        host=settings.host,
        port=settings.resp_port if settings.resp_port >= 0 else None,
        socket_path=path(settings.resp_socket),
        password=settings.resp_password,
        tls_certificate=path(settings.resp_tls_certificate),
        tls_key=path(settings.resp_tls_key),
        # A router has no replicas.
        readers=settings.resp_readers if isinstance(settings, NodeSettings) else 0,
        cache_mebibytes=settings.resp_cache_mebibytes if isinstance(settings, NodeSettings) else 0,
    )
