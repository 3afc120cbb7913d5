"""The commands that change the catalog, and their bytes on its log.

A command is one record: key = the command's name, value = JSON with `v` (the format's version), `id` (random, drawn by
its sender: sent twice it takes effect once) and the fields of its class. JSON, because a person who looks at the log
with `duramen log dump` shall be able to read what happened; there are a few commands a minute, not thousands a second.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import MISSING, asdict, dataclass, field, fields
from typing import Any, Final, Literal, get_origin, get_type_hints

from log_tier.catalog.cluster_map import SnapshotEntry
from log_tier.catalog.jobs import ArgumentValue
from log_tier.model.batch import Columns, encode_batch
from log_tier.model.errors import DuramenError, InvalidRequest, LimitExceeded, UnknownFormat
from log_tier.model.identifiers import FIRST, NOTHING, Offset, Partition, PartitionId, TableId, partition_id
from log_tier.model.partitioner import Partitioner, is_partitioner
from log_tier.rows.alter_table import ALTER_COMMANDS, AlterCommand, AlterIndexes
from log_tier.rows.definition import TableDefinition
from log_tier.tally.audit_note import AuditedPart, AuditNote, NoteAudit, note_from, note_row
from log_tier.trust.trust_commands import TRUST_COMMANDS, AddRole, AddUser, TrustCommand

__all__ = [
    "COMMANDS",
    "COMMAND_FORMAT_VERSION",
    "AbortJob",
    "AddSnapshot",
    "ClearTable",
    "Command",
    "CreateTable",
    "DropTable",
    "ForgetSnapshots",
    "NoteAudit",
    "RegisterNode",
    "ResumeJob",
    "SetRetention",
    "StartJob",
    "TaskDone",
    "TaskFailed",
    "TaskPlan",
    "TaskReady",
    "command_batch",
    "parse_command",
]

COMMAND_FORMAT_VERSION: Final = 2
"""The newest format. A command is written in the first one that has it: a cluster without users stays readable by the
processes that know format 1.
"""

# A job over 1,024 partitions with three replicas is some 600 KiB.
_COMMAND_BYTES_MAX: Final = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class RegisterNode:
    """A node says where it is. Rejected where another data folder has that id, unless it takes over."""

    node: str
    address: str
    identity: str
    take_over: bool = False
    peer_address: str = ""  # came later, and is written only where there is one


@dataclass(frozen=True, slots=True)
class CreateTable:
    """A table over a topic that the log has. The fold places its replicas.

    The fields with defaults came later, and are written only where they say something else: a table of the usual kind
    is understood by processes that do not know them, and one of another kind stops those.
    """

    table: TableId
    name: str
    partitions: int
    replicas: int
    partitioner: Partitioner = "slot"
    adopted: bool = False
    """The topic is one of others; see `TableEntry`."""
    over: str = ""
    starts: tuple[Offset, ...] = ()
    retention_ms: int = 0
    retention_bytes: int = 0
    """The bounds of the table's log, as `SetRetention` gives them later."""
    definition: Mapping[str, Any] = field(default_factory=dict)
    """What its keys and values are (`TableDefinition.to_document`), its schemas not numbered yet. Empty: bytes."""


@dataclass(frozen=True, slots=True)
class DropTable:
    """A table whose topic was deleted."""

    table: TableId


@dataclass(frozen=True, slots=True)
class SetRetention:
    """How much of its log a table keeps from now on; see `log_tier.model.retention`."""

    table: TableId
    retention_ms: int
    retention_bytes: int


@dataclass(frozen=True, slots=True)
class TaskPlan:
    """A task of a job that is about to begin; the fold makes a `Task` of it."""

    action: str
    table: TableId
    partition: Partition
    node: str
    arguments: Mapping[str, ArgumentValue] = field(default_factory=dict)

    @property
    def partition_id(self) -> PartitionId:
        """The task's partition."""
        return partition_id(self.table, self.partition)


@dataclass(frozen=True, slots=True)
class StartJob:
    """Begin a job; rejected as a whole where one of its tasks is not possible any more."""

    kind: str
    subject: str
    tasks: tuple[TaskPlan, ...]
    arguments: Mapping[str, ArgumentValue] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ClearTable:
    """Begin the job that lets a table have no keys. Rejected where its versions are being changed."""

    table: TableId
    offsets: tuple[Offset, ...]
    """By partition: what was written up to there goes, what was written since stays. -1: all stays."""
    keep: int = 0
    """How many versions stay for a rollback."""


@dataclass(frozen=True, slots=True)
class TaskReady:
    """A move's target has caught up: it may be read, and its source is on its way out."""

    job: int
    task: int
    node: str


