"""The LMDB environment of an index: how it is opened, its databases, and what its errors mean to us."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any, Final, NamedTuple

import lmdb

from log_tier.concurrency.descriptors import OUT_OF_DESCRIPTORS
from log_tier.concurrency.disk_errors import NO_SPACE, READ_ONLY, disk_refusal
from log_tier.model.errors import (
    DiskFailed,
    DiskFull,
    DuramenError,
    FolderInUse,
    IndexDamaged,
    InvalidKey,
    Overloaded,
)
from log_tier.privacy.private_files import FILE_MODE
from serving_tier.disk import NODE_DISK
from serving_tier.index.lmdb.format import VERSION, pack_version

__all__ = [
    "ENVIRONMENTS_MAX",
    "MAP_BYTES_MAX",
    "Databases",
    "named_troubles",
    "open_environment",
    "refusal_of_system",
    "say_version",
    "with_ordered",
]

# Address space, not disk or memory: what one index can grow to. A process has 128 TiB of addresses, and a table may
# have 1,024 partitions: all of them fit twice (a new version next to the old one), with space left for the heap.
MAP_BYTES_MAX: Final = 60 << 30

ENVIRONMENTS_MAX: Final = 2048
"""Environments that a process may have open at once, however many descriptors it has: those 128 TiB hold no more."""

# Each concurrent read takes one slot of LMDB's reader table (64 bytes).
_READERS_MAX: Final = 512

# Read transactions kept for reuse. More concurrent readers than this pay an allocation each.
_SPARE_READS: Final = 32

_NO_DESCRIPTOR: Final = tuple(os.strerror(code) for code in OUT_OF_DESCRIPTORS)
_READ_ONLY: Final = tuple(os.strerror(code) for code in READ_ONLY)
_CODES: Final = {os.strerror(code): code for code in (*OUT_OF_DESCRIPTORS, *NO_SPACE, *READ_ONLY)}
_NO_ADDRESSES: Final = os.strerror(errno.ENOMEM)
_CUT_SHORT: Final = os.strerror(errno.EIO)
_DAMAGE: Final = (
    lmdb.CorruptedError,
    lmdb.InvalidError,
    lmdb.PageNotFoundError,
    lmdb.PanicError,
    lmdb.VersionMismatchError,
    lmdb.IncompatibleError,
    lmdb.ProblemError,
)
_OF_THE_SYSTEM: Final = (lmdb.DiskError, lmdb.LockError, lmdb.MemoryError)
"""LMDB's classes for errors of the system; a system error without a class of its own is a plain `lmdb.Error`."""


class Databases(NamedTuple):
    """Handles of the databases that `serving_tier.index.lmdb.format` draws."""

    data: Any
    meta: Any
    producers: Any
    producer_order: Any
    verdicts: Any
    results: Any
    expiries: Any
    ordered: Any = None
    """None: the table has no ordered indexes."""
    history: Any = None
    """None: the table keeps no history; so are the others of these five."""
    past: Any = None
    times: Any = None
    lapsed: Any = None
    lapses: Any = None


_OF_HISTORY: Final = ("history", "past", "times", "lapsed", "lapses")
_ALWAYS: Final = Databases._fields[: -len(_OF_HISTORY) - 1]
_SORTED_DUPLICATES: Final = ("expiries", "past", "lapses")
_ORDERED: Final = b"ordered"


def open_environment(
    path: Path,
    *,
    map_bytes: int,
    reads_only: bool = False,
    has_indexes: bool = False,
    has_history: bool = False,
) -> tuple[Any, Databases]:
    """Open or make the LMDB files in the folder `path`. Raises what `named_troubles` names.

    No sync per transaction (the log is the truth), and no `writemap`, with which a full disk kills the process. The
    kernel's read-ahead stays on: a cold index that fits in memory warms up a third faster.

    `reads_only`: the files are another process', and there already. `has_indexes`: a new file gets the database of
    ordered indexes; one that has it keeps it. `has_history`: the same of the databases of a history.
    """
    with named_troubles(path, map_bytes):
        env = NODE_DISK.get().open_environment(
            path,
            map_size=map_bytes,
            max_dbs=len(Databases._fields),
            max_readers=_READERS_MAX,
            max_spare_txns=_SPARE_READS,
            sync=False,
            metasync=False,
            meminit=False,
            readonly=reads_only,
            create=not reads_only,
            mode=FILE_MODE,
        )
        try:
            # Slots of the reader table that a killed process left would keep old pages alive for ever.
            env.reader_check()
            if reads_only:
                always = (env.open_db(name.encode(), dupsort=_is_sorted(name), create=False) for name in _ALWAYS)
                return env, Databases(*always)._replace(ordered=_ordered_there(env))
            return env, _databases(env, path, has_indexes, has_history)
        except BaseException:
            env.close()
            raise


def say_version(path: Path, version: int) -> None:
    """Have a closed index say which version of its table it is. One transaction and one sync."""
    env, databases = open_environment(path, map_bytes=MAP_BYTES_MAX)
    try:
        with named_troubles(path, MAP_BYTES_MAX):
            with env.begin(db=databases.meta, write=True) as txn:
                txn.put(VERSION, pack_version(version))
            env.sync(True)
    finally:
        env.close()


