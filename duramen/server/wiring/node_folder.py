"""A node's data folder: who the node is, and that one process at a time is it.

    node.json     format, version, the node's id, its identity; sealed with a checksum
    node.lock     held by the process that is the node; the kernel lets go of it however that process ends

The **identity** is drawn when the folder is made. The catalog keeps it with the node's id: another folder that claims
the same id is another node, whatever its configuration says, and is refused.
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
from pathlib import Path
from typing import Final

from duramen.server.wiring.foreign_names import refuse_foreign
from log_tier.concurrency.disk_errors import disk_refusal
from log_tier.concurrency.forking import on_fork
from log_tier.model.errors import FolderInUse, ForeignFolder, UnknownFormat
from log_tier.model.files.sealed_json import SealedKind
from log_tier.privacy.private_files import FILE_MODE, make_private, private_opener, tighten
from serving_tier.names import NODE_FILE, NODE_FOLDERS, NODE_LOCK, new_file

__all__ = ["NodeFolder"]

_FORMAT: Final = "duramen node"
_VERSION: Final = 1

_IDENTITY_BYTES: Final = 16

_FIRST_FIELDS: Final = frozenset({"format", "version", "id", "identity"})

_RESTORE: Final = (
    "restore it; or, as a node's data are copies, remove the folder, start the node anew and let it take over "
    "(--take-over)"
)
_KIND: Final = SealedKind(
    _FORMAT,
    _VERSION,
    bytes_max=4096,  # it has some 150
    damage=ForeignFolder,
    remedy=_RESTORE,
    upgrade="update this process",
)


class NodeFolder:
    """An owned node folder. `open()` takes it, `close()` gives it back."""

    def __init__(self, path: Path, identity: str, lock: int) -> None:
        self.path = path
        self.identity = identity
        """32 hex digits."""
        self._lock: int | None = lock
        on_fork(self)

    @classmethod
    def open(cls, path: Path, *, node_id: str) -> NodeFolder:
        """Own the folder of the node `node_id`; make it where it is missing or empty. Blocks for two small syncs.

        Raises `FolderInUse`, `ForeignFolder` (another program's, or another node's), `UnknownFormat`, and as
        `disk_refusal` says.
        """
        try:
            refuse_foreign(path, (NODE_FILE, new_file(path / NODE_FILE).name, NODE_LOCK, *NODE_FOLDERS))
            make_private(path)
            tighten(path)
            return cls._taken(path, node_id)
        except OSError as error:
            if isinstance(error, NotADirectoryError):
                raise ForeignFolder(f"{path} is below a file, a node's data is a folder: name another one") from error
            raise disk_refusal(error, f"{path} cannot be used", path=path, effect="the node did not start") from error

    @classmethod
    def _taken(cls, path: Path, node_id: str) -> NodeFolder:
        lock = os.open(path / NODE_LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
        try:
            _take(lock, path)
            return cls(path, _identity(path, node_id), lock)
        except BaseException:
            os.close(lock)
            raise

    def after_fork(self) -> None:
        """The parent's descriptor stays open; this copy would keep the folder locked after the parent's end."""
        self.close()

    def close(self) -> None:
        """Give the folder back. Idempotent."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def _take(lock: int, path: Path) -> None:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        pid = os.read(lock, 32).decode(errors="replace").strip()
        raise FolderInUse(
            f"{path} is used by another process{f' (pid {pid})' if pid else ''}: stop that node, or name another "
            "folder",
            **({"pid": int(pid)} if pid.isdigit() else {}),
        ) from error
    os.ftruncate(lock, 0)
    os.write(lock, f"{os.getpid()}\n".encode())


def _identity(path: Path, node_id: str) -> str:
    """Read the marker, or write one for a folder that has none."""
    file = path / NODE_FILE
    try:
        data = file.read_bytes()
        found = json.loads(data)
        if found.keys() - _FIRST_FIELDS:  # earlier versions wrote these, and no checksum
            found = _KIND.parse(data, str(file))
        named = (found["format"], found["version"], found["id"], found["identity"])
    except FileNotFoundError:
        identity = secrets.token_hex(_IDENTITY_BYTES)
        _write(file, _KIND.write({"id": node_id, "identity": identity}))
        return identity
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ForeignFolder(f"{file} cannot be read ({error!r}): {_RESTORE}") from error
    if named[0] != _FORMAT or named[1] != _VERSION:
        raise UnknownFormat(f"{file} tells of {named[0]!r} version {named[1]}; this process has {_VERSION}: update it")
    if named[2] != node_id:
        raise ForeignFolder(f"{path} is the folder of node {named[2]}, not of {node_id}: name another folder or id")
    return str(named[3])


def _write(file: Path, document: bytes) -> None:
    new = new_file(file)
    try:
        with open(new, "wb", opener=private_opener) as opened:
            opened.write(document)
            opened.flush()
            os.fsync(opened.fileno())
    except OSError as error:  # an error about an open file does not name it
        raise OSError(error.errno, error.strerror, str(new)) from error
    os.replace(new, file)
    folder = os.open(file.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
