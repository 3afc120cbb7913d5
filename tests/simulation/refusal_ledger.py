"""Which calls of gRPC the servers of a simulated cluster have refused, and what their audit must hold of them.

The network says how each call ended at its server, which is when the server notes it. A row of the audit is for one
event or for many, so sums are compared. A call without a proof that counts is noted as a login, or by its method where
the proof counted once. A stream that was refused may have been let in before, and is not counted as refused then.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

import grpc

from duramen.testing.machine.simulated_network import CallAnswer
from log_tier.access.authenticator import read_basic
from log_tier.access.tokens import read_token
from log_tier.rpc.credentials import AUTHORIZATION
from simulation.access_ledger import is_of_redis

__all__ = ["RefusalLedger"]

_PACKAGE: Final = "/duramen.v1."
_LOGIN: Final = "login"
_DENIED: Final = grpc.StatusCode.PERMISSION_DENIED
_UNPROVED: Final = grpc.StatusCode.UNAUTHENTICATED
_SLOWED: Final = grpc.StatusCode.RESOURCE_EXHAUSTED


class _Caller(NamedTuple):
    server: str
    user: str


class RefusalLedger:
    """Counts what was refused, by server, user and action."""

    def __init__(self) -> None:
        self._denied: Counter[tuple[_Caller, str]] = Counter()
        """For want of a right, by the action's name in the audit."""
        self._unproved: Counter[_Caller] = Counter()
        self._streams: Counter[_Caller] = Counter()
        """Streams that were refused, or ended."""
        self._by_password: set[str] = set()
        """Users who come and go: their name is noted as long as they are there. They count as nobody."""

    def answered(self, answer: CallAnswer) -> None:
        """A server has ended a call."""
        if answer.code not in (_DENIED, _UNPROVED, _SLOWED):
            return
        header = next((value for key, value in answer.metadata if key == AUTHORIZATION), "")
        scheme, _, rest = header.rpartition(" ")
        has_password = scheme == "Basic"
        if answer.code is _SLOWED and not has_password:
            return  # by a quota, which no audit notes
        proof = None if has_password else read_token(rest)
        if has_password:
            self._by_password.add(read_basic(rest)[0])
        caller = _Caller(answer.server, "" if proof is None else proof.user)
        if answer.is_stream:
            self._streams[caller] += 1
        elif answer.code is _DENIED:
            self._denied[caller, answer.method.removeprefix(_PACKAGE)] += 1
        else:
            self._unproved[caller] += 1

    @property
    def count(self) -> int:
        """How many calls were refused."""
        return self._denied.total() + self._unproved.total()

    def difference(self, rows: Iterable[Mapping[str, Any]], lives: Mapping[str, int]) -> str:
        """Where the audit's rows are not what was refused; empty: nowhere. `lives`: how many each server has had. One
        that has ended may have taken with it what it had not written.
        """
        noted: Counter[tuple[_Caller, str]] = Counter()
        lost: set[str] = set()
        for row in rows:
            if row["kind"] == "lost":
                lost.add(row["server"])
            if row["result"] == "refused" and not is_of_redis(row):
                user = "" if row["user"] in self._by_password else row["user"]
                noted[_Caller(row["server"], user), row["action"]] += row["count"]
        for caller, action in sorted({*noted, *self._denied}):
            denied, found = self._denied[caller, action], noted[caller, action]
            if found > denied + self._unproved[caller] + self._streams[caller]:
                return f"{caller} was refused {action} {denied} times, and the audit has {found}"
            if found < denied and lives[caller.server] == 1 and caller.server not in lost:
                return f"{caller} was refused {action} {denied} times, and the audit has only {found}"
        for caller in {caller: None for caller, _ in noted} | dict.fromkeys(self._unproved):
            refused = self._unproved[caller] + sum(count for (each, _), count in self._denied.items() if each == caller)
            found = sum(count for (each, _), count in noted.items() if each == caller)
            if found > refused + self._streams[caller]:
                return f"{caller} was refused {refused} times, and the audit has {found}"
            if found < refused and lives[caller.server] == 1 and caller.server not in lost:
                return f"{caller} was refused {refused} times, and the audit has only {found}"
        return ""
