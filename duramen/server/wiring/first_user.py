"""The first user: in the catalog before a server answers anybody, with its token in a file before that.

    token minted ──▶ file, 0600, synced ──▶ one command of the catalog: user, grants, token ──▶ the port answers

A crash between two of these steps loses nothing: at the next start the file's token is taken. Two servers that begin at
once make one user; the file of the one whose token is not the user's is removed again.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from duramen.server.wiring.server_certificates import ServerCertificates
from log_tier.access.tokens import ReadToken, mint_token, read_token
from log_tier.catalog.catalog import Catalog
from log_tier.model.errors import CommandRejected, InvalidRequest
from log_tier.privacy.secret_files import read_secret_file, write_secret_file
from log_tier.trust.names import check_trust_name
from log_tier.trust.trust_commands import AddUser

__all__ = [
    "FIRST_USER_VARIABLE",
    "NO_POLICY",
    "FirstUser",
    "FirstUserResult",
    "UserPolicy",
    "handed_first_user",
    "kept_token",
    "settle_cluster_users",
    "settle_users",
]

logger = logging.getLogger(__name__)

FirstUserResult = Literal["made", "there", ""]
"""`made`: at this start; `there`: the catalog had users, so nothing was done; empty: nobody asked for a first user."""

FIRST_USER_VARIABLE: Final = "DURAMEN_FIRST_USER"
"""The environment variable by which `duramen up --nodes` hands the first user's name, and the id and SHA-256 of its
token, to its processes."""

_GRANTS: Final = ("read,write,admin *",)
"""The first user may do everything, and grants others what they may do."""


@dataclass(frozen=True, slots=True)
class FirstUser:
    """Who becomes the first user of a cluster without users, and the file for its token, or what is known of a token
    that another process keeps.
    """

    name: str
    token_file: Path | None = None
    token: ReadToken | None = None

    def __post_init__(self) -> None:
        check_trust_name(self.name)
        assert (self.token_file is None) is not (self.token is None), "a first user has a file or a token"

    def handed(self) -> str:
        """For `FIRST_USER_VARIABLE`: nothing of it is a secret."""
        assert self.token is not None, "the token is in a file of this process"
        return f"{self.name}:{self.token.id}:{self.token.sha256}"


def handed_first_user() -> FirstUser | None:
    """The first user that the process which started this one hands on; None: none."""
    given = os.environ.get(FIRST_USER_VARIABLE)
    if not given:
        return None
    name, token_id, sha256 = given.split(":")
    return FirstUser(name, token=ReadToken(name, token_id, sha256))


@dataclass(frozen=True, slots=True)
class UserPolicy:
    """What a server demands of the catalog's users before it answers."""

    first: FirstUser | None = None
    are_needed: bool = False
    """Other machines reach the server, so there must be users."""


NO_POLICY: Final = UserPolicy()


async def settle_users(catalog: Catalog, policy: UserPolicy) -> FirstUserResult:
    """Make the first user, where one is asked for and there is none. To be called before the server answers.

    Raises `InvalidRequest` where users are needed and there are none, and for a token file that cannot be used.
    """
    if policy.first is not None:
        return await _make_first(catalog, policy.first)
    if policy.are_needed and not catalog.map.trust.is_closed:
        raise InvalidRequest(
            "other machines reach this server, and it has no users, so everybody there would read and write all of it: "
            "make the first one with `--first-user admin --token-file admin.token` (of `duramen serve`: the settings "
            "first_user and first_user_token_file), or say --insecure"
        )
    return ""


async def settle_cluster_users(
    catalog: Catalog, policy: UserPolicy, certificates: ServerCertificates | None
) -> FirstUserResult:
    """`settle_users` for one server of several. Also raises `InvalidRequest` where the cluster has users, or is to get
    one, and this server has no certificate: it could prove to none of the others that it is a server.
    """
    if certificates is None and policy.first is not None:
        raise InvalidRequest(
            "a cluster with users needs certificates, by which its servers prove themselves to each other: `duramen "
            "cert init && duramen cert issue server --server HOST,…`, then --certs certs"
        )
    if certificates is None and catalog.map.trust.is_closed:
        raise InvalidRequest(
            "the cluster has users, and a server without certificates could not prove to the others that it is one: "
            "start it with --certs DIR (`duramen cert init && duramen cert issue server --server HOST,…`)"
        )
    return await settle_users(catalog, policy)


async def _make_first(catalog: Catalog, first: FirstUser) -> FirstUserResult:
    if catalog.map.trust.is_closed:
        return "there"
    token, is_new = await asyncio.to_thread(kept_token, first)
    try:
        await catalog.submit(
            AddUser(first.name, catalog.map.version, grants=_GRANTS, token=token.id, sha256=token.sha256)
        )
    except CommandRejected:
        cluster = await catalog.refresh()
        if not cluster.trust.is_closed:
            raise
        user = cluster.trust.users.get(first.name)
        held = None if user is None else user.token(token.id)
        if held is None or not hmac.compare_digest(held.sha256, token.sha256):
            if is_new and first.token_file is not None:
                await asyncio.to_thread(first.token_file.unlink)
            return "there"
    return "made"


def kept_token(first: FirstUser) -> tuple[ReadToken, bool]:
    """The token of a first user, and whether it was made just now, and written into its file. Raises `InvalidRequest`
    for a file that cannot be used.
    """
    if first.token is not None:
        return first.token, False
    path = first.token_file
    assert path is not None, "a first user has a file or a token"
    try:
        write_secret_file(path, (minted := mint_token(first.name)).text)
        read = read_token(minted.text)
        assert read is not None, "a token that was just made is none"
        return read, True
    except InvalidRequest:
        if not path.exists():
            raise
        # One is there: of a start that ended before the catalog had its user, or of another server that begins now.
        read = read_token(read_secret_file(path))
    if read is None or read.user != first.name:
        raise InvalidRequest(
            f"{path} is there already and holds no token of {first.name}: name another --token-file; a secret never "
            "replaces another one"
        )
    return read, False
