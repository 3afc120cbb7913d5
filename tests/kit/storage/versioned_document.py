"""One document, as this version writes it, and changed as another version or damage would."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import google_crc32c

__all__ = ["Document", "deflated", "in_file", "json_document", "plain_json", "sealed_json"]

Read = Callable[[bytes, Path], object]


@dataclass(frozen=True)
class Document:
    """One kind of document, and how this process reads it."""

    good: bytes
    read: Read
    """Reads these bytes, put where they belong in an empty folder."""
    module: str
    """The module that has its format version."""
    unknown: bytes | None
    """The same with a field that this version does not know; None: there is no place for one."""
    newer: bytes | None
    """Of the next format version; None: it has no version."""
    damaged: bytes
    without: Callable[[str], bytes] | None = None
    """The same without that field; None: all fields are at fixed places."""
    required: str = ""
    """A field that every version has."""


def sealed_json(good: bytes, change: Callable[[dict[str, Any]], None]) -> bytes:
    """A sealed document that was changed, with the checksum that it should have."""
    document = json.loads(good)
    indent = 1 if good.startswith(b"{\n") else None
    del document["check"]
    change(document)
    text = json.dumps(document, indent=indent).encode("ascii")
    document["check"] = f"{google_crc32c.value(text):08x}"
    return json.dumps(document, indent=indent).encode("ascii") + b"\n"


def plain_json(good: bytes, change: Callable[[dict[str, Any]], None]) -> bytes:
    """A document without a checksum, changed."""
    document = json.loads(good)
    change(document)
    return json.dumps(document, separators=(",", ":")).encode()


def json_document(
    good: bytes,
    read: Read,
    module: str,
    *,
    required: str,
    version: str = "version",
    changed: Callable[[bytes, Callable[[dict[str, Any]], None]], bytes] = sealed_json,
    damaged: bytes | None = None,
) -> Document:
    """A document that is one JSON object."""
    number = json.loads(good).get(version)
    flipped = bytearray(good)
    flipped[good.index(required.encode()) + len(required) // 2] ^= 1
    return Document(
        good,
        read,
        module,
        unknown=changed(good, lambda fields: fields.update(added=[1, {"by": "a newer version"}])),
        newer=None if number is None else changed(good, lambda fields: fields.update({version: number + 1})),
        damaged=bytes(flipped) if damaged is None else damaged,
        without=lambda name: changed(good, lambda fields: fields.pop(name, None)),
        required=required,
    )


def in_file(name: str, read: Callable[[Path], object]) -> Read:
    """Reads a file of that name."""

    def reading(data: bytes, folder: Path) -> object:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        return read(path)

    return reading


def deflated(plain: Document) -> Document:
    """A document that is stored compressed. Damage is to its text, as its compression has a checksum of its own."""
    assert plain.unknown is not None
    assert plain.newer is not None
    assert plain.without is not None
    without = plain.without
    return replace(
        plain,
        good=zlib.compress(plain.good),
        unknown=zlib.compress(plain.unknown),
        newer=zlib.compress(plain.newer),
        damaged=zlib.compress(plain.damaged),
        without=lambda name: zlib.compress(without(name)),
    )
