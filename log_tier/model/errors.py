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
the `data`, or the `state` of the machine. `log_tier/rpc/status.py` alone maps classes to gRPC codes. The last paragraph
of each docstring begins with `Do:` and says what to do next; `docs/API.md` is generated from them.

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
    """The root of all errors. `message` is for people, `fields` for programs.

    Do: catch it around calls; look at `retryable` and `code`. The bare class means an error of a newer
    version: upgrade this process.
    """

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
    """The call is invalid; nothing was done, and repeating it cannot help.

    Do: correct the call; the message names the argument and its limit.
    """

    code = "invalid_request"
    fault = "caller"


class InvalidName(InvalidRequest):
    """The text is not a valid name of a table or a topic.

    Do: use a name of the form that the message gives.
    """

    code = "invalid_name"


class InvalidKey(InvalidRequest):
    """A key is not bytes, or not 1 to 511 bytes long.

    Do: use a shorter key, for example a hash of the long one; encode text to bytes.
    """

    code = "invalid_key"


class InvalidValue(InvalidRequest):
    """A value is not bytes, or longer than 4 MiB.

    Do: split the value, or store it elsewhere and put its address here; encode text to bytes.
    """

    code = "invalid_value"


class PartitionMismatch(InvalidRequest):
    """The keys of an atomic batch lie in several partitions. Nothing was written.

    Do: give the keys a common `{tag}`, or write them one by one.
    """

    code = "partition_mismatch"


class InvalidToken(InvalidRequest):
    """The text is not a token, or is a token of another table. Fields: `token_table`, `table` where known.

    Do: pass the token on unchanged, and use it on the table that it came from.
    """

    code = "invalid_token"


class TokenAhead(InvalidRequest):
    """The token asks for an offset that the log has not reached. Fields: `partition`, `asked`, `latest`.

    Do: look whether the token comes from another deployment, or whether the log's folder was replaced.
    """

    code = "token_ahead"


class BatchRefused(InvalidRequest):
    """The bytes are not a valid batch: malformed, wrong checksum, or of a version that this process cannot read.

    Do: upgrade the older of client and server; from a foreign producer, correct the encoding.
    """

    code = "batch_refused"


class LimitExceeded(InvalidRequest):
    """A request, a queue or a stream is over its limit. Fields: `limit`, `size`.

    Do: send less in one call; the message names the limit.
    """

    code = "limit_exceeded"


class DatabaseClosed(InvalidRequest):
    """The program has closed this database or connection.

    Do: connect or open again.
    """

    code = "database_closed"


class DatabaseForked(DatabaseClosed):
    """This process was forked from the one that has the database open. Only that process can use it.

    Do: open the database after the fork, or run a server (`duramen up`) and connect from each process.
    """

    code = "database_forked"


class PortInUse(InvalidRequest):
    """Another process listens on the port. Field: `port`.

    Do: stop the other server, or use `--port`.
    """

    code = "port_in_use"


class AccessDenied(InvalidRequest):
    """The Kafka cluster does not accept these credentials, or does not permit them this operation.

    Do: check the TLS and SASL settings of the URL, and the cluster's ACLs.
    """

    code = "access_denied"


class TableNotFound(DuramenError, LookupError):
    """There is no table of that name or id, or it was dropped.

    Do: create the table, or check the name with `duramen table list`.
    """

    code = "table_not_found"
    fault = "caller"


class TableExists(DuramenError):
    """A table of that name exists.

    Do: use another name, or `if_missing=True` to take the existing table.
    """

    code = "table_exists"
    fault = "caller"


class OffsetTrimmed(DuramenError, LookupError):
    """The log no longer holds the offset; trimming or retention removed it. Fields: `partition`, `asked`, `earliest`.

    Do: begin at `earliest`, which is the first offset that is left; read the table for what came before.
    """

    code = "offset_trimmed"
    fault = "caller"


class OffsetPassed(DuramenError):
    """The replica has applied more than the offset at which it should be read.

    Fields: `partition`, `asked`, `applied`.

    Do: repeat the comparison at an offset that is not below `applied`.
    """

    code = "offset_passed"
    fault = "moment"


class Rejected(DuramenError):
    """The log decided against the write. The record is in the log at `offset` and has no effect on any replica.

    Do: nothing needs repair; decide from the message whether to read and write again.
    """

    code = "rejected"
    fault = "caller"


