"""What the guard of a gRPC server notes of its calls, for the audit.

Always: logins (a password or token that proves nothing, and the first call of a connection by one that does), refused
calls, calls that need `admin` on a table or on everything, and changes of users; but a list that somebody asks for
again and again (`_LISTS`) once a minute. Reads and writes of the tables that the settings choose. Calls of the
cluster's servers are part of a call that somebody made elsewhere, and are not noted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from log_tier.access.authenticator import claimed_user
from log_tier.access.demand_parts import DemandPart, parts_of
from log_tier.access.demands import BatchDemand, Demand, KeyDemand, RangeDemand
from log_tier.access.gate import Gate
from log_tier.audit.audit_event import AuditResult, event_of
from log_tier.audit.audit_trail import AuditTrail
from log_tier.audit.request_text import request_text
from log_tier.model.errors import DuramenError, Overloaded
from log_tier.model.identifiers import Offset
from log_tier.trust.caller import Caller

__all__ = ["LISTED_MAX", "USERS_SERVICE", "Answered", "CallAudit", "address_of"]

Answered = Callable[[AuditResult], None]
"""To be called when a command was answered, with what became of it."""

USERS_SERVICE: Final = "/duramen.v1.Users/"
"""Its methods change users, roles, grants and quotas, but for three."""
_QUESTIONS: Final = frozenset(USERS_SERVICE + name for name in ("ListUsers", "ListQuotas", "WhoAmI"))

_PACKAGE: Final = "/duramen.v1."

_LISTS: Final = frozenset(
    f"{_PACKAGE}{name}"
    for name in (
        "Admin/Nodes",
        "Admin/Partitions",
        "Admin/Lag",
        "Admin/Snapshots",
        "Admin/Versions",
        "Admin/AuditData",
        "Admin/Jobs",
        "Admin/Job",
        "Admin/Changes",
        "Admin/Healing",
        "Users/ListUsers",
        "Users/ListQuotas",
    )
)
"""Questions that show no key and change nothing, which a page of the console asks every few seconds."""
_LISTED_S: Final = 60.0
"""One that is asked again by the same user from the same address is noted once in so long."""
LISTED_MAX: Final = 10_000

# Connections whose proof was noted. One that is forgotten is noted again.
_CONNECTIONS_MAX: Final = 10_000


def address_of(peer: str) -> str:
    """The host of a peer in gRPC's words: `ipv4:127.0.0.1:5000` gives `127.0.0.1`."""
    return peer.rpartition(":")[0].removeprefix("ipv4:").removeprefix("ipv6:")


class CallAudit:
    """Notes what happens to the calls of one server. Belongs to one event loop."""

    def __init__(self, trail: AuditTrail, gate: Gate) -> None:
        self._trail = trail
        self._gate = gate
        self._connections: dict[str, tuple[str, str]] = {}
        """User and credential of the last proof, by peer."""
        self._listed: dict[tuple[str, ...], float] = {}
        """When a question was noted last, in the order of that."""
        self.quiet: frozenset[type[Demand]] = frozenset(
            () if trail.settings.chooses else (KeyDemand, RangeDemand, BatchDemand)
        )
        """Demands of calls that need not be looked at when they are allowed."""

    def proved(self, caller: Caller, peer: str) -> None:
        """A connection has proved who it is. 0.2 µs for one that has done so before."""
        proof = (caller.name, caller.credential)
        if self._connections.get(peer) == proof or caller.proof == "server":
            return
        if len(self._connections) >= _CONNECTIONS_MAX:
            del self._connections[next(iter(self._connections))]
        self._connections[peer] = proof
        self._trail.note(
            event_of(caller, "login", "allowed", address=address_of(peer), action="login", version=self._gate.version)
        )

    def not_proved(self, nobody: Caller, header: str, peer: str, error: DuramenError) -> None:
        """A header proved nothing. Its name is noted where a user has it: others may be passwords."""
        name = claimed_user(header)
        detail = "too many logins failed before" if isinstance(error, Overloaded) else "the proof is none"
        event = event_of(
            nobody,
            "login",
            "refused",
            address=address_of(peer),
            action="login",
            detail=detail,
            version=self._gate.version,
        )
        self._trail.note(event._replace(user=name if name in self._gate.trust.users else ""))

    def refused(
        self, method: str, caller: Caller, demand: Demand, peer: str, error: DuramenError, *, ended: bool = False
    ) -> None:
        """A call was refused, or a stream `ended` that had been allowed."""
        kind, table, key = next(parts_of(demand, with_keys=True, keys_in=self._gate.keys_in_rows), ("call", "", ""))
        if method.startswith(USERS_SERVICE) and method not in _QUESTIONS:
            kind = "change"
        # What is missing, in few words; for a proof that does not count any more, the reason.
        detail = demand.lacks(caller.rights) if caller.proof != "nothing" else ""
        self._trail.note(
            event_of(
                caller,
                kind,
                "ended" if ended else "refused",
                address=address_of(peer),
                action=method.removeprefix(_PACKAGE),
                table=table,
                key=key,
                detail=f"what is missing is {detail!r}" if detail else error.message if caller.name else "no proof",
                version=self._gate.version,
            )
        )

    def allowed(
        self, method: str, request: Any, caller: Caller, demand: Demand, peer: str, version: Offset, *, is_stream: bool
    ) -> Answered | None:
        """A call was allowed whose demand is not of a quiet kind. Returns what the guard calls when it was answered."""
        if caller.proof == "server":
            return None
        is_change = method.startswith(USERS_SERVICE) and method not in _QUESTIONS
        command: DemandPart | None = ("change", "", "") if is_change else None
        chosen: list[DemandPart] = []
        keys_in = self._gate.keys_in_rows if self._trail.settings.chooses else None
        for part in parts_of(demand, with_keys=self._trail.settings.chooses, keys_in=keys_in):
            if part[0] == "admin":
                command = command or part
            elif part[1] and self._trail.settings.is_chosen(part[0], part[1]):
                chosen.append(part)
        for kind, table, key in chosen:
            self._trail.note(
                event_of(
                    caller,
                    kind,
                    "allowed",
                    address=address_of(peer),
                    action=method.removeprefix(_PACKAGE),
                    table=table,
                    key=key,
                    version=version,
                )
            )
        if command is None:
            return None
        address, text = address_of(peer), request_text(request)

        def answered(result: AuditResult) -> None:
            if not self._gate.is_closed:
                return  # there is no user yet, and so no audit
            if result in ("done", "allowed") and method in _LISTS and self._was_noted(caller, address, method, text):
                return
            kind, table, _ = command
            self._trail.note(
                event_of(
                    caller,
                    kind,
                    result,
                    address=address,
                    action=method.removeprefix(_PACKAGE),
                    table=table,
                    detail=text,
                    version=version,
                    offset=self._gate.version,
                )
            )

        if is_stream:
            answered("allowed")
            return None
        return answered

    def _was_noted(self, caller: Caller, *question: str) -> bool:
        """Was the same question noted a short time ago? If not, it is from now on."""
        now_s, key = self._trail.clock.monotonic_s(), (caller.name, caller.credential, *question)
        noted_s = self._listed.get(key)
        if noted_s is not None and now_s - noted_s < _LISTED_S:
            return True
        self._listed.pop(key, None)
        if len(self._listed) >= LISTED_MAX:
            del self._listed[next(iter(self._listed))]
        self._listed[key] = now_s
        return False
