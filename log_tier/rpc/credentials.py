"""How the calls of this process prove who makes them: with a user's secret in their metadata, or not at all.

The credentials belong to the context (`contextvars`) that makes a connection, as its security does: what a client opens
in the background, to servers that it learns of later, carries the same proof. Servers have none, and prove themselves
to each other by their certificates.

A secret leaves this machine by TLS only.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final, Protocol

from log_tier.model.errors import InvalidRequest
from log_tier.rpc.address import is_loopback

__all__ = ["AUTHORIZATION", "CREDENTIALS", "CallCredentials", "basic_header", "bearer_header", "check_kept", "proving"]

AUTHORIZATION: Final = "authorization"
"""The metadata key of a token or a password."""


class CallCredentials(Protocol):
    """A user's proof. It can be pickled, and shows no secret in its `repr`."""

    @property
    def user(self) -> str:
        """Whose it is."""
        ...

    def secret(self) -> str:
        """The token or the password of now. Raises `InvalidRequest` where there is none."""
        ...

    def header(self) -> str:
        """The value of `authorization` of now. Raises `InvalidRequest` as `secret` does. Some µs."""
        ...


CREDENTIALS: Final[ContextVar[CallCredentials | None]] = ContextVar("credentials", default=None)
"""The proof of the calls over channels that are made in the present context; None: they prove nothing."""


@contextmanager
def proving(credentials: CallCredentials | None) -> Iterator[None]:
    """Have the channels that are made inside, and by the tasks that begin inside, carry this proof."""
    before = CREDENTIALS.set(credentials)
    try:
        yield
    finally:
        CREDENTIALS.reset(before)


def check_kept(target: str, credentials: CallCredentials) -> None:
    """Raise `InvalidRequest` unless `target` (host:port, called by plain TCP) is this machine."""
    if not is_loopback(target.rpartition(":")[0]):
        raise InvalidRequest(
            f"{target} is another machine, and the secret of user {credentials.user} would go there in plain TCP: call "
            "it with duramens://, or give no token and no password (also not by DURAMEN_TOKEN, DURAMEN_TOKEN_FILE or "
            "DURAMEN_PASSWORD)"
        )


def bearer_header(token: str) -> str:
    """The value of `authorization` for a token."""
    return f"Bearer {token}"


def basic_header(user: str, password: str) -> str:
    """The value of `authorization` for a password."""
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode("ascii")