def _ordered_there(env: Any) -> Any:
    try:
        return env.open_db(_ORDERED, create=False)
    except lmdb.NotFoundError:
        return None


def _is_sorted(name: str) -> bool:
    """Has a key of this database several values, in their order?"""
    return name in _SORTED_DUPLICATES


def _databases(env: Any, path: Path, has_indexes: bool, has_history: bool) -> Databases:
    """Open or make all databases in one transaction: each by itself takes the writer's lock.

    Raises `IndexDamaged`, with nothing made, for a file that has others: one of them has lost its name, and would be
    empty.
    """
    with env.begin(write=True) as txn:
        databases = Databases(*(env.open_db(name.encode(), txn=txn, dupsort=_is_sorted(name)) for name in _ALWAYS))
        main = env.open_db(None, txn=txn)
        if has_indexes or txn.cursor(main).set_key(_ORDERED):
            databases = databases._replace(ordered=env.open_db(_ORDERED, txn=txn))
        named = len(_ALWAYS) + (databases.ordered is not None)
        if has_history or txn.cursor(main).set_key(_OF_HISTORY[0].encode()):
            of_history = {name: env.open_db(name.encode(), txn=txn, dupsort=_is_sorted(name)) for name in _OF_HISTORY}
            databases, named = databases._replace(**of_history), named + len(_OF_HISTORY)
        found = txn.stat(main)["entries"]
        if found != named:
            raise IndexDamaged(
                f"{path} has {found} databases, and should have {named}: discard it and fold the log again",
                file=str(path),
            )
        return databases


def with_ordered(env: Any, txn: Any, databases: Databases) -> Databases:
    """The databases with that of ordered indexes, which is made where the file has none. It is there when the write
    transaction is committed.
    """
    if databases.ordered is not None:
        return databases
    return databases._replace(ordered=env.open_db(_ORDERED, txn=txn))


class named_troubles:  # noqa: N801  (a context, read as a word)
    """Turn LMDB's errors into ours: what is full, what is damaged, what is in use. A class, because every fold has one:
    a third of what a generator costs.
    """

    __slots__ = ("_map_bytes", "_path")

    def __init__(self, path: Path, map_bytes: int) -> None:
        self._path, self._map_bytes = path, map_bytes

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, lmdb.Error):
            trouble = _trouble_of(error, self._path, self._map_bytes)
            if trouble is not None:
                raise trouble from error


def refusal_of_system(error: lmdb.Error, path: Path) -> DuramenError | None:
    """The error for a file that could not be opened for reading: no descriptors, addresses or rights, or a disk that
    fails. None if the file itself is at fault.
    """
    text = str(error)
    if text.endswith(_CUT_SHORT):
        return DiskFailed(
            f"the disk refused a read of {path}: {text}: look at the disk, then try again", file=str(path)
        )
    if text.endswith((*_NO_DESCRIPTOR, _NO_ADDRESSES, *_READ_ONLY)):
        return _trouble_of(error, path, MAP_BYTES_MAX)
    return None


def _trouble_of(error: lmdb.Error, path: Path, map_bytes: int) -> DuramenError | None:
    if isinstance(error, lmdb.MapFullError):
        return DiskFull(
            f"the index {path} has reached its limit of {map_bytes} bytes: raise `map_bytes`, or use more partitions",
            limit=map_bytes,
        )
    if isinstance(error, lmdb.BadValsizeError):
        return InvalidKey("the key is empty or too long; keys have 1 to 511 bytes")
    if isinstance(error, lmdb.ReadersFullError):
        return Overloaded(f"{_READERS_MAX} reads of the index {path} run now: try again", limit=_READERS_MAX)
    if isinstance(error, _DAMAGE):
        return IndexDamaged(f"{path}: {error}: discard it and fold the log again", file=str(path))
    text = str(error)
    if text.endswith(_NO_ADDRESSES):
        return Overloaded(
            f"the index {path} cannot be opened: {text}: this process has no addresses left for the {map_bytes} bytes "
            "to which it may grow. Nothing was applied. Close other databases of this process, or raise its limit of "
            "memory (ulimit -v)",
            limit=map_bytes,
        )
    if text.endswith(_CUT_SHORT):
        # LMDB's name for a write of which the disk took a part, which is how most disks become full.
        return DiskFull(
            f"the index {path} cannot be written: {text}: the disk is full, or it fails: look at the free space and at "
            "the kernel's log, and make room; nothing was applied"
        )
    if "already open" in text:
        return FolderInUse(f"{path} is open in this process: close that index first")
    code = next((code for words, code in _CODES.items() if text.endswith(words)), None)
    if code is None and type(error) is not lmdb.Error and not isinstance(error, _OF_THE_SYSTEM):
        return None
    return disk_refusal(
        OSError(code or 0, text),
        f"the index {path} cannot be opened or written",
        path=path,
        effect="nothing was applied, and the log has everything that was acknowledged",
    )
