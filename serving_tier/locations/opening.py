"""The version store at a location that a caller names: here is decided what cannot be decided by names alone."""

from __future__ import annotations

import asyncio
import socket

from serving_tier.locations.allowed import AllowedLocations, is_open_address, refused
from serving_tier.locations.endpoint import Endpoint
from serving_tier.locations.location import Folder
from serving_tier.snapshots.snapshot_store import SnapshotStore
from serving_tier.snapshots.store_url import StorePlace
from serving_tier.versions.version_store import VersionStore

__all__ = ["open_version"]


async def open_version(url: str, allowed: AllowedLocations) -> VersionStore:
    """The version store at `url`. Raises `LocationRefused`, before anything is opened or connected to, and what
    `VersionStore.open` raises. One question to a name server, for an endpoint that is a name and was not configured.
    """
    location = allowed.check(url)
    if isinstance(location, Folder):
        if allowed.local_callers:
            return VersionStore.open(location.url)
        from serving_tier.locations.confined_files import ConfinedFiles, resolved_below  # with fsspec

        roots = allowed.folders()
        real = await asyncio.to_thread(resolved_below, location.path, roots)
        return VersionStore(SnapshotStore(StorePlace(lambda: (ConfinedFiles(roots), real), url, True, (OSError,))))
    if location.endpoint is not None and not location.endpoint.is_address and not allowed.names(location):
        await _check_name(location.endpoint, url)
    return VersionStore.open(location.url)


async def _check_name(endpoint: Endpoint, url: str) -> None:
    """Refuse a name of which one address is of the local network."""
    try:
        found = await asyncio.get_running_loop().getaddrinfo(endpoint.host, endpoint.port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise refused(url, f"no address of its endpoint {endpoint.host} is known ({error})") from error
    local = [str(each[4][0]) for each in found if not is_open_address(str(each[4][0]))]
    if local:
        raise refused(url, f"its endpoint {endpoint.host} is at {local[0]}, which is of the local network")
