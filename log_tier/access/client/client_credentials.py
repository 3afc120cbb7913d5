"""Who a client says it is, and its secret: a token, a file with one, or a password.

    token="dt1_…"               the text of a token
    token_file="alice.token"    a file with one; after each change of the file, what it holds then
    user=, password=            a password

What was given to `connect` counts, else the environment: DURAMEN_TOKEN, DURAMEN_TOKEN_FILE, or DURAMEN_USER and
DURAMEN_PASSWORD. No secret is in a `repr` or in a message.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from log_tier.model.errors import InvalidRequest
from log_tier.rpc.credentials import CallCredentials
from log_tier.trust.names import check_trust_name

__all__ = ["SECRET_VARIABLES", "client_credentials"]

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
    if given.number == 1:
        return _credentials(given, name)
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


def _credentials(given: _Secrets, name: str) -> CallCredentials:
    """The credentials of the one secret that is given."""
    # Here, and not at the top: a client without a user has no use for tokens and their hashes.
    from log_tier.access.client.kept_credentials import (
        PasswordCredentials,
        TokenCredentials,
        TokenFileCredentials,
        token_user,
    )

    if given.token is not None:
        return TokenCredentials(given.token, token_user(given.token, name, "the token"))
    if given.token_file is not None:
        # Absolute: a pickled client may be used in a process that works in another folder.
        return TokenFileCredentials(Path(given.token_file).absolute(), name)
    if not name:
        raise InvalidRequest(f"a password is a user's: give user=, or {_USER}, or alice@HOST:PORT as the address")
    assert given.password is not None, "one secret is given"
    return PasswordCredentials(name, given.password)
