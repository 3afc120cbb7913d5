"""Which load this is: the same content, options and table give the same producer, and so go on where it ended."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import NamedTuple

from duramen.loading.errors import FileChanged
from duramen.loading.options import FileFormat, LoadOptions, RowOptions
from duramen.loading.reading import open_file
from log_tier.model.identifiers import TableId

__all__ = ["ContentIdentity", "identify", "producer_name"]


class ContentIdentity(NamedTuple):
    """A file's content, and how the file looked when that was read."""

    content: str
    """BLAKE2b of all its bytes, in hex."""
    size: int
    modified_ns: int

    def check_unchanged(self, path: Path) -> None:
        """Raise `FileChanged` where the file is not any more what it was."""
        now = os.stat(path)
        if (now.st_size, now.st_mtime_ns) != (self.size, self.modified_ns):
            raise FileChanged(
                f"{path} changed while it was loaded ({self.size} bytes before, {now.st_size} now): rows of both "
                "states may have been written. Load it again when nobody writes to it",
                file=str(path),
            )


def identify(path: Path) -> ContentIdentity:
    """Read a file once and name its content. About a second per gigabyte. Raises `FileRefused`."""
    with open_file(path) as file:
        before = os.fstat(file.fileno())
        digest = hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16))
    return ContentIdentity(digest.hexdigest(), before.st_size, before.st_mtime_ns)


def producer_name(
    identity: ContentIdentity, file_format: FileFormat, options: LoadOptions | RowOptions, table_id: TableId
) -> str:
    """The name under which this load writes."""
    return f"load {identity.content} {identity.size} {file_format} {options.digest()} {table_id}"
