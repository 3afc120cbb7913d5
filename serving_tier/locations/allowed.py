"""What a server opens for its callers, decided by names alone. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from log_tier.model.errors import InvalidRequest, LocationRefused
from serving_tier.locations.addresses import is_local, parse_address
from serving_tier.locations.location import ANY_BUCKET, Bucket, Folder, Location, NoLocation, parse_location

__all__ = ["ANY_LOCAL", "AllowedLocations", "allowed_of", "is_open_address", "listens_on_loopback", "refused"]

_SETTING: Final = "allowed_locations"

# A message shows so much of a hostile text.
_SHOWN_CHARS_MAX: Final = 200


@dataclass(frozen=True, slots=True)
class AllowedLocations:
    """What one server opens. Immutable."""

    entries: tuple[Location, ...] = ()
    """What its configuration names: each allows itself and what lies below it."""
    local_callers: bool = False
    """Are all its callers on its machine? Then all folders are open to them, and object stores elsewhere."""

    def check(self, text: str) -> Location:
        """The location that `text` names. Raises `LocationRefused`. O(entries)."""
        try:
            location = parse_location(text)
        except NoLocation as error:
            raise refused(text, str(error)) from error
        if not (self.names(location) or self._by_default(location)):
            raise refused(text, self._why(location))
        return location

    def names(self, location: Location) -> bool:
        """Does the configuration name it, or what it lies below?"""
        return any(_covers(entry, location) for entry in self.entries)

    def folders(self) -> list[str]:
        """The paths of the folders that the configuration names."""
        return [entry.path for entry in self.entries if isinstance(entry, Folder)]

    def _by_default(self, location: Location) -> bool:
        if isinstance(location, Bucket) and location.endpoint is not None and location.endpoint.is_local:
            return False
        return self.local_callers

    def _why(self, location: Location) -> str:
        if isinstance(location, Bucket) and location.endpoint is not None and location.endpoint.is_local:
            return f"its endpoint {location.endpoint.url} is of the local network"
        return "this server was not configured to open it"


ANY_LOCAL: Final = AllowedLocations(local_callers=True)
"""The default of a server on loopback, and of a database in a program."""


def allowed_of(entries: Iterable[str], *, host: str, own: str = "") -> AllowedLocations:
    """What a server that listens on `host` opens. `own`: the URL of its snapshot store, empty if it has none.

    Raises `InvalidRequest` for an entry that is no location.
    """
    found: list[Location] = []
    for text in entries:
        try:
            found.append(parse_location(text, entry=True))
        except NoLocation as error:
            raise InvalidRequest(f"{_SETTING} has the entry {text!r}, which is no location: {error}") from error
    if own:
        # A store of another kind is used by the server and cannot be named by its callers.
        with suppress(NoLocation):
            found.append(parse_location(own))
    return AllowedLocations(tuple(found), listens_on_loopback(host))


def listens_on_loopback(host: str) -> bool:
    """Is a server that listens on `host` reached from its own machine alone?"""
    address = parse_address(host.strip("[]"))
    return host == "localhost" if address is None else address.is_loopback


def refused(text: str, why: str) -> LocationRefused:
    """The error for a location; its message names the setting."""
    shown = text if len(text) <= _SHOWN_CHARS_MAX else f"{text[:_SHOWN_CHARS_MAX]}…"
    return LocationRefused(
        f"the location {shown!r} is refused: {why}; to allow it, name it or what it lies below in {_SETTING} "
        "(--allow-location) of every node and router",
        location=shown,
        setting=_SETTING,
    )


def is_open_address(text: str) -> bool:
    """Is an address that a name server has given one of the public internet?"""
    address = parse_address(text.partition("%")[0])
    return address is not None and not is_local(address)


def _covers(entry: Location, location: Location) -> bool:
    if isinstance(entry, Folder):
        return isinstance(location, Folder) and _is_below(location.path, entry.path)
    if not isinstance(location, Bucket) or entry.endpoint != location.endpoint:
        return False
    return entry.name in (ANY_BUCKET, location.name) and _is_below(location.prefix, entry.prefix)


def _is_below(path: str, root: str) -> bool:
    root = root.rstrip("/")
    return path == root or path.startswith(f"{root}/") or not root
