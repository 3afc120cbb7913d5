"""What users hold open at each server, and when a quota may refuse another one.

A watch, or a scan, takes a place of its user and one of its table, from when its server has let it in until it is over
there; a connection of the Redis protocol takes one of its user, from its proof to its end, or to another user's proof;
one of gRPC from its first call until a while after its last call or the end of its last stream. A client knows these
moments only within bounds: it has its places after the answer has come, and none any more a while after the end was
heard. So a refusal is held against what may have a place at some moment between its question and its answer.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from log_tier.trust.quotas import NO_QUOTA, Quota
from simulation.book import Broken

__all__ = ["GIVEN_BACK_S", "HeldPlace", "Kind", "PlaceLedger"]

Kind = Literal["watches", "scans", "connections"]
"""By the field of a quota that bounds it."""

GIVEN_BACK_S: Final = 0.1
"""A server has heard by then of the end of a connection, and has ended what it served there."""

_SAID: Final = re.compile(r"(user|table):(\S+) has a quota of (\d+) open (watches|scans|connections) at this server")


@dataclass(eq=False)
class HeldPlace:
    """A watch, a scan or a connection that a client has asked for."""

    kind: Kind
    server: str
    life: int
    """Of the server."""
    user: str
    table: str
    """Of a watch or a scan."""
    sent_s: float
    quotas: Mapping[str, Quota] | None
    """Of the server's map when it was asked for; None: it was down."""
    free_s: float = math.inf
    """From then on it has no place for sure."""
    may_be_later: bool = False
    """May it be of a later life of the server? So as long as a connection is made for it."""

    def is_of(self, subject: str) -> bool:
        """Does it take a place of this quota?"""
        if self.kind == "connections":
            return subject == f"user:{self.user}"
        return subject in (f"user:{self.user}", f"table:{self.table}")


class PlaceLedger:
    """Judges each refusal when it is heard. O(what was asked for) for each."""

    def __init__(
        self,
        now_s: Callable[[], float],
        life_of: Callable[[str], int],
        quotas_at: Callable[[str], Mapping[str, Quota] | None],
        met: Counter[str],
    ) -> None:
        """`quotas_at`: those of the map that a server has now. Others, if they have changed; the same ones, if not."""
        self._now_s, self._life_of, self._quotas_at, self._met = now_s, life_of, quotas_at, met
        self._places: list[HeldPlace] = []

    def ask(self, kind: Kind, server: str, user: str, table: str = "") -> HeldPlace:
        """A stream on a table is asked for, or a connection. `closed`, `shared` or `refused` has to follow."""
        place = HeldPlace(kind, server, self._life_of(server), user, table, self._now_s(), self._quotas_at(server))
        self._places.append(place)
        return place

    def closed(self, place: HeldPlace, *, after_s: float = GIVEN_BACK_S) -> None:
        """It is over for both ends: the server has ended it, or the connection is gone. `after_s`: it counts so long
        from now.
        """
        place.free_s = min(place.free_s, self._now_s() + after_s)

    def answered(self, place: HeldPlace) -> None:
        """The server has just answered, on a connection that this place is for."""
        place.life, place.may_be_later = self._life_of(place.server), False

    def shared(self, place: HeldPlace) -> None:
        """It is one that was asked for before."""
        place.free_s = place.sent_s

    def refused(self, place: HeldPlace, words: str) -> None:
        """A quota has refused it. Raises `Broken` where no quota could."""
        place.free_s = place.sent_s
        if place.life != self._life_of(place.server) or place.quotas is not self._quotas_at(place.server):
            self._met["places: refused, not sure"] += 1
            return
        assert place.quotas is not None, "who is down refuses nothing"
        said = _SAID.search(words)
        subject = "" if said is None else f"{said[1]}:{said[2]}"
        bound = getattr(place.quotas.get(subject) or NO_QUOTA, place.kind)
        if said is None or said[4] != place.kind or not place.is_of(subject) or not bound or int(said[3]) != bound:
            raise Broken(
                "bounded", f"{place.server} refused one of the {place.kind} of {place.user} by no quota of now: {words}"
            )
        held = sum(self._may_hold(each, place, subject) for each in self._places)
        if held < bound:
            raise Broken(
                "given back", f"{place.server} has {held} of {bound} {place.kind} of {subject}, and says: {words}"
            )
        self._met[f"places: {place.kind} refused, {said[1]}"] += 1

    def _may_hold(self, each: HeldPlace, asked: HeldPlace, subject: str) -> bool:
        return (
            each is not asked
            and (each.kind, each.server) == (asked.kind, asked.server)
            and (each.life == asked.life or each.may_be_later)
            and each.is_of(subject)
            and each.free_s > asked.sent_s
        )
