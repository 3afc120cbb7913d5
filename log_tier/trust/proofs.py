"""Is what a caller has proved still worth something? Pure, by the users of one map."""

from __future__ import annotations

from log_tier.model.identifiers import Offset
from log_tier.trust.caller import Caller
from log_tier.trust.users import TrustState

__all__ = ["why_void"]


def why_void(trust: TrustState, caller: Caller, version: Offset, wall_ms: int = 0) -> str:
    """Why the proof of a caller who is no server does not count by these users, of this version of the catalog; empty:
    it counts. `wall_ms`: a token that has expired by then does not count; 0: its expiry is not looked at.
    """
    user = trust.users.get(caller.name)
    if caller.proof == "nothing" or user is None:
        return f"{caller} is no user at version {version} of the catalog: give a token or a password"
    if caller.proof == "token":
        token = user.token(caller.credential)
        if token is None:
            return f"the token {caller.credential} of {caller} was revoked: give another one"
        if token.is_void_at(wall_ms):
            return f"the token {caller.credential} of {caller} has expired: give another one"
    elif caller.proof == "password" and caller.credential != user.password:
        return f"the password of {caller} was changed: give the new one"
    return ""
