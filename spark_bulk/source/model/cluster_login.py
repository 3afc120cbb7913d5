"""How driver and executors get into a cluster: its servers, and the paths of what secures and proves their calls.

    at="duramens://alice@db1:7070", ca="/etc/duramen/ca.crt", token_file="/etc/duramen/alice.token"

It travels with each task, so it holds paths and no secret: each process opens the files itself, which are at the same
place on the driver's machine and on each executor's. A token in the environment does not travel, so it is refused.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final

from log_tier.access.client.client_target import parse_target
from log_tier.access.client.kept_credentials import TokenFileCredentials
from log_tier.access.client.pem_files import CaFile
from log_tier.model.errors import InvalidRequest
from log_tier.rpc.credentials import CallCredentials, proving
from log_tier.rpc.security import secured

__all__ = ["NO_LOGIN", "ClusterLogin"]

_CA: Final = "DURAMEN_CA"
_TOKEN_FILE: Final = "DURAMEN_TOKEN_FILE"
_STAYING: Final = ("DURAMEN_TOKEN", "DURAMEN_PASSWORD")
"""Secrets of the driver's environment, which executors do not have."""

_FILES_MAX: Final = 64


@dataclass(frozen=True, slots=True)
class ClusterLogin:
    """Which servers to ask, how calls are secured, and by which file they prove who makes them. It can be pickled."""

    servers: tuple[str, ...] = ()
    """Each host:port; the first that answers is taken."""
    ca: str = ""
    """The absolute path of the CA that signed the servers' certificates; empty: plain TCP."""
    token_file: str = ""
    """The absolute path of a file with a user's token; empty: calls prove nothing."""
    user: str = ""
    """Whose token it must be; empty: anybody's."""

    @classmethod
    def of(
        cls,
        at: str,
        *,
        ca: str | os.PathLike[str] | None = None,
        token_file: str | os.PathLike[str] | None = None,
        user: str | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> ClusterLogin:
        """What a caller gave, else DURAMEN_CA and DURAMEN_TOKEN_FILE. The driver's own files are tried here.

        `at`: host:port, or duramens://[user@]host:port with TLS; several servers with commas between.

        Raises `InvalidRequest` for what does not go together, and for a token file that cannot be used;
        `CertificateInvalid` for a CA that cannot be.
        """
        environment = os.environ if environment is None else environment
        servers, secure, address_user = parse_target(at)
        if user and address_user and user != address_user:
            raise InvalidRequest(f"the address names the user {address_user}, and `user` says {user}: give one of them")
        authorities = ca or (environment.get(_CA) if secure else None)
        if secure and not authorities:
            raise InvalidRequest(
                f"duramens:// needs the CA that signed the servers' certificates: give `ca` or {_CA}, a path that the "
                "executors' machines have too"
            )
        if authorities and not secure:
            raise InvalidRequest(f"`ca` is for servers with TLS: call {', '.join(servers)} with duramens://")
        token = token_file or environment.get(_TOKEN_FILE)
        name = user or address_user
        if not token and (name or secure):
            for variable in _STAYING:
                if environment.get(variable):
                    raise InvalidRequest(
                        f"{variable} stays with Spark's driver, and executors need a proof too: write a token to a "
                        f"file of mode 0600, at the same path on each machine, and give `token_file` or {_TOKEN_FILE}"
                    )
        if name and not token:
            raise InvalidRequest(
                f"nothing proves the user {name}: give `token_file`, or {_TOKEN_FILE} in the environment"
            )
        login = cls(servers, _absolute(authorities), _absolute(token), name)
        if login.ca:
            CaFile(Path(login.ca)).read()
        login._credentials()
        return login

    @contextmanager
    def used(self) -> Iterator[None]:
        """Secure the channels that are made inside, and have them carry the proof. Enter it where they are made: in
        the coroutine, not in the thread that waits for it.

        Raises `InvalidRequest` where this machine's token file cannot be used.
        """
        with secured(CaFile(Path(self.ca)) if self.ca else None), proving(self._credentials()):
            yield

    @property
    def proven_user(self) -> str:
        """Whose token the file holds; empty: there is none."""
        credentials = self._credentials()
        return "" if credentials is None else credentials.user

    def _credentials(self) -> CallCredentials | None:
        return _credentials_of(self.token_file, self.user) if self.token_file else None


NO_LOGIN: Final = ClusterLogin()
"""Plain TCP, and no proof."""


def _absolute(path: str | os.PathLike[str] | None) -> str:
    return str(Path(path).absolute()) if path else ""


@lru_cache(maxsize=_FILES_MAX)
def _credentials_of(token_file: str, user: str) -> TokenFileCredentials:
    """One for each file of a process: it looks at the file at each call, and reads it when it has changed."""
    return TokenFileCredentials(Path(token_file), user)
