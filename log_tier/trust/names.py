"""Names of users and roles. Both share one namespace, so that a grant to a name says who is meant."""

from __future__ import annotations

from log_tier.model.errors import InvalidName
from log_tier.model.identifiers import RESERVED_PREFIX, check_name

__all__ = ["check_trust_name"]


def check_trust_name(name: str, *, what: str = "user") -> str:
    """Return `name` if it can name a user or a role; raise `InvalidName` otherwise. `what`: `user` or `role`."""
    check_name(name, what=what)
    if name.startswith(RESERVED_PREFIX):
        raise InvalidName(f"names that begin with {RESERVED_PREFIX} are Duramen's own; {name!r} cannot name a {what}")
    return name
