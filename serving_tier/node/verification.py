"""Verifying the indexes of a node that does not run: their markers, and the structure of LMDB's files.

An index is a cache of the log, so nothing is lost with one. LMDB has no checksums: a byte that changed inside a value
keeps the structure whole. It is found by the checksum that a clean close left; an index that was not closed cleanly has
none, and such a byte is not found here. `duramen admin verify` compares the contents of replicas.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from log_tier.model.errors import DuramenError, InvalidRequest
from log_tier.model.files.finding import FileFinding
from log_tier.model.identifiers import TableId, partition_id, table_id_to_bytes
from serving_tier.index.lmdb.folder import (
    BootId,
    check_content,
    check_folder,
    read_boot_id,
    verify_index,
)
from serving_tier.names import index_partition

__all__ = ["index_folders", "verify_index_folder"]


def index_folders(root: Path) -> list[Path]:
    """The folders of indexes and their versions below a node's `index`, by table and partition; what an interrupted
    rebuild left is not among them.
    """
    found = (
        [folder for table in root.iterdir() if table.is_dir() for folder in table.iterdir()] if root.is_dir() else []
    )
    numbered = [
        (folder.parent.name, number, folder.name, folder) for folder in found if (number := _number(folder)) >= 0
    ]
    return [folder for *_, folder in sorted(numbered)]


def _number(folder: Path) -> int:
    number = index_partition(folder.name)
    return -1 if number is None else number


def verify_index_folder(folder: Path, *, boot_id: BootId = read_boot_id) -> Iterator[FileFinding]:
    """The findings about one index folder; some 10 µs a key."""
    try:
        table_id_to_bytes(TableId(folder.parent.name))
        partition = partition_id(TableId(folder.parent.name), _number(folder))
    except (InvalidRequest, ValueError):
        yield FileFinding(folder, f"{folder} is in no table's folder: Duramen did not make it")
        return
    try:
        check_folder(folder, partition=partition, boot_id=boot_id)
        verify_index(folder)
        check_content(folder)
    except DuramenError as error:
        found = FileFinding.of(error, folder)
        is_damage = error.fields.get("boot") is None  # else a machine stopped, and that is no damage
        yield found._replace(message=f"{error.message}. The log has everything that it held", is_damage=is_damage)