@dataclass(frozen=True, slots=True)
class TaskDone:
    """A task is finished."""

    job: int
    task: int
    node: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class TaskFailed:
    """A task cannot be done in the present state."""

    job: int
    task: int
    node: str
    note: str


@dataclass(frozen=True, slots=True)
class AbortJob:
    """Undo what a job has begun and not finished."""

    job: int


@dataclass(frozen=True, slots=True)
class ResumeJob:
    """Take up a job's unfinished tasks again, some of them with another node."""

    job: int
    nodes: Mapping[str, str] = field(default_factory=dict)
    """Task number (as text: JSON's keys are) → the node that does it from now on."""


@dataclass(frozen=True, slots=True)
class AddSnapshot:
    """A snapshot was taken, verified and stored."""

    snapshot: SnapshotEntry


@dataclass(frozen=True, slots=True)
class ForgetSnapshots:
    """Snapshots that are about to be removed from the store."""

    table: TableId
    partition: Partition
    ids: tuple[str, ...]

    @property
    def partition_id(self) -> PartitionId:
        """The partition whose snapshots they are."""
        return partition_id(self.table, self.partition)


Command = (
    RegisterNode
    | CreateTable
    | DropTable
    | AlterCommand
    | SetRetention
    | NoteAudit
    | StartJob
    | ClearTable
    | TaskReady
    | TaskDone
    | TaskFailed
    | AbortJob
    | ResumeJob
    | AddSnapshot
    | ForgetSnapshots
    | TrustCommand
)

COMMANDS: Final[Mapping[str, type[Command]]] = {
    "register-node": RegisterNode,
    "create-table": CreateTable,
    "drop-table": DropTable,
    **ALTER_COMMANDS,
    "set-retention": SetRetention,
    "note-audit": NoteAudit,
    "start-job": StartJob,
    "clear-table": ClearTable,
    "task-ready": TaskReady,
    "task-done": TaskDone,
    "task-failed": TaskFailed,
    "abort-job": AbortJob,
    "resume-job": ResumeJob,
    "add-snapshot": AddSnapshot,
    "forget-snapshots": ForgetSnapshots,
    **TRUST_COMMANDS,
}
"""The commands by their name on the log."""

_NAMES: Final = {kind: name for name, kind in COMMANDS.items()}
_FORMATS: Final = {kind: 2 if name in TRUST_COMMANDS else 1 for name, kind in COMMANDS.items()}


def _plain_type(hint: Any) -> type:
    """The Python type of a field's values: a NewType's own type, a generic's origin, text for a choice of words."""
    origin = get_origin(hint)
    plain: type = str if origin is Literal else getattr(hint, "__supertype__", None) or origin or hint
    return plain


_FIELD_TYPES: Final[Mapping[type, Mapping[str, type]]] = {
    kind: {name: _plain_type(hint) for name, hint in get_type_hints(kind).items()}
    for kind in (*COMMANDS.values(), TaskPlan, SnapshotEntry, AuditNote, AuditedPart)
}


def _wrong_field(thing: Any) -> str:
    """The first field that holds what it cannot hold; empty where all is well. The fold trusts what comes to it."""
    for name, wanted in _FIELD_TYPES[type(thing)].items():
        value = getattr(thing, name)
        if not isinstance(value, wanted) or (wanted is int and isinstance(value, bool)):
            return f"{type(thing).__name__}.{name} is {value!r}, and should be {wanted.__name__}"
    if isinstance(thing, CreateTable):
        return _wrong_table(thing)
    if isinstance(thing, ClearTable):
        return _wrong_offsets("ClearTable.offsets", thing.offsets, least=NOTHING)
    if isinstance(thing, AddUser | AddRole) and not all(isinstance(grant, str) for grant in thing.grants):
        return f"{type(thing).__name__}.grants holds what is no text"
    for part in _parts(thing):
        wrong = _wrong_field(part) if type(part) in _FIELD_TYPES else f"{part!r} is no part of a command"
        if wrong:
            return wrong
    return ""


def _parts(thing: Any) -> tuple[Any, ...]:
    named = {StartJob: "tasks", AuditNote: "parts", AddSnapshot: "snapshot", NoteAudit: "note"}.get(type(thing))
    found = () if named is None else getattr(thing, named)
    return found if isinstance(found, tuple) else (found,)


