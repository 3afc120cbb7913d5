"""Manifests changed by hand and sealed again: a reader must refuse them for another reason than their checksum."""

from __future__ import annotations

import json

import google_crc32c

__all__ = ["sealed_again"]


def sealed_again(document: dict[str, object]) -> bytes:
    """A document with the checksum that it should have."""
    document = {name: value for name, value in document.items() if name != "check"}
    check = f"{google_crc32c.value(json.dumps(document, indent=1).encode('ascii')):08x}"
    return json.dumps({**document, "check": check}, indent=1).encode("ascii") + b"\n"
