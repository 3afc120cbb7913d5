"""What users did that the audit must hold besides refused calls: calls on an audited table, streams, and commands of
the Redis protocol that were refused, or that did something to an audited table.

Each is known for certain, or may be: a call that ended with an error may have been let in before, and a command whose
reply was lost may have been refused. So the sum of an audit's counts lies between two bounds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal, NamedTuple

import grpc

from duramen.testing.machine.simulated_network import CallAnswer
from log_tier.access.tokens import read_token
from log_tier.audit.audit_settings import AuditSettings
from log_tier.rpc.credentials import AUTHORIZATION

__all__ = ["AUDITED", "AUDITED_KEYS", "AUDITED_TABLES", "KEYS_TABLE", "AccessLedger", "Right", "is_of_redis"]

Right = Literal["read", "write"]

AUDITED: Final = "shared"
KEYS_TABLE: Final = "db1"
"""That users of the Redis protocol select."""
AUDITED_TABLES: Final = AuditSettings(reads=(AUDITED,), writes=(AUDITED,))
AUDITED_KEYS: Final = AuditSettings(reads=(AUDITED, KEYS_TABLE), writes=(AUDITED, KEYS_TABLE))
"""The same where there are endpoints of the Redis protocol."""
_PACKAGE: Final = "/duramen.v1."
_SINGLE: Final = ("KeyValue/Read", "KeyValue/Write")
_STREAMS: Final = ("KeyValue/Watch", "KeyValue/Scan")
_METHODS: Final = (*_SINGLE, *_STREAMS)
_ENDED: Final = (grpc.StatusCode.PERMISSION_DENIED, grpc.StatusCode.UNAUTHENTICATED)
_REFUSED: Final = (*_ENDED, grpc.StatusCode.RESOURCE_EXHAUSTED)
_COMMANDS: Final = "commands of the Redis protocol"


class _Kind(NamedTuple):
    server: str
    user: str
    what: str
    """A method that was let in, refused commands, or what commands of a name did: `read by get`."""


class AccessLedger:
    """Counts by server, user and what it was."""

    def __init__(self) -> None:
        self._certain: Counter[_Kind] = Counter()
        self._perhaps: Counter[_Kind] = Counter()
        self._callers: set[str] = set()
        """Users all of whose calls of these methods are about the audited table."""
        self._senders: set[str] = set()
        """Users of whose commands every reply is looked at."""

    def only_calls(self, user: str) -> None:
        """A user reads and writes no other table."""
        self._callers.add(user)

    def answered(self, answer: CallAnswer) -> None:
        """A server has ended a call of gRPC."""
        method = answer.method.removeprefix(_PACKAGE)
        header = next((value for key, value in answer.metadata if key == AUTHORIZATION), "")
        proof = read_token(header.rpartition(" ")[2])
        if proof is None or proof.user not in self._callers:
            return
        kind = _Kind(answer.server, proof.user, method)
        if method in _STREAMS:
            (self._certain if answer.sent else self._perhaps)[kind] += 1
        elif method == "KeyValue/Read" and answer.code in _ENDED:
            self._perhaps[kind] += 1  # it may have waited when the right to it, or its token, ended
        elif method in _SINGLE and answer.code not in _REFUSED:
            (self._certain if answer.code is grpc.StatusCode.OK else self._perhaps)[kind] += 1

    def commanded(self, server: str, user: str, *, refused: int, perhaps: int) -> None:
        """Of commands of the Redis protocol so many were refused for want of a right, and so many may have been."""
        self._senders.add(user)
        kind = _Kind(server, user, _COMMANDS)
        self._certain[kind] += refused
        self._perhaps[kind] += perhaps

    def did(self, server: str, user: str, command: str, rights: Iterable[Right], *, is_certain: bool) -> None:
        """A command on keys of the audited table has run, or may have."""
        for right in rights:
            (self._certain if is_certain else self._perhaps)[_Kind(server, user, f"{right} by {command}")] += 1

    @property
    def count(self) -> Counter[str]:
        """How much there is for certain, by what it was."""
        found: Counter[str] = Counter()
        for kind, count in self._certain.items():
            found[kind.what] += count
        return found

    def difference(self, rows: Iterable[Mapping[str, Any]], lives: Mapping[str, int]) -> str:
        """Where the audit's rows lie outside the bounds; empty: nowhere. See `RefusalLedger.difference`."""
        noted: Counter[_Kind] = Counter()
        lost: set[str] = set()
        for row in rows:
            if row["kind"] == "lost":
                lost.add(row["server"])
            elif row["result"] == "allowed" and row["action"] in _METHODS and row["user"] in self._callers:
                noted[_Kind(row["server"], row["user"], row["action"])] += row["count"]
            elif row["result"] == "allowed" and is_of_redis(row) and row["table"] == KEYS_TABLE:
                if row["user"] in self._senders and row["action"] != "select":
                    noted[_Kind(row["server"], row["user"], f"{row['kind']} by {row['action']}")] += row["count"]
            elif row["result"] == "refused" and is_of_redis(row) and row["action"] != "login":
                noted[_Kind(row["server"], row["user"], _COMMANDS)] += row["count"]
        for kind in sorted({*noted, *self._certain}):
            if kind.what == _COMMANDS and kind.user not in self._senders:
                continue
            least, most, found = self._certain[kind], self._certain[kind] + self._perhaps[kind], noted[kind]
            if found > most:
                return f"{kind} happened {most} times at most, and the audit has {found}"
            if found < least and lives[kind.server] == 1 and kind.server not in lost:
                return f"{kind} happened {least} times at least, and the audit has only {found}"
        return ""


def is_of_redis(row: Mapping[str, Any]) -> bool:
    """Is a row about a connection of the Redis protocol? The simulated wire has an address of its own."""
    return bool(row["address"] == "simulated")
