"""What is noted of calls that are asked again and again: a list once a minute, everything else each time."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from kit.set_clock import HandClock

from log_tier.access import call_audit
from log_tier.access.call_audit import CallAudit
from log_tier.access.demands import CLUSTER_ADMIN
from log_tier.audit.audit_event import AuditEvent, AuditResult
from log_tier.audit.audit_settings import AuditSettings
from log_tier.trust.caller import Caller
from log_tier.trust.rights import NO_RIGHTS
from router.proto import admin_pb2 as pb

ROOT = Caller("root", "token", NO_RIGHTS, "t1")


class KeptEvents:
    """A trail that keeps what it is given."""

    def __init__(self) -> None:
        self.settings = AuditSettings()
        self.clock = HandClock()
        self.events: list[AuditEvent] = []
        trail: Any = self
        gate: Any = SimpleNamespace(is_closed=True, version=3)
        self.audit = CallAudit(trail, gate)

    def note(self, event: AuditEvent) -> None:
        self.events.append(event)

    def asked(
        self,
        method: str,
        request: Any,
        *,
        caller: Caller = ROOT,
        peer: str = "127.0.0.1:5000",
        result: AuditResult = "done",
        seconds: float = 3,
    ) -> int:
        """How many events there are after one more call, `seconds` after the one before."""
        self.clock.seconds += seconds
        answered = self.audit.allowed(method, request, caller, CLUSTER_ADMIN, peer, 3, is_stream=False)  # type: ignore[arg-type]
        assert answered is not None
        answered(result)
        return len(self.events)


def test_a_list_is_noted_once_a_minute_for_each_user_address_and_question() -> None:
    noted, lists = KeptEvents(), "/duramen.v1.Admin/Partitions"
    assert [noted.asked(lists, pb.AdminTableRequest()) for _ in range(20)] == [1] * 20
    assert noted.asked(lists, pb.AdminTableRequest()) == 2, "a minute after the first"
    assert noted.asked(lists, pb.AdminTableRequest(table="orders")) == 3
    assert noted.asked(lists, pb.AdminTableRequest(), peer="10.0.0.9:1") == 4
    assert noted.asked(lists, pb.AdminTableRequest(), peer="10.0.0.9:2") == 4, "another connection of that one"
    assert noted.asked(lists, pb.AdminTableRequest(), caller=Caller("root", "token", NO_RIGHTS, "t2")) == 5
    assert noted.asked(lists, pb.AdminTableRequest(), result="failed") == 6
    assert noted.asked(lists, pb.AdminTableRequest(), result="failed") == 7


def test_what_changes_something_or_shows_a_key_is_noted_each_time() -> None:
    noted = KeptEvents()
    explain = pb.AdminExplainRequest(table="orders", key=b"k")
    assert [noted.asked("/duramen.v1.Admin/Explain", explain, seconds=0) for _ in range(3)] == [1, 2, 3]
    start = pb.AdminStartRequest(dry_run=True)
    assert [noted.asked("/duramen.v1.Admin/Start", start, seconds=0) for _ in range(3)] == [4, 5, 6]


def test_what_it_remembers_of_lists_is_bounded(monkeypatch: Any) -> None:
    monkeypatch.setattr(call_audit, "LISTED_MAX", 3)
    noted, lists = KeptEvents(), "/duramen.v1.Admin/Lag"
    for number in range(5):
        assert noted.asked(lists, pb.AdminTableRequest(table=f"t{number}"), seconds=0) == number + 1
    assert noted.asked(lists, pb.AdminTableRequest(table="t4"), seconds=0) == 5
    assert noted.asked(lists, pb.AdminTableRequest(table="t0"), seconds=0) == 6, "forgotten, and so noted again"
