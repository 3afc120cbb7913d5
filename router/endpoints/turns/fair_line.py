"""One line for several users, from which each user gets the same share of time, however much work waits for it.

Deficit round robin (Shreedhar and Varghese, 1995), by time in place of bytes. The users stand in a circle. Each visit
gives a user `SHARE_S`; its work is called in order of its arrival until that time is spent. What a piece of work takes
beyond it is a debt, which the user's next visits pay first. A user whose work is done leaves the circle, without what
was left to it, and comes back at its end.

Invariants:

- While any work waits, `first` has some (nothing idles).
- While two users have work waiting, neither gets more than `2 * (SHARE_S + COST_MAX_S)` more than the other.
- The line holds one entry for each piece of work, and one for each user who has some; nothing for others.

It has no clock: who calls the work says what it took.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable
from typing import Final

__all__ = ["COST_MAX_S", "COST_MIN_S", "SHARE_S", "FairLine", "TurnWork"]

TurnWork = Callable[[], float | None]
"""Does its work, or begins it; returns how many seconds the rest of it will take, where it goes on by itself."""

SHARE_S: Final = 0.001
"""Time of a visit: with two users, who comes waits no longer than this and the rest of one piece of work."""

COST_MAX_S: Final = 8 * SHARE_S
"""No piece of work costs more: a connection's turn has 4 ms. It bounds how many visits a debt takes."""

COST_MIN_S: Final = SHARE_S / 64
"""And none costs less, so that work which adds more work cannot stay in front."""


class _User:
    """Whose work waits. Invariant: `work` is not empty while it stands in the circle."""

    __slots__ = ("left_s", "name", "work")

    def __init__(self, name: Hashable) -> None:
        self.name = name
        self.left_s = SHARE_S
        """What is left of its visit; below zero: its debt."""
        self.work: deque[TurnWork] = deque()


class FairLine:
    """Work of several users. Its length is the number of pieces that wait. Every call is O(1): `first` passes by a
    user in debt at most `COST_MAX_S / SHARE_S` times for each piece of its work.
    """

    def __init__(self) -> None:
        self._users: dict[Hashable, _User] = {}
        self._circle: deque[_User] = deque()
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def __contains__(self, user: Hashable) -> bool:
        """Does work of this user wait?"""
        return user in self._users

    def add(self, user: Hashable, work: TurnWork) -> None:
        """Work joins the end of its user's own line."""
        found = self._users.get(user)
        if found is None:
            found = self._users[user] = _User(user)
            self._circle.append(found)
        found.work.append(work)
        self._length += 1

    def first(self) -> TurnWork:
        """The work that is next; it stays until `done`. Raises `IndexError` where none waits."""
        circle = self._circle
        while (user := circle[0]).left_s <= 0:  # its visit is over: its next one begins when it is in front again
            user.left_s += SHARE_S
            circle.rotate(-1)
        return user.work[0]

    def done(self, cost_s: float) -> None:
        """The first work was called, and takes so many seconds. Work may have been added meanwhile."""
        user = self._circle[0]
        user.left_s -= min(max(cost_s, COST_MIN_S), COST_MAX_S)
        user.work.popleft()
        self._length -= 1
        if not user.work:
            self._circle.popleft()
            del self._users[user.name]

    def check(self) -> None:
        """Assert every invariant. O(n)."""
        waiting = sum(len(user.work) for user in self._circle)
        assert self._length == waiting, f"{self._length} pieces are counted, and {waiting} wait"
        circle = {user.name: user for user in self._circle}
        assert circle == self._users, f"{circle.keys()} stand in the circle, and {self._users.keys()} are known"
        assert len(self._circle) == len(self._users), "a user stands in the circle twice"
        for user in self._circle:
            assert user.work, f"{user.name!r} stands in the circle without work"
            assert -COST_MAX_S <= user.left_s <= SHARE_S, f"{user.name!r} has {user.left_s} s"
