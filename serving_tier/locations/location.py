"""From a text to a location: a folder, or a bucket with its endpoint. Pure, and strict: see the package's essay."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qsl, quote, unquote

from serving_tier.locations.endpoint import Endpoint, parse_endpoint

__all__ = ["ANY_BUCKET", "LOCATION_CHARS_MAX", "Bucket", "Folder", "Location", "NoLocation", "parse_location"]

# A path of Linux has at most 4096 bytes, a key of S3 1024.
LOCATION_CHARS_MAX: Final = 4096

ANY_BUCKET: Final = "*"
"""In an entry of the configuration: every bucket of an endpoint."""

_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*:")
_BUCKET: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._\-]{1,62}")
_REGION: Final = re.compile(r"[a-z0-9\-]{1,32}")
_SETTINGS: Final = ("endpoint_url", "region")


class NoLocation(ValueError):
    """A text that is no location. The message says why, without the text."""


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder of the machine that opens it."""

    path: str
    """Absolute, normalised: no empty segment, no `.`, no `..`, no slash at the end but in `/`."""

    @property
    def url(self) -> str:
        """The location's one text."""
        return f"file://{self.path}"


@dataclass(frozen=True, slots=True)
class Bucket:
    """What lies below a prefix in a bucket of S3, or of what speaks it."""

    name: str
    prefix: str
    """Normalised as a folder's path, without a slash at either end; empty: the whole bucket."""
    endpoint: Endpoint | None
    """Where the object store is; None: where the server's own environment says."""
    region: str = ""

    @property
    def url(self) -> str:
        """The location's one text."""
        place = f"s3://{self.name}/{self.prefix}".rstrip("/")
        settings = [f"endpoint_url={quote(self.endpoint.url, safe=':/[]')}"] if self.endpoint else []
        settings += [f"region={self.region}"] if self.region else []
        return f"{place}?{'&'.join(settings)}" if settings else place


Location = Folder | Bucket


def parse_location(text: str, *, entry: bool = False) -> Location:
    """The location that a text names; `entry`: one of the configuration, whose bucket may be `*`.

    Raises `NoLocation`. O(length).
    """
    if not 0 < len(text) <= LOCATION_CHARS_MAX:
        raise NoLocation(f"it has {len(text)} characters; a location has 1 to {LOCATION_CHARS_MAX}")
    if not text.isprintable() or "\\" in text:
        raise NoLocation("it has a control character, an unusual space or a backslash")
    place, mark, query = text.partition("?")
    if "::" in place:
        raise NoLocation("it has '::', which chains file systems")
    if place.startswith("s3://"):
        return _bucket(place.removeprefix("s3://"), query if mark else "", entry=entry)
    if mark:
        raise NoLocation("only s3:// takes settings after a '?'")
    if place.startswith("file://"):
        place = place.removeprefix("file://")
        if not place.startswith("/") or place.startswith("//"):
            raise NoLocation("file:// names a host; a folder is file:///folder")
    elif _SCHEME.match(place):
        raise NoLocation("its scheme is neither file:// nor s3://, in small letters")
    elif not place.startswith("/"):
        raise NoLocation("it is no absolute path: each server would look below a folder of its own")
    elif place.startswith("//"):
        raise NoLocation("it begins with '//', which names a host")
    return Folder("/" + "/".join(_segments(place)))


def _segments(path: str) -> list[str]:
    """The segments of a path, without empty ones. Raises `NoLocation` where a reader that decodes it could climb."""
    decoded = path
    while (further := unquote(decoded)) != decoded:
        decoded = further
    if decoded.count("/") != path.count("/") or "\\" in decoded or "\0" in decoded:
        raise NoLocation("it has an encoded slash, backslash or zero byte")
    if any(segment in (".", "..") for segment in decoded.split("/")):
        raise NoLocation("it has '.' or '..' as a segment")
    return [segment for segment in path.split("/") if segment]


def _bucket(place: str, query: str, *, entry: bool) -> Bucket:
    name, _, prefix = place.partition("/")
    if not (_BUCKET.fullmatch(name) or (entry and name == ANY_BUCKET)):
        raise NoLocation("s3:// is followed by no name of a bucket")
    try:
        given = parse_qsl(query, keep_blank_values=True, strict_parsing=bool(query), max_num_fields=len(_SETTINGS))
    except ValueError as error:
        raise NoLocation("its settings cannot be read") from error
    settings = dict(given)
    if len(settings) < len(given) or not settings.keys() <= set(_SETTINGS):
        raise NoLocation(f"its settings are not {' and '.join(_SETTINGS)}, each once")
    region = settings.get("region", "")
    if "region" in settings and not _REGION.fullmatch(region):
        raise NoLocation("its region has other characters than small letters, digits and '-'")
    endpoint = None
    if "endpoint_url" in settings:
        endpoint = parse_endpoint(settings["endpoint_url"])
        if endpoint is None:
            raise NoLocation("its endpoint_url is not http://host:port or https://host:port")
    return Bucket(name, "/".join(_segments(prefix)), endpoint, region)
