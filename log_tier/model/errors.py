"""Every error that Duramen raises, in one tree. `duramen` re-exports it.

    DuramenError
    ├── InvalidRequest            the caller's: nothing was done, a retry cannot help
    │   ├── InvalidName           a table or topic name that cannot be one
    │   ├── InvalidKey            empty, longer than 511 bytes, not bytes
    │   ├── InvalidValue          longer than the limit, not bytes
    │   ├── PartitionMismatch     an atomic batch whose keys lie in several partitions
    │   ├── InvalidToken          text that is no token, or a token of another table
    │   ├── TokenAhead            a token that asks for more than the log holds
    │   ├── BatchRefused          malformed batch bytes, wrong checksum, unknown version
    │   ├── LimitExceeded         a request, queue or stream over its limit
    │   ├── DatabaseClosed        a call on a database that its own program closed
    │   │   └── DatabaseForked    … or on a parent's, in a forked process that cannot have it
    │   ├── PortInUse             a server's port that cannot be listened on
    │   └── AccessDenied          credentials that a Kafka cluster does not know, or that may not do this
    ├── TableNotFound             no table of that name or id (any more)
    ├── TableExists               the name is taken
    ├── OffsetTrimmed             the log no longer holds that offset; says from where it does
    ├── OffsetPassed              a replica is beyond the offset that it was to stand at; says where it is
    ├── Rejected                  a verdict: the log decided against the write, on every replica alike
    │   ├── ConditionFailed       absent / present / version did not hold
    │   ├── NotANumber            arithmetic on a value that is no number
    │   ├── NumberOverflow        an integer result beyond 64 bits, or a float that is not finite
    │   ├── ResultTooLarge        an append that would grow a value over the limit
    │   └── CommandRejected       a catalog command that lost a race, or contradicts the cluster's state
    ├── Unavailable               the moment's: nothing was done, a retry can help
    │   ├── Disconnected          no server answered
    │   ├── Overloaded            a queue is full
    │   ├── DiskFull              the log cannot grow until space returns
    │   ├── SnapshotStoreUnavailable  the snapshot store does not answer, or refuses
    │   ├── NotHosted             this node holds no replica of that partition; another one does
    │   ├── VersionMissing        the log goes on with a version of the table that this replica does not have yet
    │   ├── DeadlineExceeded      the call's time is over
    │   │   └── ReplicaBehind     … before the replica had applied what was asked
    │   └── ShuttingDown          the server is going away
    ├── WriteUnknown              no reply: the write is in the log once or not at all
    └── Damaged                   the stored state's: somebody has to look
        ├── LogDamaged            a checksum in the middle of a log does not hold; names file and position
        ├── LogStopped            an fsync failed: this log acknowledges nothing more
        ├── DiskFailed            the disk refused an operation on one file; names the file
        ├── IndexDamaged          an index cannot be trusted (it can be rebuilt)
        ├── SnapshotDamaged       a snapshot that is not what its manifest says, or not whose it should be
        ├── UnknownFormat         written by a newer version, or by something else
        ├── FolderInUse           another process owns the data folder
        ├── FolderReadOnly        a folder that this user may not write
        ├── NodeIdTaken           another data folder has this node's id
        └── ForeignFolder         a folder that holds something else

Each class says three things: `code`, its name on the wire and in logs, which never changes once landed; `retryable`,
whether the same call can succeed later without anybody changing it; `fault`, whose it is: the `caller`, the `moment`,
the `data`, or the `state` of the machine. Which gRPC status a class becomes is told in one other place,
`log_tier/rpc/status.py`; nothing else knows gRPC codes.

`fields` carries the numbers behind the message (offsets, versions, limits) so that programs need not parse prose; it
survives the wire.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Final, Literal

__all__ = [
    "ERRORS",
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
    "FieldValue",
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
    "TokenAhead",
    "Unavailable",
    "UnknownFormat",
    "VersionMissing",
    "WriteUnknown",
    "error_from_code",
]

Fault = Literal["caller", "moment", "data", "state"]
FieldValue = int | str


class DuramenError(Exception):
    """The root. `message` is for people, `fields` for programs."""

    code: ClassVar[str] = "error"
    retryable: ClassVar[bool] = False
    fault: ClassVar[Fault] = "state"

    def __init__(self, message: str, **fields: FieldValue) -> None:
        super().__init__(message)
        self.message = message
        self.fields: Mapping[str, FieldValue] = fields

    def __reduce__(self) -> tuple[object, ...]:
        return (error_from_code, (self.code, self.message, dict(self.fields)))


class InvalidRequest(DuramenError, ValueError):
    """The call cannot mean anything; nothing was done."""

    code = "invalid_request"
    fault = "caller"


class InvalidName(InvalidRequest):
    """The text cannot name a table or a topic."""

    code = "invalid_name"


class InvalidKey(InvalidRequest):
    """Keys are 1 to 511 bytes."""

    code = "invalid_key"


class InvalidValue(InvalidRequest):
    """Values are bytes, up to the limit."""

    code = "invalid_value"


class PartitionMismatch(InvalidRequest):
    """An atomic batch touches one partition only; give its keys a common `{tag}`."""

    code = "partition_mismatch"


class InvalidToken(InvalidRequest):
    """The text is no token, or it is a token of another table. Fields: `token_table`, `table` where known."""

    code = "invalid_token"


class TokenAhead(InvalidRequest):
    """The token asks for an offset that the log has not reached. Fields: `partition`, `asked`, `latest`."""

    code = "token_ahead"


class BatchRefused(InvalidRequest):
    """The bytes are no batch: malformed, wrong checksum, or of a version that this process cannot read."""

    code = "batch_refused"


class LimitExceeded(InvalidRequest):
    """Over a limit. Fields: `limit`, `size`."""

    code = "limit_exceeded"


class DatabaseClosed(InvalidRequest):
    """This program closed the database, or the connection, that it calls."""

    code = "database_closed"


class DatabaseForked(DatabaseClosed):
    """This process was forked from the one that has this open, and what is open there cannot be used here."""

    code = "database_forked"


class PortInUse(InvalidRequest):
    """Another process listens there. Field: `port`."""

    code = "port_in_use"


class AccessDenied(InvalidRequest):
    """The log's cluster does not know these credentials, or does not let them do this."""

    code = "access_denied"


