"""The commands that change users, roles and grants. Their bytes are those of every command of the catalog.

`seen` is the version of the map by which the sender decided. A command that comes later than the fold remembers
commands by their ids is refused: recorded bytes that are appended again change nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from log_tier.model.identifiers import Offset

__all__ = [
    "TRUST_COMMANDS",
    "AddRole",
    "AddToken",
    "AddUser",
    "AssignRole",
    "GrantRights",
    "RemoveRole",
    "RemoveUser",
    "RevokeRights",
    "RevokeToken",
    "SetPassword",
    "SetQuota",
    "TrustCommand",
    "UnassignRole",
]


@dataclass(frozen=True, slots=True)
class AddUser:
    """A new user. The first one must have `admin *`: nobody else could grant anything."""

    user: str
    seen: Offset
    password: str = field(default="", repr=False)
    """The password's hash; empty: none."""
    grants: tuple[str, ...] = ()
    """In the text form of `Grant`."""
    token: str = ""
    """The id of a first token, by which the user can prove itself from the first moment on; empty: none."""
    sha256: str = field(default="", repr=False)
    """Of that token."""
    expires_ms: int = 0
    """When that token expires, in log time; 0: never."""


@dataclass(frozen=True, slots=True)
class RemoveUser:
    """A user goes, with its tokens and grants."""

    user: str
    seen: Offset


@dataclass(frozen=True, slots=True)
class SetPassword:
    """Another password of a user."""

    user: str
    seen: Offset
    password: str = field(repr=False)
    """The password's hash; empty: none from now on."""


@dataclass(frozen=True, slots=True)
class AddToken:
    """A token of a user."""

    user: str
    seen: Offset
    token: str
    """The token's id, which is no secret."""
    sha256: str = field(repr=False)
    expires_ms: int = 0
    """In log time; 0: never."""


@dataclass(frozen=True, slots=True)
class RevokeToken:
    """A token is void from now on."""

    user: str
    seen: Offset
    token: str


@dataclass(frozen=True, slots=True)
class AddRole:
    """A new role."""

    role: str
    seen: Offset
    grants: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RemoveRole:
    """A role goes; refused while a user has it."""

    role: str
    seen: Offset


@dataclass(frozen=True, slots=True)
class GrantRights:
    """A user or a role gets a grant."""

    to: str
    seen: Offset
    grant: str


@dataclass(frozen=True, slots=True)
class RevokeRights:
    """A user or a role loses a grant, which is named as it was granted."""

    to: str
    seen: Offset
    grant: str


@dataclass(frozen=True, slots=True)
class AssignRole:
    """A user gets a role."""

    user: str
    seen: Offset
    role: str


@dataclass(frozen=True, slots=True)
class UnassignRole:
    """A user loses a role."""

    user: str
    seen: Offset
    role: str


@dataclass(frozen=True, slots=True)
class SetQuota:
    """The quota of a user or of tables from now on, in place of the one that it had. All bounds 0: none. One that is as
    it was changes nothing.
    """

    subject: str
    """`user:NAME`, `table:NAME` or `table:PREFIX*`."""
    seen: Offset
    calls_s: int = 0
    bytes_in_s: int = 0
    bytes_out_s: int = 0
    scans: int = 0
    watches: int = 0
    connections: int = 0


TrustCommand = (
    AddUser
    | RemoveUser
    | SetPassword
    | AddToken
    | RevokeToken
    | AddRole
    | RemoveRole
    | GrantRights
    | RevokeRights
    | AssignRole
    | UnassignRole
    | SetQuota
)

TRUST_COMMANDS: Final[Mapping[str, type[TrustCommand]]] = {
    "add-user": AddUser,
    "remove-user": RemoveUser,
    "set-password": SetPassword,
    "add-token": AddToken,
    "revoke-token": RevokeToken,
    "add-role": AddRole,
    "remove-role": RemoveRole,
    "grant": GrantRights,
    "revoke": RevokeRights,
    "assign-role": AssignRole,
    "unassign-role": UnassignRole,
    "set-quota": SetQuota,
}
"""The commands by their name on the log."""
