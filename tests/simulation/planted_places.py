"""Bugs to plant where open watches and connections are counted: kept after the end, taken twice, or by nobody."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Final

from log_tier.access.quotas.open_connections import OpenConnections
from log_tier.access.quotas.quota_keeper import QuotaHold, QuotaKeeper
from log_tier.model.errors import Overloaded
from router.endpoints.resp.connection.admission import Admission
from simulation.planted import Patches

__all__ = ["PLANTED_IN_PLACES", "PLANTED_IN_RESP_PLACES"]


def _is_left() -> bool:
    """Has the caller gone whose stream this task serves?"""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _left_keeps() -> Patches:
    inner = QuotaHold.release

    def release(self: QuotaHold, *how: Any) -> None:
        if not (self._opened and _is_left()):
            inner(self, *how)

    return [(QuotaHold, "release", release)]


def _ended_keeps() -> Patches:
    inner = QuotaHold.release

    def release(self: QuotaHold, *how: Any) -> None:
        if not self._opened or _is_left():
            inner(self, *how)

    return [(QuotaHold, "release", release)]


def _only_the_user_gets_it_back() -> Patches:
    inner = QuotaKeeper.close_stream

    def close_stream(self: QuotaKeeper, opened: Sequence[tuple[str, Any]]) -> None:
        inner(self, [each for each in opened if each[0].startswith("user:")])

    return [(QuotaKeeper, "close_stream", close_stream)]


def _taken_twice() -> Patches:
    inner = QuotaKeeper.hold

    def hold(self: QuotaKeeper, *args: Any, **words: Any) -> Any:
        held = inner(self, *args, **words)
        if held is not None and held._opened:
            for each in held._opened:
                self._open[each] += 1
            held._opened = (*held._opened, *held._opened)
        return held

    return [(QuotaKeeper, "hold", hold)]


def _refused_takes_a_place() -> Patches:
    inner = QuotaKeeper.hold

    def hold(self: QuotaKeeper, caller: Any, tables: Sequence[str], size: Any, **words: Any) -> Any:
        try:
            return inner(self, caller, tables, size, **words)
        except Overloaded:
            if (stream := words.get("stream")) is not None:
                for each in self._bounds_of(caller, tables):
                    self._open[each.subject, stream] = self._open.get((each.subject, stream), 0) + 1
            raise

    return [(QuotaKeeper, "hold", hold)]


def _tables_are_not_counted() -> Patches:
    inner = QuotaKeeper.hold

    def hold(self: QuotaKeeper, caller: Any, tables: Sequence[str], *args: Any, **words: Any) -> Any:
        return inner(self, caller, () if words.get("stream") else tables, *args, **words)

    return [(QuotaKeeper, "hold", hold)]


def _broken_connection_keeps() -> Patches:
    def end(self: Admission) -> None:
        self.close()
        self._has_ended = True

    return [(Admission, "end", end)]


def _user_before_keeps() -> Patches:
    inner = Admission._count_for

    def count_for(self: Admission, user: str) -> None:
        if user:
            self._counted_for = ""
        inner(self, user)

    return [(Admission, "_count_for", count_for)]


def _refused_proof_takes_a_place() -> Patches:
    inner = OpenConnections.join

    def join(self: OpenConnections, user: str) -> None:
        try:
            inner(self, user)
        except Overloaded:
            self._add(user)
            raise

    return [(OpenConnections, "join", join)]


def _one_more_is_let_in() -> Patches:
    inner = OpenConnections._check

    def check(self: OpenConnections, user: str, now_s: float) -> None:
        if self.count(user) != self._bound_of(user):
            inner(self, user, now_s)

    return [(OpenConnections, "_check", check)]


def _only_watches_take_places() -> Patches:
    inner = QuotaKeeper.hold

    def hold(self: QuotaKeeper, *args: Any, **words: Any) -> Any:
        return inner(self, *args, **words | ({"stream": None} if words.get("stream") == "scans" else {}))

    return [(QuotaKeeper, "hold", hold)]


def _watching_peer_is_forgotten() -> Patches:
    return [(OpenConnections, "opened", lambda self, caller, peer: None)]


def _idle_peer_stays() -> Patches:
    return [(OpenConnections, "_forget_idle", lambda self, now_s, most: None)]


def _refused_peer_takes_a_place() -> Patches:
    inner = OpenConnections.called

    def called(self: OpenConnections, caller: Any, peer: str) -> None:
        try:
            inner(self, caller, peer)
        except Overloaded:
            self._add(caller.name)
            raise

    return [(OpenConnections, "called", called)]


def _peers_of_a_process_are_one() -> Patches:
    inner = OpenConnections.called
    return [
        (OpenConnections, "called", lambda self, caller, peer: inner(self, caller, peer.rpartition(":")[0])),
    ]


PLANTED_IN_PLACES: Final[dict[str, Callable[[], Patches]]] = {
    "a watch whose connection is gone keeps its place": _left_keeps,
    "a watch that ends with its table keeps its place": _ended_keeps,
    "a closed watch gives its user the place back and not its table": _only_the_user_gets_it_back,
    "a watch takes its place twice": _taken_twice,
    "a refused watch takes a place": _refused_takes_a_place,
    "a watch takes no place of its table": _tables_are_not_counted,
    "a scan takes no place": _only_watches_take_places,
    "a connection of gRPC that watches is forgotten": _watching_peer_is_forgotten,
    "a connection of gRPC that made no call for long keeps its place": _idle_peer_stays,
    "a refused connection of gRPC takes a place": _refused_peer_takes_a_place,
    "all connections of an address are one": _peers_of_a_process_are_one,
}

PLANTED_IN_RESP_PLACES: Final[dict[str, Callable[[], Patches]]] = {
    "a connection that is gone keeps its place": _broken_connection_keeps,
    "a proof anew takes one more place": _user_before_keeps,
    "a refused proof takes a place": _refused_proof_takes_a_place,
    "a quota of connections lets in one more": _one_more_is_let_in,
}
