"""Who a client says it is, and its secret: a token, a file with one, or a password.

    token="dt1_…"               the text of a token
    token_file="alice.token"    a file with one; after each change of the file, what it holds then
    user=, password=            a password

What was given to `connect` counts, else the environment: DURAMEN_TOKEN, DURAMEN_TOKEN_FILE, or DURAMEN_USER and
DURAMEN_PASSWORD. No secret is in a `repr` or in a message.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from log_tier.access.tokens import read_token
from log_tier.model.errors import InvalidRequest
from log_tier.privacy.secret_files import read_secret_file
from log_tier.rpc.credentials import CallCredentials, basic_header, bearer_header
from log_tier.trust.names import check_trust_name

__all__ = [
    "SECRET_VARIABLES",
    "PasswordCredentials",
    "TokenCredentials",
    "TokenFileCredentials",
    "client_credentials",
]

logger = logging.getLogger(__name__)

_TOKEN: Final = "DURAMEN_TOKEN"
_TOKEN_FILE: Final = "DURAMEN_TOKEN_FILE"
_USER: Final = "DURAMEN_USER"
_PASSWORD: Final = "DURAMEN_PASSWORD"

SECRET_VARIABLES: Final = (_TOKEN, _TOKEN_FILE, _PASSWORD)
"""What of the environment proves a user."""


def client_credentials(
    *,
    token: str | None = None,
    token_file: str | os.PathLike[str] | None = None,
    user: str | None = None,
    password: str | None = None,
    address_user: str = "",
    environment: Mapping[str, str] | None = None,
) -> CallCredentials | None:
    """The credentials of a client; None: it proves nothing. `address_user`: whom its address names; `environment`: of
    this process by default.

    Raises `InvalidRequest` for what does not go together, for a user without a secret, and for a secret that is none.
    """
    environment = os.environ if environment is None else environment
    if user is not None and address_user and user != address_user:
        raise InvalidRequest(f"the address names the user {address_user}, and user= says {user}: give one of them")
    name = user or address_user
    given = _Secrets(token, token_file, password)
    if given.number == 0:
        given = _Secrets(*(environment.get(each) or None for each in SECRET_VARIABLES))
        if not name and (given.number == 0 or given.password is not None):
            name = environment.get(_USER, "")
    if given.number > 1:
        raise InvalidRequest("a token, a token file and a password are three ways to prove one user: give one of them")
    if name:
        check_trust_name(name)
    if given.token is not None:
        return TokenCredentials(given.token, _token_user(given.token, name, "the token"))
    if given.token_file is not None:
        # Absolute: a pickled client may be used in a process that works in another folder.
        return TokenFileCredentials(Path(given.token_file).absolute(), name)
    if given.password is not None:
        if not name:
            raise InvalidRequest(f"a password is a user's: give user=, or {_USER}, or alice@HOST:PORT as the address")
        return PasswordCredentials(name, given.password)
    if name:
        raise InvalidRequest(
            f"nothing proves the user {name}: give token=, token_file= or password=, or {_TOKEN}, {_TOKEN_FILE} or "
            f"{_PASSWORD} in the environment"
        )
    return None


class _Secrets(NamedTuple):
    token: str | None
    token_file: str | os.PathLike[str] | None
    password: str | None

    @property
    def number(self) -> int:
        return sum(each is not None for each in self)


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
    _token_user(text, user, str(path))
    return text


def _token_user(text: str, user: str, what: str) -> str:
    """Whose token it is. Raises `InvalidRequest` unless it is one, and of `user` if that is given."""
    read = read_token(text)
    if read is None:
        raise InvalidRequest(f"{what} is no token of Duramen: those begin with dt1_, and end with their user's name")
    if user and read.user != user:
        raise InvalidRequest(f"{what} is a token of the user {read.user}, not of {user}: give one of them")
    return read.user
