"""An LMDB file's identity and applied offset: a few rows of `meta`, read and checked when it is opened.

The folder around it says the same (`serving_tier.index.lmdb.folder`), and can be moved, renamed or copied to the wrong
place by hand; these rows lie in the same transaction as the entries. An index for which they cannot vouch is discarded,
never mended: the log has all of its content.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any, NamedTuple

from log_tier.model.barrier import ORIGINAL, LiveVersion
from log_tier.model.errors import IndexDamaged, UnknownFormat
from log_tier.model.identifiers import Offset, PartitionId
from log_tier.rows.definition import TableDefinition
from serving_tier.fold.index_builds import NO_BUILDS, IndexBuilds
from serving_tier.index.lmdb.environment import Databases
from serving_tier.index.lmdb.format import (
    BUILDS,
    DEFINITION,
    IDENTITY,
    INDEX_FORMAT_VERSION,
    LIVE,
    NEWER_INDEX,
    READABLE_VERSIONS,
    START,
    STATE,
    VERSION,
    State,
    pack_definition,
    pack_identity,
    pack_start,
    unpack_definition,
    unpack_identity,
    unpack_live,
    unpack_start,
    unpack_version,
)

__all__ = ["IndexIdentity", "check_format", "find_identity"]


class IndexIdentity(NamedTuple):
    """An index's applied offset and log time."""

    state: State = State()
    """What was folded."""
    version: int = ORIGINAL.version
    """Which version of its table this is."""
    live: LiveVersion = ORIGINAL
    """Which version is live, as far as was folded."""
    definition: TableDefinition | None = None
    builds: IndexBuilds = NO_BUILDS
    """What the table's keys and values are, as far as was folded; None: bytes."""


def find_identity(
    txn: Any,
    databases: Databases,
    path: Path,
    *,
    partition: PartitionId,
    start: Offset,
    definition: TableDefinition | None = None,
) -> IndexIdentity:
    """Whose the index at `path` is, and its state; a new index is given these rows in this write transaction.
    `definition`: what the table's keys and values were at its start.

    Raises `IndexDamaged` for rows that cannot be read, for an index of another table, partition or start, and for one
    whose definition does not continue that one; and `UnknownFormat` for one of a newer format.
    """
    meta = databases.meta
    identity, state, begun = (txn.get(row, db=meta) for row in (IDENTITY, STATE, START))
    if identity is None and state is None and txn.stat(databases.data)["entries"] == 0:
        return _begun(txn, databases, partition, start, definition)
    try:
        found = unpack_identity(identity or b"")
        check_format(found[0], path)
        found_start = unpack_start(begun)
        found_definition = unpack_definition(txn.get(DEFINITION, db=meta))
        identity_found = IndexIdentity(
            State.unpack(state or b""),
            unpack_version(txn.get(VERSION, db=meta)),
            unpack_live(txn.get(LIVE, db=meta)),
            found_definition,
            IndexBuilds.unpack(txn.get(BUILDS, db=meta)),
        )
    except (struct.error, ValueError) as error:
        raise IndexDamaged(
            f"{path}: the rows of meta cannot be read ({error}): discard it and fold the log again", file=str(path)
        ) from error
    if found[0] not in READABLE_VERSIONS or found[1] != partition:
        raise IndexDamaged(
            f"{path} says that it is partition {found[1]} in format {found[0]}, and should be {partition} in format "
            f"{INDEX_FORMAT_VERSION}: discard it and fold the log again",
            file=str(path),
        )
    if found_start != start:
        raise IndexDamaged(
            f"{path} holds its topic from offset {found_start} on, its table begins at {start}: it is of an "
            "earlier table over that topic; discard it and fold the log again",
            file=str(path),
        )
    if not _continues(found_definition, definition):
        raise IndexDamaged(
            f"{path} was folded with another definition of its table's keys and values than the catalog has: discard "
            "it and fold the log again",
            file=str(path),
        )
    return identity_found


def check_format(version: int, path: Path) -> None:
    """Raise `UnknownFormat` if the rows of the index at `path` are of a newer format version."""
    if version > INDEX_FORMAT_VERSION:
        raise UnknownFormat(
            f"{path} holds an index of format version {version}, this process reads up to version "
            f"{INDEX_FORMAT_VERSION}: {NEWER_INDEX}",
            file=str(path),
        )


def _begun(
    txn: Any, databases: Databases, partition: PartitionId, start: Offset, definition: TableDefinition | None
) -> IndexIdentity:
    """Write the first rows. Everything below `start` counts as applied, and is nothing."""
    state = State()
    if start > 0:
        state = State(applied=Offset(start - 1), verdicts_from=start)
        txn.put(START, pack_start(start), db=databases.meta)
    if definition is not None:
        txn.put(DEFINITION, pack_definition(definition), db=databases.meta)
    txn.put(IDENTITY, pack_identity(partition), db=databases.meta)
    txn.put(STATE, state.pack(), db=databases.meta)
    return IndexIdentity(state, definition=definition)


def _continues(found: TableDefinition | None, first: TableDefinition | None) -> bool:
    return found is first if found is None or first is None else found.continues(first)
