"""Duramen: a log-structured key-value database. The log is the source of truth, every index a rebuildable cache.

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

Keys of several fields that sort as the fields do: `duramen.pack_key("UA", 1545)`, and `key_range` for scans of them.

`duramen.aio` has the same calls for programs with an event loop. Every error is a `DuramenError`, with `retryable`,
`code` and `fields`; `log_tier.model.errors` has the tree. `duramen --help` is the command line.

The layers below are `log_tier` (the log), `serving_tier` (the indexes) and `router` (the data plane); each is
described in its `__init__`. In this package `client/` is the library; `aio.py` is its interface for event loops,
`blocking/` for threads. `server/` is what `duramen up` runs, `cli/` the command line, `loading/` loads files,
`exporting/` writes them, `verification/` is `duramen check`, `certificates/` makes and reads certificates, `tracing/`
is OpenTelemetry for who asks for it, and `testing/` is for tests that choose what fails (`pytest_plugin.py` has its
fixtures). Importing `duramen` imports the errors and little else: gRPC, LMDB and the client wait until something is
opened, other names until they are first asked for (`later_names.py`).
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from duramen.later_names import later_names
from log_tier.model.errors import (
    AccessDenied,
    BatchRefused,
    CertificateInvalid,
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
    FieldAbsent,
    FolderInUse,
    FolderReadOnly,
    ForeignFolder,
    HandshakeFailed,
    HistoryGone,
    IndexBuilding,
    IndexDamaged,
    IndexDiverged,
    InvalidKey,
    InvalidName,
    InvalidRequest,
    InvalidRow,
    InvalidSchema,
    InvalidToken,
    InvalidValue,
    LimitExceeded,
    LocationRefused,
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
    PermissionDenied,
    PortInUse,
    Rejected,
    ReplicaBehind,
    ResultTooLarge,
    RowAbsent,
    RowRejected,
    ShuttingDown,
    SnapshotDamaged,
    SnapshotStoreUnavailable,
    TableExists,
    TableNotFound,
    TokenAhead,
    Unauthenticated,
    Unavailable,
    UniqueViolation,
    UnknownFormat,
    VersionMissing,
    WriteUnknown,
)

if TYPE_CHECKING:
    from duramen.blocking import Database
    from duramen.client.model.asked_index import OrderedIndex
    from duramen.client.model.consistency import bounded
    from duramen.client.rows.shapes.marks import NAIVE, Digits
    from log_tier.model.tokens import Token
    from log_tier.rows.tuple_key import ScanBounds, key_range, pack_key, unpack_key

__version__ = "0.1.0"

__all__ = [
    "NAIVE",
    "AccessDenied",
    "BatchRefused",
    "CertificateInvalid",
    "CommandRejected",
    "ConditionFailed",
    "Damaged",
    "DatabaseClosed",
    "DatabaseForked",
    "DeadlineExceeded",
    "Digits",
    "Disconnected",
    "DiskFailed",
    "DiskFull",
    "DuramenError",
    "FieldAbsent",
    "FolderInUse",
    "FolderReadOnly",
    "ForeignFolder",
    "HandshakeFailed",
    "HistoryGone",
    "IndexBuilding",
    "IndexDamaged",
    "IndexDiverged",
    "InvalidKey",
    "InvalidName",
    "InvalidRequest",
    "InvalidRow",
    "InvalidSchema",
    "InvalidToken",
    "InvalidValue",
    "LimitExceeded",
    "LocationRefused",
    "LogDamaged",
    "LogStopped",
    "NodeIdTaken",
    "NotANumber",
    "NotHosted",
    "NumberOverflow",
    "OffsetPassed",
    "OffsetTrimmed",
    "OrderedIndex",
    "Overloaded",
    "PartitionMismatch",
    "PermissionDenied",
    "PortInUse",
    "Rejected",
    "ReplicaBehind",
    "ResultTooLarge",
    "RowAbsent",
    "RowRejected",
    "ScanBounds",
    "ShuttingDown",
    "SnapshotDamaged",
    "SnapshotStoreUnavailable",
    "TableExists",
    "TableNotFound",
    "Token",
    "TokenAhead",
    "Unauthenticated",
    "Unavailable",
    "UniqueViolation",
    "UnknownFormat",
    "VersionMissing",
    "WriteUnknown",
    "__version__",
    "bounded",
    "connect",
    "key_range",
    "open",
    "pack_key",
    "unpack_key",
]

_LATER: Final = {
    "NAIVE": "duramen.client.rows.shapes.marks",
    "Digits": "duramen.client.rows.shapes.marks",
    "OrderedIndex": "duramen.client.model.asked_index",
    "ScanBounds": "log_tier.rows.tuple_key",
    "Token": "log_tier.model.tokens",
    "bounded": "duramen.client.model.consistency",
    "key_range": "log_tier.rows.tuple_key",
    "pack_key": "log_tier.rows.tuple_key",
    "unpack_key": "log_tier.rows.tuple_key",
}
"""The modules of names that not every program uses. A name is imported when it is first asked for; the errors, which
every program may have to catch, are here at once."""

if not TYPE_CHECKING:  # or a type checker would take any name for one of this module
    __getattr__, __dir__ = later_names(globals(), _LATER)


def connect(
    target: str | Sequence[str],
    *,
    timeout: float = 10.0,
    compress: bool = False,
    direct: bool = True,
    ca: str | os.PathLike[str] | None = None,
    certificate: str | os.PathLike[str] | None = None,
    key: str | os.PathLike[str] | None = None,
    token: str | None = None,
    token_file: str | os.PathLike[str] | None = None,
    user: str | None = None,
    password: str | None = None,
    traces: bool | float = False,
) -> Database:
    """Connect to a server at `host:port`, or to the first of several that answers (a sequence, or commas between).

    `timeout`: the default of every call, and the limit of this one, in seconds. `compress`: compress batches with zstd
    when that makes them smaller. `direct`: send requests straight to the nodes and the log of a cluster, and small
    ones to the RESP endpoint of a single server that has one; if False, everything goes by gRPC through the
    server at `target`, which passes on what it does not hold.

    `duramens://host:port,host:port` calls servers with TLS; `ca` is then the file of the CA that signed their
    certificates, and `certificate` and `key` are the files of the client's own, if it shows one.

    Where the cluster has users: `token`, or a file with one (`token_file`, of mode 0600, read again when it has
    changed), or `user` and `password` prove who calls, else DURAMEN_TOKEN, DURAMEN_TOKEN_FILE, or DURAMEN_USER and
    DURAMEN_PASSWORD of the environment. `duramens://alice@host:port` names the user too. A secret goes to other
    machines by TLS only.

    `traces`: make each call of a table an operation of OpenTelemetry, by the program's own providers: a span, which the
    servers continue, and its duration in `db.client.operation.duration`, where a meter provider is set before. A number
    up to 1 is the share of the calls outside of the program's spans that are traced; the others cost nothing. It needs
    the extra `otel`.

    A server that is away, or starting, is tried again until `timeout`. What a retry cannot mend is raised at once.

    Raises `Disconnected` if no server answers in time; `HandshakeFailed`, which is one of these, if TLS fails;
    `CertificateInvalid` for files that cannot be used; `Unauthenticated` if the proof is none; `InvalidRequest` for a
    secret that cannot be used or sent, and for `traces` without OpenTelemetry.
    """
    from functools import partial

    from duramen import aio, blocking

    asked = partial(aio.connect, target, timeout=timeout, compress=compress, direct=direct)
    secured = partial(asked, ca=ca, certificate=certificate, key=key)
    proving = partial(secured, token=token, token_file=token_file, user=user, password=password, traces=traces)
    return blocking.start(proving, isolated=False)


def open(  # noqa: A001
    path: str | os.PathLike[str],
    *,
    log: str | None = None,
    take_over: bool = False,
    timeout: float = 10.0,
    compress: bool = False,
    snapshot_every_s: float = 0.0,
    traces: bool | float = False,
) -> Database:
    """Open the database in the folder `path` inside this process, without a server; create it if it is missing.

    `log`: the URL of an external log (`kafka://host:port`); the folder then holds indexes only, and may be lost.
    `take_over`: the folder that was used with that log before is lost for good, and this one takes its place.
    `timeout`, `compress` and `traces` as for `connect`.

    `snapshot_every_s`: seconds between two snapshots of a partition that changed, into the folder's `snapshots`; 0:
    none. A table's retention removes only what a snapshot holds: without snapshots it removes nothing.

    Raises `FolderInUse` if another process has the folder open, `ForeignFolder` if it holds other files,
    `FolderReadOnly`, `LogDamaged`, `UnknownFormat`, `InvalidRequest` for a time that is none; with `log` also
    `Disconnected`, and `NodeIdTaken` if another folder is that log's node.
    """
    from duramen import aio, blocking

    return blocking.start(
        lambda: aio.open(
            path,
            log=log,
            take_over=take_over,
            timeout=timeout,
            compress=compress,
            snapshot_every_s=snapshot_every_s,
            traces=traces,
        ),
        isolated=log is None or not log.startswith("grpc:"),
    )
