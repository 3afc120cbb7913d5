"""How a snapshot store is named: from a URL to fsspec's file system, and which errors that one raises.

Every node has a store, and most of them are folders that nothing is stored in for hours. So fsspec is imported when a
folder is first read or written; for what else a URL may name, at once, because only fsspec knows whether it can.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qsl

from log_tier.model.errors import InvalidRequest
from log_tier.privacy.masked_url import mask_url

__all__ = ["StorePlace", "open_place"]

# A call to a store that does not answer fails within a minute; the caller repeats it.
_S3_CONFIG: Final = {"connect_timeout": 5, "read_timeout": 30, "retries": {"max_attempts": 2}}


class StorePlace(NamedTuple):
    """The place of a store, and what reaches it."""

    reach: Callable[[], tuple[Any, str]]
    """fsspec's file system, and the store's path in it. Asks nobody anything."""
    url: str
    local: bool
    """A folder of this machine, or one that behaves so: it can be synced."""
    troubles: tuple[type[Exception], ...]
    """What its library raises where the store does not answer or refuses."""

    @property
    def fs(self) -> Any:
        """The file system."""
        return self.reach()[0]

    @property
    def root(self) -> str:
        """The store's path in the file system."""
        return self.reach()[1]


def open_place(url: str | os.PathLike[str], storage_options: Mapping[str, Any] | None) -> StorePlace:
    """The place of a store by its URL. Asks nobody anything yet. Raises `InvalidRequest`, see `SnapshotStore.open`."""
    url = os.fspath(url)
    place, _, query = url.partition("?")
    options: dict[str, Any] = {}
    troubles: tuple[type[Exception], ...] = (OSError,)
    if place.startswith("s3://"):
        options, troubles = _s3_options(query, url), (OSError, *_s3_troubles(url))
    elif query:
        raise InvalidRequest(f"{mask_url(url)}: only s3:// takes settings after a '?'")
    elif "://" not in place:
        place = f"file://{Path(place).absolute()}"
    local = place.startswith("file://")
    options |= storage_options or {}
    if local and not options and "::" not in place:
        return StorePlace(lambda: _file_system(place, {}), url, local, troubles)
    try:
        found = _file_system(place, options)
    except (ValueError, ImportError) as error:
        raise InvalidRequest(
            f"{mask_url(url)} is no snapshot store: {error}; use a folder, file:///folder or s3://bucket/prefix"
        ) from error
    return StorePlace(lambda: found, url, local, troubles)


def _file_system(place: str, options: Mapping[str, Any]) -> tuple[Any, str]:
    import fsspec

    fs, root = fsspec.core.url_to_fs(place, **options)
    return fs, root.rstrip("/")


def _s3_options(query: str, url: str) -> dict[str, Any]:
    settings = dict(parse_qsl(query))
    unknown = settings.keys() - {"endpoint_url", "region"}
    if unknown:
        raise InvalidRequest(
            f"{mask_url(url)}: {', '.join(sorted(unknown))} is no setting; endpoint_url and region are"
        )
    options: dict[str, Any] = {"use_listings_cache": False, "config_kwargs": _S3_CONFIG}
    if "endpoint_url" in settings:
        options["endpoint_url"] = settings["endpoint_url"]
    if "region" in settings:
        options["client_kwargs"] = {"region_name": settings["region"]}
    return options


def _s3_troubles(url: str) -> tuple[type[Exception], ...]:
    """What S3's client raises in addition to `OSError`."""
    try:
        from botocore.exceptions import BotoCoreError, ClientError
    except ImportError as error:
        raise InvalidRequest(
            f"{mask_url(url)}: the library for S3 is not installed: pip install 'duramen[s3]'"
        ) from error
    return BotoCoreError, ClientError