class ConditionFailed(Rejected):
    """The condition of a write did not hold. Fields: `offset`, `actual` (the key's version; -1: it is absent).

    Do: read the entry again, and write under its new version.
    """

    code = "condition_failed"


class NotANumber(Rejected):
    """An update does arithmetic on a value that is not a number. Field: `offset`.

    Do: put a number first, or use another key.
    """

    code = "not_a_number"


class NumberOverflow(Rejected):
    """The result does not fit: integers have 64 bits, floats must stay finite. Field: `offset`.

    Do: put a smaller value, or use a float.
    """

    code = "number_overflow"


class ResultTooLarge(Rejected):
    """An append would make the value longer than 4 MiB. Field: `offset`.

    Do: begin a new key.
    """

    code = "result_too_large"


class CommandRejected(Rejected):
    """The catalog decided against a command: another command was first, or it contradicts the cluster's state.

    Field: `version`, the catalog offset of the map that decided.

    Do: read the reason in the message; look at `duramen admin jobs`, then repeat the command if it still
    applies.
    """

    code = "command_rejected"


class Unavailable(DuramenError):
    """The call cannot be served now. Nothing was done; the same call can succeed later.

    Do: repeat the call, after a pause that grows. The client has repeated it already until the timeout.
    """

    code = "unavailable"
    retryable = True
    fault = "moment"


class Disconnected(Unavailable):
    """No server answered. Field `sent`: 0 if nothing of the request can have reached one.

    Do: check address and server; the client connects again by itself with the next call.
    """

    code = "disconnected"


class Overloaded(Unavailable):
    """A queue of the server is full. Field: `limit`.

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

    Fields: `version`, `offset` (of the barrier).

    Do: nothing: the replica fetches the version, and clients ask another node.
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
    """No reply came within the timeout. The write is in the log once or not at all.

    Do: read the key. A write under `if_version` or `if_absent` can be repeated safely.
    """

    code = "write_unknown"
    fault = "moment"


class Damaged(DuramenError):
    """Something stored cannot be trusted. Nothing was cut or served.

    Do: keep the files, and follow the message.
    """

    code = "damaged"
    fault: ClassVar[Fault] = "data"


class LogDamaged(Damaged):
    """A stored batch does not hold its checksum. Fields: `file`, `position`, `offset`.

    Do: keep the folder; restore the named file from a copy. `duramen log dump FILE` shows what can be read.
    """

    code = "log_damaged"


class LogStopped(Damaged):
    """A sync failed, so it is unknown what the disk holds. The log acknowledges no write until a restart recovers it.

    Do: look at the kernel's messages and the disk, then restart the server.
    """

    code = "log_stopped"
    fault = "state"


class DiskFailed(Damaged):
    """The disk refused to open, read, write, rename or remove a file. The call did nothing; nothing that was
    acknowledged is lost. Field: `file`.

    Do: look at the kernel's messages and the disk, then repeat the call.
    """

    code = "disk_failed"
    fault = "state"


class IndexDamaged(Damaged):
    """An index is damaged. It is a cache of the log and can be rebuilt.

    Do: nothing: the index is discarded and folded again from the log.
    """

    code = "index_damaged"


class SnapshotDamaged(Damaged):
    """A snapshot is damaged. Another snapshot, a peer or the log has the same content. Field: `file`.

    Do: nothing: the next source is used. Take a new snapshot.
    """

    code = "snapshot_damaged"


class UnknownFormat(Damaged):
    """Written by a newer version of Duramen, or by something else.

    Do: upgrade this process.
    """

    code = "unknown_format"
    fault = "state"


class FolderInUse(Damaged):
    """Another process owns the data folder. Field: `pid` where known.

    Do: connect to the process that has the folder, or stop it; the message names its pid.
    """

    code = "folder_in_use"
    fault = "state"


class NodeIdTaken(Damaged):
    """Two data folders claim one node id, and the catalog knows the other folder. Field: `node`.

    Do: give the node another id; if the other folder is lost for good, use `--take-over`.
    """

    code = "node_id_taken"
    fault = "caller"


class FolderReadOnly(Damaged):
    """This user cannot write to the folder or its file system.

    Do: mount it writable, or change its owner.
    """

    code = "folder_read_only"
    fault = "state"


class ForeignFolder(Damaged):
    """The folder holds files that Duramen did not make.

    Do: name an empty folder.
    """

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