class TableNotFound(DuramenError, LookupError):
    """No such table, or it was dropped."""

    code = "table_not_found"
    fault = "caller"


class TableExists(DuramenError):
    """The name is taken."""

    code = "table_exists"
    fault = "caller"


class OffsetTrimmed(DuramenError, LookupError):
    """Retention has removed the offset. Fields: `partition`, `asked`, `earliest`."""

    code = "offset_trimmed"
    fault = "caller"


class OffsetPassed(DuramenError):
    """The replica has applied more than the offset that it was to be read at: name a later one.

    Fields: `partition`, `asked`, `applied`.
    """

    code = "offset_passed"
    fault = "moment"


class Rejected(DuramenError):
    """A verdict. The record is in the log, at `offset`, and changed nothing, on every replica alike."""

    code = "rejected"
    fault = "caller"


class ConditionFailed(Rejected):
    """The condition did not hold. Fields: `offset`, `actual` (the version found there, -1 for an absent key)."""

    code = "condition_failed"


class NotANumber(Rejected):
    """Arithmetic on a value that is no number. Field: `offset`."""

    code = "not_a_number"


class NumberOverflow(Rejected):
    """The result does not fit: integers have 64 bits, floats must stay finite. Field: `offset`."""

    code = "number_overflow"


class ResultTooLarge(Rejected):
    """The value would grow over the limit. Field: `offset`."""

    code = "result_too_large"


class CommandRejected(Rejected):
    """The catalog's fold decided against a command: somebody else was first, or it contradicts what is there.

    Field: `version`, the catalog offset of the map that decided.
    """

    code = "command_rejected"


class Unavailable(DuramenError):
    """Nothing was done; the same call can succeed later."""

    code = "unavailable"
    retryable = True
    fault = "moment"