def _wrong_table(command: CreateTable) -> str:
    if not is_partitioner(command.partitioner):
        return f"CreateTable.partitioner is {command.partitioner!r}, and should be slot, murmur2 or fields:N"
    if command.definition:
        try:
            TableDefinition.from_document(command.definition)
        except DuramenError as error:
            return f"CreateTable.definition: {error.message}"
    return _wrong_offsets("CreateTable.starts", command.starts, least=FIRST)


def _wrong_offsets(what: str, offsets: tuple[Offset, ...], *, least: Offset) -> str:
    for offset in offsets:
        if type(offset) is not int or offset < least:
            return f"{what} holds {offset!r}, and should hold offsets"
    return ""


def command_batch(command: Command, command_id: str) -> bytes:
    """A command as a batch of one record.

    Raises `LimitExceeded` for one that is too large, `InvalidRequest` for a field that holds what it cannot hold: on
    the log it would stop every follower.
    """
    wrong = _wrong_field(command)
    if wrong:
        raise InvalidRequest(f"the command cannot be: {wrong}")
    document = {"v": _FORMATS[type(command)], "id": command_id, **asdict(command)}
    if isinstance(command, RegisterNode) and not command.peer_address:
        del document["peer_address"]
    elif isinstance(command, CreateTable | AlterIndexes):
        _leave_out_usual(command, document)
    elif isinstance(command, AddUser):
        _leave_out_token(document)
    elif isinstance(command, AddSnapshot):
        _leave_out_usual(command.snapshot, document["snapshot"])
    elif isinstance(command, NoteAudit):
        document["note"] = note_row(command.note)
    value = json.dumps(document, separators=(",", ":")).encode()
    if len(value) > _COMMAND_BYTES_MAX:
        raise LimitExceeded(
            f"the command has {len(value)} bytes, the catalog takes {_COMMAND_BYTES_MAX}: do it table by table",
            limit=_COMMAND_BYTES_MAX,
            size=len(value),
        )
    return encode_batch(Columns([_NAMES[type(command)].encode()], [value]))


def _leave_out_usual(thing: CreateTable | AlterIndexes | SnapshotEntry, document: dict[str, Any]) -> None:
    for each in fields(thing):
        usual = each.default_factory() if each.default_factory is not MISSING else each.default
        if usual is not MISSING and document[each.name] == usual:
            del document[each.name]


def _leave_out_token(document: dict[str, Any]) -> None:
    """Of a user without a first token, write what was written before there were any."""
    if not document["token"] and not document["sha256"] and not document["expires_ms"]:
        for name in ("token", "sha256", "expires_ms"):
            del document[name]


def parse_command(key: bytes, value: bytes) -> tuple[str, Command]:
    """The id and the command of a record.

    Raises `UnknownFormat` for what this version does not know: going on would fold a map that others do not have.
    """
    name = key.decode(errors="replace")
    try:
        document = json.loads(value)
        version = document.pop("v")
        command_id = str(document.pop("id"))
    except (ValueError, KeyError, AttributeError, TypeError, RecursionError) as error:
        raise UnknownFormat(f"the catalog's record {name!r} is no command: {error!r}") from error
    kind = COMMANDS.get(name)
    if kind is None or version != _FORMATS[kind] or document.keys() - _FIELD_TYPES[kind].keys():
        raise UnknownFormat(
            f"the catalog holds a command {name!r} of format {version}, this process knows formats up "
            f"to {COMMAND_FORMAT_VERSION}: a newer Duramen wrote it; update this one"
        )
    try:
        command = _built(kind, document)
    except (AttributeError, TypeError, KeyError, ValueError) as error:
        raise UnknownFormat(f"the catalog's command {name!r} has other fields than it should: {error}") from error
    wrong = _wrong_field(command)
    if wrong:
        raise UnknownFormat(f"the catalog's command {name!r} has other fields than it should: {wrong}")
    return command_id, command


def _built(kind: type[Command], document: dict[str, Any]) -> Command:
    if kind is StartJob:
        tasks = tuple(TaskPlan(**task) for task in document.pop("tasks"))
        return StartJob(tasks=tasks, **document)
    if kind is AddSnapshot:
        entry = document["snapshot"]
        return AddSnapshot(SnapshotEntry(**{**entry, "offset": Offset(entry["offset"])}))
    if kind is NoteAudit:
        document["note"] = note_from(document["note"], strict=True)
    if kind in (AddUser, AddRole) and isinstance(document.get("grants"), list):
        document["grants"] = tuple(document["grants"])
    if kind is ForgetSnapshots:
        document["ids"] = tuple(document["ids"])
    if kind is CreateTable and "starts" in document:
        document["starts"] = tuple(document["starts"])
    if kind is ClearTable:
        document["offsets"] = tuple(document["offsets"])
    return kind(**document)
