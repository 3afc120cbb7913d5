"""The small JSON files of a log folder: one line each, readable by people, with a checksum for the machine.

    {"format": "duramen-topic", "version": 1, "id": "…", "name": "flights", "partitions": 8, "check": "9a71c0f2"}

They are sealed JSON (`log_tier.model.files.sealed_json`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final, TypeVar

from log_tier.embedded.storage import names
from log_tier.embedded.storage.disk import Disk, replace_file
from log_tier.model.errors import ForeignFolder, LogDamaged
from log_tier.model.files.sealed_json import SealedKind

__all__ = ["DOCUMENT_BYTES_MAX", "DOCUMENT_VERSION", "Field", "read_document", "write_document"]

DOCUMENT_VERSION: Final = 1

# These files hold a handful of numbers; anything longer is something else.
DOCUMENT_BYTES_MAX: Final = 4096

Field = int | str

T = TypeVar("T")


@cache
def _sealed(kind: str) -> SealedKind:
    return SealedKind(
        kind,
        DOCUMENT_VERSION,
        bytes_max=DOCUMENT_BYTES_MAX,
        damage=LogDamaged,
        remedy="restore it from a copy",
        upgrade="update this process; nothing was changed",
        indent=None,
        foreign=lambda where: ForeignFolder(
            f"{where} is no {kind} file: it was made by something else; choose another folder"
        ),
    )


def write_document(disk: Disk, path: Path, kind: str, fields: Mapping[str, Field]) -> None:
    """Write a document, whole or not at all. Two syncs. Raises `OSError`."""
    replace_file(disk, path, _sealed(kind).write(fields), part=path.with_name(path.name + names.PART))


def read_document(disk: Disk, path: Path, kind: str, made: Callable[[dict[str, Any]], T]) -> T:
    """The value that `made` builds of a document's fields; it ignores those that it does not know.

    Raises `ForeignFolder` for a file that is something else, `UnknownFormat` for a newer version, `LogDamaged` where
    the checksum does not hold or a field is missing, and `FileNotFoundError`.
    """
    file = disk.open(path)
    try:
        data = file.pread(DOCUMENT_BYTES_MAX, 0)
    finally:
        file.close()
    sealed = _sealed(kind)
    return sealed.build(sealed.parse(data, str(path)), str(path), made)
