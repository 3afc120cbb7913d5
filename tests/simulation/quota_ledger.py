"""What users with quotas were answered, held against the quotas that each server's own map had meanwhile.

A caller knows when it sent a call and when it heard the reply, and the server has decided in between. So what was sent
after some moment and heard before another one was decided within these two, and a quota bounds how much of it is let
through. That needs nothing of the product but the text of its refusals.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple

from log_tier.trust.quotas import NO_QUOTA, Quota
from simulation.book import Broken

__all__ = ["Asked", "Outcome", "QuotaLedger", "Reply"]

Outcome = Literal["passed", "refused", "failed", "uncounted"]
"""`refused`: by a quota. `failed`: by something else, so a quota may have let it through. `uncounted`: no quota counts
it, but for the bytes of its reply.
"""

_LATE_S: Final = 30.0
"""What was sent and not answered has arrived by then, or never will."""

# Of sums of floating point numbers.
_ROUNDED: Final = 1e-6

_Place = tuple[str, str]
"""Server, and whose quota: `user:NAME` or `table:NAME`."""
_Quotas = Mapping[str, Quota]


class Reply(NamedTuple):
    """The answer to one call, to one command of a pipeline, or to the commands of a transaction that was let in."""

    outcome: Outcome
    size: int = 0
    """Bytes of the request, or less than it has."""
    reply_size: int = 0
    """Bytes of the reply, or less than it has."""
    wait_s: float = 0.0
    """What a refusal says."""
    words: str = ""
    calls: int = 1
    """That a quota counts: of a transaction, one for each command."""


class Asked(NamedTuple):
    """A request or a pipeline that was sent."""

    place: _Place
    at_s: float
    number: int
    """Of that account."""
    life: int
    quotas: _Quotas | None
    """Of the server's map; None: it was down."""


class _Passed(NamedTuple):
    sent_s: float
    heard_s: float
    reply: Reply


class _Wait(NamedTuple):
    asked: Asked
    over_s: float


@dataclass
class _Account:
    """A user at a server, or all users of a table there."""

    asked: int = 0
    open: int = 0
    refusals: int = 0
    """By quotas, in all."""
    disturbed_s: float = -1.0
    """Until then a call may arrive whose caller has given it up."""
    life: int = 0
    quotas: _Quotas | None = None
    passed: list[_Passed] = field(default_factory=list)
    """In this life, by these quotas."""
    wait: _Wait | None = None
    """Of the last refusal, if nothing of the user came before it was heard."""


