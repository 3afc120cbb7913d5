"""Errors of a passing state (fault `transient`): the same call can succeed later, or may have succeeded."""

from __future__ import annotations

from log_tier.model.errors.root import DuramenError

__all__ = [
    "DeadlineExceeded",
    "Disconnected",
    "DiskFull",
    "HandshakeFailed",
    "NotHosted",
    "Overloaded",
    "ReplicaBehind",
    "ShuttingDown",
    "SnapshotStoreUnavailable",
    "Unavailable",
    "VersionMissing",
    "WriteUnknown",
]


class Unavailable(DuramenError):
    """The call cannot be served now. Nothing was done; the same call can succeed later.

    Do: repeat the call, after a pause that grows. The client has repeated it already until the timeout.
    """

    code = "unavailable"
    retryable = True
    fault = "transient"


class Disconnected(Unavailable):
    """No server answered. Field `sent`: 0 if nothing of the request can have reached one.

    Do: check address and server; the client connects again by itself with the next call.
    """

    code = "disconnected"


class HandshakeFailed(Disconnected):
    """Client and server could not agree on TLS: an unknown CA, a wrong name, an expired certificate, or no TLS at one
    end. Nothing of the request reached the server (field `sent`: 0).

    Do: what the message says; a server whose certificate is replaced is reached again without a change here.
    """

    code = "handshake_failed"


class Overloaded(Unavailable):
    """The server is at one of its limits: a full queue, no file descriptor left, too many readers, logins that
    failed. Fields: `limit`; `wait_ms`, where the time to wait is known.

    Do: send less at once and repeat the call after a pause.
    """

    code = "overloaded"


class NotHosted(Unavailable):
    """The node holds no replica of the partition. Fields: `table`, `partition`.

    Do: nothing: clients ask another node. A client of your own asks a router, or fetches the map again.
    """

    code = "not_hosted"


class SnapshotStoreUnavailable(Unavailable):
    """The snapshot store does not answer, or refuses. Field: `url`.

    Do: look at the store and its credentials; then `duramen admin resume JOB`.
    """

    code = "snapshot_store_unavailable"


class DiskFull(Unavailable):
    """The log's disk is full. Reads go on; writes are accepted again when space returns.

    Do: free space on the log's disk; nothing has to be restarted.
    """

    code = "disk_full"


class VersionMissing(Unavailable):
    """The log goes on with a version of the table that this index is not, or that this replica does not have yet.

    Fields: `version`, `offset` (of the barrier); `ended=1` where a scan began in a version that is gone for good.

    Do: nothing: the replica fetches the version, and clients ask another node. Begin a scan again if it has ended.
    """

    code = "version_missing"


class DeadlineExceeded(Unavailable, TimeoutError):
    """The timeout passed before the call was done. It had no effect: a write that may have one raises `WriteUnknown`.

    Do: repeat a read, with a longer `timeout` if it fails again.
    """

    code = "deadline_exceeded"


class ReplicaBehind(DeadlineExceeded):
    """The timeout passed before the replica had applied the offset that the read needs.

    Fields: `partition`, `applied`, `asked`, `latest`.

    Do: use a longer `timeout`; look at `duramen admin lag`.
    """

    code = "replica_behind"


class ShuttingDown(Unavailable):
    """The server is stopping and takes no new work.

    Do: repeat the call; another server, or the restarted one, answers it.
    """

    code = "shutting_down"


class WriteUnknown(DuramenError, TimeoutError):
    """No reply came within the timeout, or the log stopped under the write. It is in the log once or not at all.

    Do: read the key, after the restart of a log that stopped. A write under `if_version` or `if_absent` can be repeated
    safely.
    """

    code = "write_unknown"
    fault = "transient"
