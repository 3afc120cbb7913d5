"""What the endpoints of a server report slow calls to."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Any, Final

from log_tier.access.current import CALLER
from log_tier.access.shown_tables import shown_rights
from log_tier.catalog.cluster_map import ClusterMap
from log_tier.concurrency.clocks import SYSTEM_CLOCK, Clock
from log_tier.measures.long_work import LongCommit, LongRequest, LongWork
from log_tier.model.identifiers import PartitionId
from log_tier.rpc.messages.slow_call_sink import CallEnd
from log_tier.slow_calls.call_subject import CALL_KINDS, FIRST_ONLY, key_text_of, subject_of
from log_tier.slow_calls.slow_call import NO_SUBJECT, CallKind, CallSubject, SlowCall
from log_tier.slow_calls.slow_document import slow_document
from log_tier.slow_calls.slow_lines import SlowLines
from log_tier.slow_calls.slow_ring import SlowRing
from log_tier.slow_calls.time_spent import TICK_S, TimeSpent, time_spent

__all__ = ["SLOW_CALL_MS", "SlowCallLog"]

SLOW_CALL_MS: Final = 100
"""The default of the setting `slow_call_ms`: what a person notices."""

_PART: Final = 0.1
"""Work that took this share of the threshold may explain a slow call."""

_PACKAGE: Final = "/duramen.v1."


class SlowCallLog:
    """The slow log of one server. Belongs to its event loop."""

    def __init__(self, threshold_ms: int = SLOW_CALL_MS, *, clock: Clock = SYSTEM_CLOCK) -> None:
        """`threshold_ms`: see `set_threshold`."""
        self.threshold_ms = 0
        self.least_s = inf
        """What endpoints compare with."""
        self.set_threshold(threshold_ms)
        self.now_s = clock.monotonic_s
        """Their clock."""
        self.ring = SlowRing()
        self._clock = clock
        self._lines = SlowLines()
        self._maps: Callable[[], ClusterMap] | None = None
        self._requests: LongWork[LongRequest] | None = None
        self._commits: LongWork[LongCommit] | None = None
        self._is_alone = False

    def set_threshold(self, threshold_ms: int) -> None:
        """From which duration on a call is slow; 0: none is. To be called before anything is measured."""
        self.threshold_ms = threshold_ms
        self.least_s = threshold_ms / 1000 if threshold_ms else inf

    def know(
        self,
        *,
        maps: Callable[[], ClusterMap] | None = None,
        requests: LongWork[LongRequest] | None = None,
        commits: LongWork[LongCommit] | None = None,
        is_alone: bool = False,
    ) -> None:
        """Use the catalog for names, and what the data plane and the log of this process note, which they do from now
        on. What is not given stays as it is. `is_alone`: no other server carries requests.
        """
        self._is_alone |= is_alone
        self._maps = maps or self._maps
        self._requests = requests or self._requests
        self._commits = commits or self._commits
        for work in (requests, commits):
            if work is not None:
                work.least_s = self.least_s * _PART

    def measures(self, method: str) -> bool:
        """Are the calls of a gRPC method measured? By its full name."""
        return method in CALL_KINDS

    def measures_later(self, method: str) -> bool:
        """Of a stream: its later messages too?"""
        return method not in FIRST_ONLY

    def subject_at(self, place: PartitionId, key: bytes | None) -> CallSubject:
        """What a call is about that names a partition itself. `key`: the beginning of its first one."""
        entry = None if self._maps is None else self._maps().tables.get(place.table)
        if entry is None or not 0 <= place.partition < entry.partitions:
            return NO_SUBJECT
        return CallSubject(entry.name, [place], key)

    def ran(
        self,
        what: str,
        kind: CallKind,
        subject: Callable[[], CallSubject],
        began_s: float,
        outcome: CallEnd,
        *,
        user: str,
        peer: str,
        client: str,
    ) -> None:
        """A command of the Redis protocol has been answered just now that was slow. `subject`: what it is about, called
        at once where there is room for it. `client`: the name that it gave itself.
        """
        ended_s = self.now_s()
        if not self.ring.admits(ended_s):
            self._lines.skip()
            return
        self._note("resp", what, kind, subject(), began_s, ended_s, outcome, user=user, peer=peer, client=client)

    def read_elsewhere(
        self, what: str, place: PartitionId, key: bytes, items: int, began_s: float, ended_s: float, *, peer: str
    ) -> None:
        """Another process of this server has answered a slow command of the Redis protocol, and has read all that time.
        `key`: the beginning of its first one. Who called is not known there.
        """
        if not self.ring.admits(ended_s):
            self._lines.skip()
            return
        subject = self.subject_at(place, key)._replace(items=items)
        spent = TimeSpent({"read": ended_s - began_s})
        self._note("resp", what, "read", subject, began_s, ended_s, "done", user="", peer=peer, spent=spent)

    def called(self, method: str, request: Any, peer: str, began_s: float, outcome: CallEnd) -> None:
        """A gRPC call has ended just now that was slow. Called in its task. O(1), some 30 µs."""
        ended_s = self.now_s()
        if not self.ring.admits(ended_s):
            self._lines.skip()
            return
        caller = CALLER.get()
        self._note(
            "grpc",
            method.removeprefix(_PACKAGE),
            CALL_KINDS[method],
            subject_of(request, None if self._maps is None else self._maps()),
            began_s,
            ended_s,
            outcome,
            user="" if caller is None else caller.name,
            peer=peer.removeprefix("ipv4:").removeprefix("ipv6:"),
        )

    def _note(
        self,
        protocol: Any,
        what: str,
        kind: CallKind,
        subject: CallSubject,
        began_s: float,
        ended_s: float,
        outcome: CallEnd,
        *,
        user: str,
        peer: str,
        client: str = "",
        spent: TimeSpent | None = None,
    ) -> None:
        if spent is None:
            since_s = began_s - TICK_S
            commits = None if self._commits is None else self._commits.since(since_s)
            requests = [] if self._requests is None else self._requests.since(since_s)
            spent = time_spent(kind, subject.places, began_s, ended_s, requests, commits, is_alone=self._is_alone)
        call = SlowCall(
            number=self.ring.next_number,
            ended_ms=self._clock.wall_ms(),
            took_s=ended_s - began_s,
            what=what,
            protocol=protocol,
            outcome=outcome,
            subject=subject,
            offset=spent.offset,
            user=user,
            peer=peer,
            parts=spent.parts,
            client=client,
            key_text=key_text_of(subject, None if self._maps is None else self._maps()),
        )
        self.ring.add(call)
        self._lines.write(call, ended_s)

    async def slow_json(self, count: int = 0) -> bytes:
        """The document for the caller of the present task's call. `count`: at most so many calls; 0: all. 1 ms."""
        caller = CALLER.get()
        trust = None if self._maps is None else self._maps().trust
        rights = None if trust is None else shown_rights(trust, caller)
        return slow_document(
            self.ring,
            threshold_ms=self.threshold_ms,
            now_ms=self._clock.wall_ms(),
            rights=rights,
            user="" if caller is None else caller.name,
            count=count,
        )