class Disconnected(Unavailable):
    """No server answered at that address. Field `sent`: 0 where nothing can have reached one."""

    code = "disconnected"


class Overloaded(Unavailable):
    """A queue is full; wait and try again. Fields: `limit`."""

    code = "overloaded"


class NotHosted(Unavailable):
    """This node holds no replica of the partition: ask another one. Fields: `table`, `partition`."""

    code = "not_hosted"


class SnapshotStoreUnavailable(Unavailable):
    """The snapshot store does not answer, or does not let us. Field: `url`."""

    code = "snapshot_store_unavailable"


class DiskFull(Unavailable):
    """The log cannot grow. Reads go on; writes are accepted again when space returns."""

    code = "disk_full"


class VersionMissing(Unavailable):
    """The log goes on with a version of the table that this index is not, or that this replica does not have yet.

    Fields: `version`, `offset` (of the barrier).
    """

    code = "version_missing"


class DeadlineExceeded(Unavailable, TimeoutError):
    """The call's time is over. A read had no effect; for a write see `WriteUnknown`."""

    code = "deadline_exceeded"


class ReplicaBehind(DeadlineExceeded):
    """The deadline passed first. Fields: `partition`, `applied`, `asked`, `latest`."""

    code = "replica_behind"


class ShuttingDown(Unavailable):
    """The server is stopping and takes no new work."""

    code = "shutting_down"


class WriteUnknown(DuramenError, TimeoutError):
    """No reply came. The write is in the log once or not at all; read the key to know."""

    code = "write_unknown"
    fault = "moment"


class Damaged(DuramenError):
    """Something stored cannot be trusted. Nothing was cut or served."""

    code = "damaged"
    fault: ClassVar[Fault] = "data"


class LogDamaged(Damaged):
    """A stored batch does not hold its checksum. Fields: `file`, `position`, `offset`."""

    code = "log_damaged"


class LogStopped(Damaged):
    """A sync failed, so what was written is unknown; this log stopped. Restart to recover from the disk's truth."""

    code = "log_stopped"
    fault = "state"


class DiskFailed(Damaged):
    """The disk refused to open, read, write, rename or remove a file. The call did nothing; nothing that was
    acknowledged is lost. Look at the disk. Field: `file`."""

    code = "disk_failed"
    fault = "state"


class IndexDamaged(Damaged):
    """An index cannot be trusted. It is a cache: discard it and it is rebuilt from the log."""

    code = "index_damaged"


class SnapshotDamaged(Damaged):
    """A snapshot cannot be trusted: another one, a peer, or the log has the same content. Field: `file`."""

    code = "snapshot_damaged"


class UnknownFormat(Damaged):
    """Written by a newer version of Duramen, or by something else."""

    code = "unknown_format"
    fault = "state"


class FolderInUse(Damaged):
    """Another process owns the data folder. Field: `pid` where known."""

    code = "folder_in_use"
    fault = "state"


class NodeIdTaken(Damaged):
    """Two data folders claim one node id; the catalog knows the other one. Field: `node`."""

    code = "node_id_taken"
    fault = "caller"


class FolderReadOnly(Damaged):
    """The folder, or its file system, does not let this user write."""

    code = "folder_read_only"
    fault = "state"


class ForeignFolder(Damaged):
    """The folder holds something that Duramen did not make."""

    code = "foreign_folder"
    fault = "caller"


def _tree(root: type[DuramenError]) -> list[type[DuramenError]]:
    found = [root]
    for child in root.__subclasses__():
        found.extend(_tree(child))
    return found


ERRORS: Final[Mapping[str, type[DuramenError]]] = {kind.code: kind for kind in _tree(DuramenError)}
"""Every class by its wire name."""


def error_from_code(code: str, message: str, fields: Mapping[str, FieldValue]) -> DuramenError:
    """Rebuild an error that crossed a wire. An unknown code (a newer server's) becomes the root class."""
    return ERRORS.get(code, DuramenError)(message, **dict(fields))
