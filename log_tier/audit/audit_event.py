"""One event of the audit. Immutable, and without a secret."""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

from log_tier.trust.caller import Caller, Proof

__all__ = ["TEXT_MAX", "AuditEvent", "AuditKind", "AuditResult", "event_of"]

AuditKind = Literal["login", "read", "write", "admin", "change", "call", "lost"]
"""What was asked for. `change`: of users, roles or grants. `call`: what belongs to no table and no administration.
`lost`: events for which the queue had no room.
"""

AuditResult = Literal["allowed", "refused", "ended", "done", "failed", "unanswered", "lost"]
"""What became of it. `ended`: a stream whose right was taken away. `done`, `failed`, `unanswered` (the caller went
away): of an allowed command, when it was answered.
"""

TEXT_MAX: Final = 200
"""Characters of each text of an event. A table's name has at most 120; a caller may send any length."""


class AuditEvent(NamedTuple):
    """What happened. Who notes it gives no secret: no password, token, hash, value, and no name that is no user's."""

    kind: AuditKind
    result: AuditResult
    user: str = ""
    """Empty: nobody. A failed login has the name that was claimed, if there is such a user, and the proof `nothing`."""
    proof: Proof = "nothing"
    credential: str = ""
    """The id of the token that proved the user; empty for other proofs."""
    address: str = ""
    """From where, without the port."""
    action: str = ""
    """`KV/Get`, or a command of the Redis protocol."""
    table: str = ""
    key: str = ""
    """What all keys of the call begin with, as `--key` of a grant takes it; empty: all keys, or none."""
    detail: str = ""
    """For people: the grant that was missing, the arguments of a command."""
    version: int = -1
    """The version of the catalog by which it was decided."""
    offset: int = -1
    """The version of the catalog when a command was answered: its change is at this offset, or between `version` and
    it where others changed something meanwhile. -1: no command."""

    def trimmed(self) -> AuditEvent:
        """The event with texts of at most `TEXT_MAX` characters."""
        if max(len(self.table), len(self.key), len(self.detail), len(self.action), len(self.address)) <= TEXT_MAX:
            return self
        return self._replace(
            address=self.address[:TEXT_MAX],
            action=self.action[:TEXT_MAX],
            table=self.table[:TEXT_MAX],
            key=self.key[:TEXT_MAX],
            detail=self.detail[:TEXT_MAX],
        )


def event_of(
    caller: Caller,
    kind: AuditKind,
    result: AuditResult,
    *,
    address: str,
    action: str,
    table: str = "",
    key: str = "",
    detail: str = "",
    version: int = -1,
    offset: int = -1,
) -> AuditEvent:
    """An event of a caller that proved itself, or of nobody."""
    # What a proof by password is good by is the password's hash.
    credential = caller.credential if caller.proof == "token" else ""
    return AuditEvent(
        kind, result, caller.name, caller.proof, credential, address, action, table, key, detail, version, offset
    )
