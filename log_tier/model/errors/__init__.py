"""Every error that Duramen raises, in one tree. `duramen` re-exports it.

    DuramenError
    ├── InvalidRequest            the caller's: nothing was done, a retry cannot help
    │   ├── InvalidName           a name of a table, topic or certificate that cannot be one
    │   ├── InvalidKey            empty, longer than 511 bytes, not bytes
    │   ├── InvalidValue          longer than the limit, not bytes
    │   ├── InvalidSchema         text that is no schema of rows, or one that may not follow the present one
    │   ├── InvalidRow            a row that does not fit its table's schema; names the field
    │   ├── PartitionMismatch     an atomic batch whose keys lie in several partitions
    │   ├── InvalidToken          text that is no token, or a token of another table
    │   ├── TokenAhead            a token that asks for more than the log holds
    │   ├── BatchRefused          malformed batch bytes, wrong checksum, unknown version
    │   ├── LimitExceeded         a request, queue or stream over its limit
    │   ├── DatabaseClosed        a call on a database that its own program closed
    │   │   └── DatabaseForked    … or on a parent's, in a forked process that cannot have it
    │   ├── PortInUse             a server's port that cannot be listened on
    │   ├── AccessDenied          credentials that a Kafka cluster does not know, or that may not do this
    │   ├── Unauthenticated       a caller that did not prove that it is a user, where there are users
    │   ├── PermissionDenied      a user who was not granted this
    │   └── LocationRefused       a folder or bucket that a server is not configured to open for its callers
    ├── TableNotFound             no table of that name or id (any more)
    ├── TableExists               the name is taken
    ├── OffsetTrimmed             the log no longer holds that offset; says from where it does
    ├── HistoryGone               a table's history does not reach back to that offset; says from where it does
    ├── IndexBuilding             the ordered index that would serve is being built
    ├── OffsetPassed              a replica has applied more than the offset that was asked for; says how much
    ├── Rejected                  a verdict: the log decided against the write, on every replica alike
    │   ├── ConditionFailed       absent / present / version did not hold
    │   ├── NotANumber            arithmetic on a value that is no number
    │   ├── NumberOverflow        an integer result beyond 64 bits, or a float that is not finite
    │   ├── ResultTooLarge        an append that would grow a value over the limit
    │   ├── RowRejected           a key or a value that does not fit its table
    │   ├── RowAbsent             an update of fields of a row that is not there
    │   ├── UniqueViolation       a row with values of a unique index that another row has
    │   ├── FieldAbsent           an update of a field that the row has not, or has as null
    │   └── CommandRejected       a catalog command that lost a race, or contradicts the cluster's state
    ├── Unavailable               a passing state: nothing was done, a retry can help
    │   ├── Disconnected          no server answered
    │   │   └── HandshakeFailed   client and server could not agree on TLS
    │   ├── Overloaded            a queue is full
    │   ├── DiskFull              the log cannot grow until space returns
    │   ├── SnapshotStoreUnavailable  the snapshot store does not answer, or refuses
    │   ├── NotHosted             this node holds no replica of that partition; another one does
    │   ├── VersionMissing        the log goes on with a version of the table that this replica does not have yet
    │   ├── DeadlineExceeded      the call's time is over
    │   │   └── ReplicaBehind     … before the replica had applied what was asked
    │   └── ShuttingDown          the server is going away
    ├── WriteUnknown              no reply, or the log stopped: the write is in the log once or not at all
    └── Damaged                   the stored state's: an operator has to look
        ├── LogDamaged            a checksum in the middle of a log does not hold; names file and position
        ├── LogStopped            an fsync failed: this log takes nothing more
        ├── DiskFailed            the disk refused an operation on one file; names the file
        ├── IndexDamaged          an index cannot be trusted (it can be rebuilt)
        │   └── IndexDiverged     … since its log holds something else at the offsets that it has folded
        ├── SnapshotDamaged       a snapshot that is not what its manifest says, or not whose it should be
        ├── UnknownFormat         written by a newer version, or by something else
        ├── FolderInUse           another process owns the data folder
        ├── FolderReadOnly        a folder that this user may not write
        ├── NodeIdTaken           another data folder has this node's id
        ├── CertificateInvalid    a certificate or key that is missing, malformed, or not the other one's
        └── ForeignFolder         a folder that holds something else

Each class says three things: `code`, its name on the wire and in logs, which never changes once landed; `retryable`,
whether the same call can succeed later without a change; `fault`, the kind of its cause: the `caller`, a `transient`
condition of the system, the `data`, or the `state` of the machine. `log_tier/rpc/status_codes.py` alone maps classes to
gRPC codes. The last paragraph of each docstring begins with `Do:` and says what to do next; `docs/API.md` is generated
from them.

`fields` carries the numbers behind the message (offsets, versions, limits) so that programs need not parse prose; it
survives the wire.

Reading order: `root.py`, `requests.py`, `tables.py`, `verdicts.py`, `transient.py`, `damage.py`.
"""

# isort: off
# In the order of the tree: `ERRORS`, and the reference made from it, follow.
from log_tier.model.errors.root import (
    ERRORS,
    DuramenError,
    FieldValue,
    error_from_code,
)
from log_tier.model.errors.requests import (
    AccessDenied,
    PermissionDenied,
    Unauthenticated,
    BatchRefused,
    DatabaseClosed,
    DatabaseForked,
    InvalidKey,
    InvalidName,
    InvalidRequest,
    InvalidRow,
    InvalidSchema,
    InvalidToken,
    InvalidValue,
    LimitExceeded,
    LocationRefused,
    PartitionMismatch,
    PortInUse,
    TokenAhead,
)
from log_tier.model.errors.tables import (
    HistoryGone,
    IndexBuilding,
    OffsetPassed,
    OffsetTrimmed,
    TableExists,
    TableNotFound,
)
from log_tier.model.errors.verdicts import (
    CommandRejected,
    ConditionFailed,
    FieldAbsent,
    NotANumber,
    NumberOverflow,
    Rejected,
    ResultTooLarge,
    RowAbsent,
    RowRejected,
    UniqueViolation,
)
from log_tier.model.errors.transient import (
    DeadlineExceeded,
    Disconnected,
    HandshakeFailed,
    DiskFull,
    NotHosted,
    Overloaded,
    ReplicaBehind,
    ShuttingDown,
    SnapshotStoreUnavailable,
    Unavailable,
    VersionMissing,
    WriteUnknown,
)
from log_tier.model.errors.damage import (
    CertificateInvalid,
    Damaged,
    DiskFailed,
    FolderInUse,
    FolderReadOnly,
    ForeignFolder,
    IndexDamaged,
    IndexDiverged,
    LogDamaged,
    LogStopped,
    NodeIdTaken,
    SnapshotDamaged,
    UnknownFormat,
)
# isort: on

__all__ = [
    "ERRORS",
    "AccessDenied",
    "BatchRefused",
    "CertificateInvalid",
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
    "FieldAbsent",
    "FieldValue",
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
    "Overloaded",
    "PartitionMismatch",
    "PermissionDenied",
    "PortInUse",
    "Rejected",
    "ReplicaBehind",
    "ResultTooLarge",
    "RowAbsent",
    "RowRejected",
    "ShuttingDown",
    "SnapshotDamaged",
    "SnapshotStoreUnavailable",
    "TableExists",
    "TableNotFound",
    "TokenAhead",
    "Unauthenticated",
    "Unavailable",
    "UniqueViolation",
    "UnknownFormat",
    "VersionMissing",
    "WriteUnknown",
    "error_from_code",
]