class QuotaLedger:
    """Judges each answer when it is heard."""

    def __init__(
        self,
        now_s: Callable[[], float],
        life_of: Callable[[str], int],
        quotas_at: Callable[[str], _Quotas | None],
        broke: Callable[[Broken], None],
        met: Counter[str],
        *,
        table: str,
        is_shared: bool = False,
    ) -> None:
        """`quotas_at`: those of the map that a server has now. Others, if they have changed; the same ones, if not.
        `broke`: called with what does not hold: answers are heard within the product's own calls. `table`: that the
        callers use. `is_shared`: the table has the quota, and its callers share one account; else each user has one.
        """
        self.table, self.is_shared = table, is_shared
        self._now_s, self._life_of, self._quotas_at = now_s, life_of, quotas_at
        self._broke, self._met = broke, met
        self._accounts: dict[_Place, _Account] = {}
        self.keys = 0
        """That were given to writers."""
        self.written: dict[bytes, None] = {}
        """Keys whose write was acknowledged. Each write has a key of its own."""
        self.refused: dict[bytes, str] = {}
        """Keys whose write a quota has refused, and what was said."""

    def _place(self, server: str, user: str) -> _Place:
        return server, f"table:{self.table}" if self.is_shared else f"user:{user}"

    def ask(self, server: str, user: str) -> Asked:
        """Something is sent. `answered`, `came` or `lost` has to follow."""
        place = self._place(server, user)
        account = self._accounts.setdefault(place, _Account())
        account.asked += 1
        account.open += 1
        if account.open > 1:
            account.wait = None
        return Asked(place, self._now_s(), account.asked, self._life_of(server), self._quotas_at(server))

    def came(self, asked: Asked) -> None:
        """It has arrived, and how it was answered is not judged."""
        self._accounts[asked.place].open -= 1

    def lost(self, asked: Asked) -> None:
        """No answer has come, or not a whole one."""
        account = self._accounts[asked.place]
        account.open -= 1
        account.disturbed_s = self._now_s() + _LATE_S

    def cut_short(self, asked: Asked, refusals: Sequence[str], *, is_whole: bool, is_ended: bool) -> None:
        """A quota has refused commands of a transaction: from its first one on, and EXEC is refused with them."""
        if not is_whole:
            self._break("waited", f"{asked.place} was refused in the middle of a transaction: {refusals}")
        if not is_ended:
            self._break("untouched", f"{asked.place} ran a transaction of which a quota has refused {refusals}")

    def refusals_of(self, server: str, user: str) -> int:
        """How often a quota has refused anything of the account there."""
        account = self._accounts.get(self._place(server, user))
        return 0 if account is None else account.refusals

    def wait_of(self, server: str, user: str) -> float | None:
        """When the time is over that the last refusal has named; None: the last answer was none."""
        account = self._accounts.get(self._place(server, user))
        return None if account is None or account.wait is None else account.wait.over_s

    def answered(self, asked: Asked, replies: Sequence[Reply]) -> None:
        """All of it was answered."""
        server, subject = asked.place
        account, now_s = self._accounts[asked.place], self._now_s()
        account.open -= 1
        wait, account.wait = account.wait, None
        refused = [each for each in replies if each.outcome == "refused"]
        account.refusals += len(refused)
        quotas = asked.quotas
        is_sure = quotas is not None and quotas is self._quotas_at(server) and asked.life == self._life_of(server)
        quota = NO_QUOTA if quotas is None else quotas.get(subject) or NO_QUOTA
        for reply in replies:
            known = "not sure" if not is_sure else "a quota" if quota != NO_QUOTA else "no quota"
            self._met[f"{'quotas of tables' if self.is_shared else 'quotas'}: {reply.outcome}, {known}"] += 1
        if not is_sure or quotas is None:
            return
        if refused and (quota == NO_QUOTA or f"{subject} has a quota of " not in refused[0].words):
            has = "no quota" if quota == NO_QUOTA else quota
            self._break("unmetered", f"{server} refused a call of {subject}, which has {has}: {refused[0].words}")
        if (account.life, account.quotas) != (asked.life, quotas) or account.quotas is not quotas:
            account.life, account.quotas, account.passed = asked.life, quotas, []
        if quota != NO_QUOTA:
            for reply in replies:
                if reply.outcome == "passed":
                    self._pass(account, asked, quota, _Passed(asked.at_s, now_s, reply))
        was_alone = account.asked == asked.number and not account.open and account.disturbed_s < asked.at_s
        if was_alone and wait is not None:
            self._judge_wait(asked, wait, replies[0])
        if was_alone and len(refused) == len(replies):
            account.wait = _Wait(asked, now_s + refused[-1].wait_s)

    def _judge_wait(self, asked: Asked, wait: _Wait, first: Reply) -> None:
        """Nothing of the user came while a refusal and this request were under way: was the first of it let through?"""
        before = wait.asked
        if (
            asked.number != before.number + 1
            or asked.life != before.life
            or asked.quotas is not before.quotas
            or asked.at_s < wait.over_s
        ):
            return
        self._met["quotas: waited as told"] += 1
        if first.outcome == "refused":
            late_s = asked.at_s - wait.over_s
            self._break("waited", f"{asked.place} waited {late_s:.4f} s longer than it was told: {first.words}")

    def _pass(self, account: _Account, asked: Asked, quota: Quota, last: _Passed) -> None:
        """Hold what was let through since any moment against what a quota gives. O(what was let through)."""
        passed = account.passed
        passed.append(last)
        for index in range(len(passed) - 1, 0, -1):  # by the time of sending
            if passed[index - 1].sent_s <= passed[index].sent_s:
                break
            passed[index - 1], passed[index] = passed[index], passed[index - 1]
        taken = largest = calls = most = replies = 0
        for each in reversed(passed):
            taken += each.reply.size
            largest = max(largest, each.reply.size)
            calls += each.reply.calls
            most = max(most, each.reply.calls)
            if each.heard_s <= last.sent_s:
                replies += each.reply.reply_size
            seconds = 1 + last.heard_s - each.sent_s
            # What has taken the last of a bucket was the last one to be let through.
            for rate, amount, what in (
                (quota.calls_s, calls - most, "calls"),
                (quota.bytes_in_s, taken - largest, "bytes of requests"),
                (quota.bytes_out_s, replies, "bytes of replies"),
            ):
                if rate and amount >= rate * seconds + _ROUNDED * (1 + amount):
                    self._break(
                        "metered",
                        f"{asked.place[0]} let {asked.place[1]} through after {amount} {what} in {seconds - 1:.4f} s "
                        f"by a quota of {rate} a second",
                    )
                    return

    def _break(self, name: str, what: str) -> None:
        self._broke(Broken(name, what))
