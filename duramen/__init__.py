"""Duramen: a key-value database that is folded from a log.

    import duramen

    db = duramen.open("data")                      # the whole database in this process
    db = duramen.connect("localhost:7070")         # or a server: `duramen up`
    flights = db.create_table("flights", partitions=8)
    done = flights.put(b"UA1545", b"departed")     # returns when it is on stable storage
    flights.get(b"UA1545", after=done.token)       # sees it, from any process

What holds:

- A write that returned is on stable storage, at `done.offset`, with its bytes.
- A write whose reply was lost happened once or not at all, also after retries.
- A client reads its own writes, and never an older state than one it has seen; a token carries that to others.
- A conditional write is decided once, by the order of the log.

`duramen.aio` has the same calls for programs with an event loop. Every error is a `DuramenError`, with `retryable`,
`code` and `fields`; `log_tier.model.errors` draws the tree. `duramen --help` is the command line.

The layers below are `log_tier` (the log), `serving_tier` (the indexes) and `router` (the data plane); each explains
itself in its `__init__`. In this package `client/` is the library, with two faces: `aio.py` for event loops and
`blocking.py` for threads. `server/` is what `duramen up` runs, `cli/` the command line, `loading/` loads files, and
`verification/` is `duramen check`. Importing `duramen` imports neither gRPC nor LMDB: that waits until something is
opened.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from duramen.client.model.consistency import bounded
from log_tier.model.errors import (
    AccessDenied,
    BatchRefused,
    CommandRejected,
    ConditionFailed,
    Damaged,
    DatabaseClosed,
    DatabaseForked,
    DeadlineExceeded,
    Disconnected,
    DiskFailed,
    DiskFull,
    DuramenError,
    FolderInUse,
    FolderReadOnly,
    ForeignFolder,
    IndexDamaged,
    InvalidKey,
    InvalidName,
    InvalidRequest,
    InvalidToken,
    InvalidValue,
    LimitExceeded,
    LogDamaged,
    LogStopped,
    NodeIdTaken,
    NotANumber,
    NotHosted,
    NumberOverflow,
    OffsetPassed,
    OffsetTrimmed,
    Overloaded,
    PartitionMismatch,
    PortInUse,
    Rejected,
    ReplicaBehind,
    ResultTooLarge,
    ShuttingDown,
    SnapshotDamaged,
    SnapshotStoreUnavailable,
    TableExists,
    TableNotFound,
    TokenAhead,
    Unavailable,
    UnknownFormat,
    VersionMissing,
    WriteUnknown,
)
from log_tier.model.tokens import Token

if TYPE_CHECKING:
    from duramen.blocking import Database

__version__ = "0.1.0"

__all__ = [
    "AccessDenied",
    "BatchRefused",
    "CommandRejected",
    "ConditionFailed",
    "Damaged",
    "DatabaseClosed",
    "DatabaseForked",
    "DeadlineExceeded",
    "Disconnected",
    "DiskFailed",
    "DiskFull",
    "DuramenError",
    "FolderInUse",
    "FolderReadOnly",
    "ForeignFolder",
    "IndexDamaged",
    "InvalidKey",
    "InvalidName",
    "InvalidRequest",
    "InvalidToken",
    "InvalidValue",
    "LimitExceeded",
    "LogDamaged",
    "LogStopped",
    "NodeIdTaken",
    "NotANumber",
    "NotHosted",
    "NumberOverflow",
    "OffsetPassed",
    "OffsetTrimmed",
    "Overloaded",
    "PartitionMismatch",
    "PortInUse",
    "Rejected",
    "ReplicaBehind",
    "ResultTooLarge",
    "ShuttingDown",
    "SnapshotDamaged",
    "SnapshotStoreUnavailable",
    "TableExists",
    "TableNotFound",
    "Token",
    "TokenAhead",
    "Unavailable",
    "UnknownFormat",
    "VersionMissing",
    "WriteUnknown",
    "__version__",
    "bounded",
    "connect",
    "open",
]


def connect(
    target: str | Sequence[str], *, timeout: float = 10.0, compress: bool = False, direct: bool = True
) -> Database:
    """Connect to a server at `host:port`, or to the first of several that answers (a sequence, or commas between).

    `timeout`: the default of every call, in seconds. `compress`: batches travel and are stored zstd-compressed where
    that makes them smaller. `direct`: of a cluster, go straight to its nodes and its log, and of a server that is alone
    to its RESP endpoint, where it has one; else everything goes by gRPC through the server.

    Raises `Disconnected` where no server answers.
    """
    from duramen import aio, blocking

    return blocking.start(
        lambda: aio.connect(target, timeout=timeout, compress=compress, direct=direct), isolated=False
    )


def open(  # noqa: A001
    path: str | os.PathLike[str],
    *,
    log: str | None = None,
    take_over: bool = False,
    timeout: float = 10.0,
    compress: bool = False,
) -> Database:
    """Open the database in the folder `path` inside this process, and make it where it is missing. No server.

    `log`: the URL of a log elsewhere (`kafka://host:port`); the folder then holds indexes only, and may be lost.
    Raises `FolderInUse` where another process has it open, `ForeignFolder` where it holds something else, and with a
    `log` also `Disconnected`, and `NodeIdTaken` where another folder is that log's only node; `take_over` says that
    that one is lost for good.
    """
    from duramen import aio, blocking

    return blocking.start(
        lambda: aio.open(path, log=log, take_over=take_over, timeout=timeout, compress=compress),
        isolated=log is None or not log.startswith("grpc:"),
    )
