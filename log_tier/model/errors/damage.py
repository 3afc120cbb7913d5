"""Errors about what is stored: a file, a folder or a disk that cannot be trusted or used."""

from __future__ import annotations

from typing import ClassVar

from log_tier.model.errors.root import DuramenError, Fault

__all__ = [
    "CertificateInvalid",
    "Damaged",
    "DiskFailed",
    "FolderInUse",
    "FolderReadOnly",
    "ForeignFolder",
    "IndexDamaged",
    "IndexDiverged",
    "LogDamaged",
    "LogStopped",
    "NodeIdTaken",
    "SnapshotDamaged",
    "UnknownFormat",
]


class Damaged(DuramenError):
    """Something stored cannot be trusted. Nothing was cut or served.

    Do: keep the files, and follow the message.
    """

    code = "damaged"
    fault: ClassVar[Fault] = "data"


class LogDamaged(Damaged):
    """A stored batch does not hold its checksum, or the log has lost its end. Fields: `file`, `position`, `offset`; of
    a replica that lacks acknowledged writes also `partition`, `applied` and `asked`, the offset that the log held.

    Do: keep the folder; repair it from a copy: `duramen log repair DATA --from COPY`. `duramen log verify DATA` names
    all that is damaged, `duramen log dump FILE` shows what can be read.
    """

    code = "log_damaged"


class LogStopped(Damaged):
    """A sync failed, so it is unknown what the disk holds. The log takes no write until a restart recovers it; this one
    was not written. A write that was under way when the sync failed ends with `WriteUnknown`.

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


class IndexDiverged(IndexDamaged):
    """An index, or a copy of one, holds what its log does not: the log was put back from an older copy and then written
    on. Field: `offset`.

    Do: nothing for the index, it is discarded and built again from the log as it is now. Find out why the log was put
    back: records that were acknowledged after that copy are gone from it.
    """

    code = "index_diverged"


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
    """Another database, of this process or another one, owns the data folder. Field: `pid` where known.

    Do: connect to the process that has the folder, or stop it; the message names its pid. In this process: use the
    database that is open.
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


class CertificateInvalid(Damaged):
    """A certificate or its key cannot be used: the file is missing or malformed, the two do not belong together, the
    certificate names nobody, or it is not valid now. Field: `file` where there is one.

    Do: put the right file there, or reissue it with `duramen cert rotate`; `duramen cert show` names what is wrong.
    """

    code = "certificate_invalid"
    fault = "state"


class ForeignFolder(Damaged):
    """The folder holds files that Duramen did not make.

    Do: name an empty folder.
    """

    code = "foreign_folder"
    fault = "caller"
