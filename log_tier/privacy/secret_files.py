"""Files with one secret: a token or a password, for this user alone."""

from __future__ import annotations

import os
import secrets
import stat
from pathlib import Path
from typing import Final

from log_tier.model.errors import InvalidRequest
from log_tier.privacy.private_files import FILE_MODE

__all__ = ["check_new_secret_file", "read_secret_file", "write_secret_file"]

_SECRET_BYTES_MAX: Final = 4096
"""A token has some 100 bytes, a password at most 1,024; what is larger is another file."""

_OTHERS: Final = 0o077


def check_new_secret_file(path: Path) -> None:
    """Raise `InvalidRequest` where there is a file already, or no folder to put one into."""
    if os.path.lexists(path):
        raise InvalidRequest(f"{path} is there already, and a secret never replaces another one: name another file")
    if not path.absolute().parent.is_dir():
        raise InvalidRequest(f"{path} cannot be written: {path.absolute().parent} is no folder")


def write_secret_file(path: Path, secret: str) -> None:
    """Write a file of mode 0600, durably and as a whole: nobody ever reads a part of it. Three syncs.

    Raises `InvalidRequest` where there is a file already, which stays as it is, or no folder, and `OSError`.
    """
    path = path.absolute()
    staged = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        with open(staged, "x", opener=lambda name, flags: os.open(name, flags, FILE_MODE)) as opened:
            opened.write(secret + "\n")
            opened.flush()
            os.fsync(opened.fileno())
        os.link(staged, path)  # which replaces nothing
    except (FileExistsError, FileNotFoundError):
        check_new_secret_file(path)
        raise
    finally:
        staged.unlink(missing_ok=True)
    _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read_secret_file(path: Path) -> str:
    """The secret in a file, without the spaces and line ends around it.

    Raises `InvalidRequest` where other users of the machine can read the file, where it belongs to somebody else, is
    too large, or holds no text; and where it cannot be read.
    """
    try:
        with open(path, "rb") as opened:
            found = os.fstat(opened.fileno())
            if stat.S_ISREG(found.st_mode):
                _check_private(path, found)
            data = opened.read(_SECRET_BYTES_MAX + 1)
    except OSError as error:
        raise InvalidRequest(f"the file {path} cannot be read: {error.strerror}") from error
    try:
        if len(data) > _SECRET_BYTES_MAX:
            raise InvalidRequest(f"{path} has more than {_SECRET_BYTES_MAX} bytes: it is no file of a secret")
        return data.decode().strip()
    except UnicodeDecodeError:
        # Without the error's own words, which quote the bytes.
        raise InvalidRequest(f"{path} holds no text") from None


def _check_private(path: Path, found: os.stat_result) -> None:
    if found.st_uid != os.geteuid():
        raise InvalidRequest(
            f"{path} belongs to another user of this machine (uid {found.st_uid}), who can read and change it: copy it "
            "to a file of your own"
        )
    if found.st_mode & _OTHERS:
        raise InvalidRequest(
            f"{path} has the mode {found.st_mode & 0o7777:04o}, and other users of this machine may read the secret in "
            f"it: chmod 600 {path}, and get a new token if somebody may have read it"
        )
