"""What a client keeps of its secret, of each kind: a token, a file with one, a password."""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass, field
from pathlib import Path

from log_tier.access.tokens import read_token
from log_tier.model.errors import InvalidRequest
from log_tier.privacy.secret_files import read_secret_file
from log_tier.rpc.credentials import basic_header, bearer_header

__all__ = ["PasswordCredentials", "TokenCredentials", "TokenFileCredentials", "token_user"]

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class TokenCredentials:
    """A token."""

    text: str = field(repr=False)
    user: str

    def secret(self) -> str:
        return self.text

    def header(self) -> str:
        return bearer_header(self.text)


@dataclass(frozen=True, slots=True)
class PasswordCredentials:
    """A user and its password."""

    user: str
    password: str = field(repr=False)

    def secret(self) -> str:
        return self.password

    def header(self) -> str:
        return basic_header(self.user, self.password)


class TokenFileCredentials:
    """A file with a token, which is read again when it has changed. One `stat` for each call."""

    def __init__(self, path: Path, user: str = "") -> None:
        """`user`: whose token it must hold; empty: anybody's. Raises `InvalidRequest` where it holds none."""
        self.path = path
        self._expected = user
        self._version = _version_of(path)
        """Of the file when it was looked at last."""
        self._text = _token_of(path, user)

    @property
    def user(self) -> str:
        read = read_token(self._text)
        assert read is not None, f"a text that is no token was taken from {self.path}"
        return read.user

    def secret(self) -> str:
        """The token that the file holds; the one before, where it cannot be used any more."""
        version = _version_of(self.path)
        if version != self._version:
            self._version = version
            try:
                self._text = _token_of(self.path, self._expected)
            except InvalidRequest as error:
                logger.warning("the token that was read before is used on: %s", error)
        return self._text

    def header(self) -> str:
        return bearer_header(self.secret())

    def __repr__(self) -> str:
        return f"TokenFileCredentials({str(self.path)!r}, user={self.user!r})"

    def __reduce__(self) -> tuple[object, ...]:
        return TokenFileCredentials, (self.path, self._expected)


def _version_of(path: Path) -> tuple[int, ...]:
    try:
        found = os.stat(path)
    except OSError:
        return ()
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _token_of(path: Path, user: str) -> str:
    text = read_secret_file(path)
    token_user(text, user, str(path))
    return text


def token_user(text: str, user: str, what: str) -> str:
    """Whose token it is. Raises `InvalidRequest` unless it is one, and of `user` if that is given."""
    read = read_token(text)
    if read is None:
        raise InvalidRequest(f"{what} is no token of Duramen: those begin with dt1_, and end with their user's name")
    if user and read.user != user:
        raise InvalidRequest(f"{what} is a token of the user {read.user}, not of {user}: give one of them")
    return read.user
