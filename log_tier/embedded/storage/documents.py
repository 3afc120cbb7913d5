"""The small JSON files of a log folder: one line each, readable by people, with a checksum for the machine.

    {"format": "duramen-topic", "version": 1, "id": "…", "name": "flights", "partitions": 8, "check": "9a71c0f2"}

`check` is the CRC-32C, in hex, of the same line without it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import google_crc32c

from log_tier.embedded.storage import names
from log_tier.embedded.storage.disk import Disk, replace_file
from log_tier.model.errors import ForeignFolder, LogDamaged, UnknownFormat

__all__ = ["DOCUMENT_BYTES_MAX", "DOCUMENT_VERSION", "Field", "read_document", "write_document"]

DOCUMENT_VERSION: Final = 1

# These files hold a handful of numbers; anything longer is something else.
DOCUMENT_BYTES_MAX: Final = 4096

Field = int | str


def _line(fields: Mapping[str, Field]) -> bytes:
    return json.dumps(fields).encode("ascii")


def write_document(disk: Disk, path: Path, kind: str, fields: Mapping[str, Field]) -> None:
    """Write atomically and durably. Two syncs."""
    whole = {"format": kind, "version": DOCUMENT_VERSION, **fields}
    check = f"{google_crc32c.value(_line(whole)):08x}"
    replace_file(disk, path, _line({**whole, "check": check}) + b"\n", part=path.with_name(path.name + names.PART))


def read_document(disk: Disk, path: Path, kind: str) -> dict[str, Field]:
    """Read it back.

    Raises `ForeignFolder` for a file that is something else, `UnknownFormat` for a newer version, `LogDamaged` where
    the checksum does not hold, and `FileNotFoundError`.
    """
    file = disk.open(path)
    try:
        data = file.pread(DOCUMENT_BYTES_MAX, 0)
    finally:
        file.close()
    try:
        fields = json.loads(data)
    except ValueError as error:
        raise LogDamaged(f"{path} cannot be read: {error}; restore it from a copy", file=str(path)) from error
    if not isinstance(fields, dict) or fields.get("format") != kind:
        raise ForeignFolder(f"{path} is no {kind} file: it was made by something else; choose another folder")
    if fields.get("version") != DOCUMENT_VERSION:
        raise UnknownFormat(
            f"{path} has format version {fields.get('version')}, this process reads version {DOCUMENT_VERSION}: "
            "open it with the Duramen that wrote it, or a newer one"
        )
    check = fields.pop("check", None)
    found = f"{google_crc32c.value(_line(fields)):08x}"
    if check != found:
        raise LogDamaged(
            f"{path} says its checksum is {check}, its text gives {found}; restore it from a copy", file=str(path)
        )
    return fields
