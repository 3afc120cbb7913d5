"""Who may do what on one connection, once the catalog has users: which commands get into its queue.

Commands that were parsed wait in `arrived`. From there stretches of them are let into the connection's queue, from
which the fast paths, the runs and the rounds take as many as they like: all that is in the queue may run.

- A1 A stretch is commands on keys, whose rules are kept; one that its caller may not run is in the queue as a
     `RefusedCommand`, whose reply has its place among the others. Nothing else is refused with it.
- A2 Every other command is a stretch of its own, let in when all before it have begun and none has a task. So AUTH,
     SELECT and MULTI have happened when what follows them is judged.
- A3 What is in the queue and has not begun is judged again when users, roles or grants have changed, or the caller's
     token has expired.
- A4 What has quotas is counted when it gets into the queue, once: what is taken back for A3 is a `CountedCommand`. What
     is over is a `RefusedCommand`, too, so nothing waits; it takes nothing, nor does its reply. A transaction is
     refused with its first commands or not at all: once one is let in, the others take what they take (decision 76).
- A5 What reads or writes a table whose reads or writes are audited is noted when it has left the queue, so when it has
     begun, and once (`AccessNotes`). Where the settings choose no table, this costs one comparison.

A connection has an `Admission` from the turn in which the first user comes; before that, commands go into its queue as
they are parsed, and nothing here costs anything.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Sequence
from itertools import islice
from operator import itemgetter
from typing import Final, Protocol

from log_tier.access.demands import ANY_USER
from log_tier.access.expiry_timer import ExpiryTimer
from log_tier.access.gate import NOBODY
from log_tier.model.errors import DuramenError, Overloaded, PermissionDenied, Unauthenticated
from log_tier.trust.caller import Caller
from log_tier.trust.grants import Right
from log_tier.trust.rights import NO_RIGHTS, Rights
from router.endpoints.resp.command_spec import DATA_KINDS, CommandSpec
from router.endpoints.resp.commands.command_table import BY_WORD, find_command
from router.endpoints.resp.commands.users.access_notes import AUDITED_AT_ONCE, AccessNotes
from router.endpoints.resp.commands.users.access_rules import KEY_RULES, covers, lacks
from router.endpoints.resp.connection.turns import TURN
from router.endpoints.resp.context import CommandContext
from router.endpoints.resp.wire.error_replies import no_permission, problem_of
from router.endpoints.resp.wire.fallback_parser import RespCommand
from router.endpoints.resp.wire.limits import AT_ONCE_WORDS_MAX
from router.endpoints.resp.wire.replies import Problem
from router.endpoints.resp.wire.reply_queue import ReplyQueue
from router.endpoints.turns.shared_turns import SharedTurns

__all__ = ["Admission", "GuardedClient", "GuardedLone", "LonePath", "OverQuota", "RefusedCommand", "is_judged_later"]

_FIRST: Final = itemgetter(0)
_SECOND: Final = itemgetter(1)

_ON_ONE_KEY: Final = {
    word: frozenset(KEY_RULES[spec.name].usual)
    for word, spec in BY_WORD.items()
    if spec.kind in DATA_KINDS and spec.first == spec.last == 1 and spec.name != "getex"
}
"""The rights of commands on one key, by their words. SET with options may need more."""

_SET_WORDS: Final = frozenset({b"set", b"SET"})
_BOTH: Final = frozenset({Right.READ, Right.WRITE})
_PLAIN_SET: Final = 3

_NOT_COUNTED: Final = frozenset({"select", "multi", "exec", "discard", "unwatch"})
"""What follows them on the connection would go elsewhere, or apart, if they were refused for a while."""

# Fewer commands are not worth their columns.
_ALIKE_MIN: Final = 4


class RefusedCommand(list[bytes]):
    """Stands in the queue for a command that its caller may not run. No command has its name."""

    def __init__(self, command: RespCommand, problem: Problem) -> None:
        super().__init__((b"",))
        self.command = command
        self.problem = problem


class OverQuota(RefusedCommand):
    """One that was refused by a quota."""


class CountedCommand(list[bytes]):
    """A command that was in the queue before: no quota counts it again."""


class RestartedCommand(CountedCommand):
    """One that had begun, and is noted."""


class LonePath(Protocol):
    """The way of a GET or a SET that came alone. See `FastPath`."""

    def lone_get(self, key: bytes) -> bool: ...
    def lone_set(self, key: bytes, value: bytes) -> bool: ...


class GuardedClient(CommandContext, Protocol):
    """A connection, as its admission sees it. See `Client`."""

    lapsed: str
    line: Hashable
    reply_queue: ReplyQueue

    def recheck(self) -> None: ...


class Admission:
    """Lets the commands of one connection into its queue. Its length is the number of those that have not begun.

    Invariant: while a command is in `arrived`, one is in the queue or has a task, but for the time within
    `Client._work_off`.
    """

    def __init__(self, client: GuardedClient, queue: deque[RespCommand]) -> None:
        self._client = client
        self._queue = queue
        self._server = client.server
        self.arrived: deque[RespCommand] = deque(queue)
        queue.clear()
        self.caller = self.noted_caller = NOBODY
        """Who calls; and whom the audit names, also when its proof counts no more."""
        self.rights: Rights = NO_RIGHTS
        self.expires_ms = 0
        """When the caller's token expires, in ms since 1970; 0: never."""
        self._looked = self._filled = -1
        """The changes of users by which the rights are those of now, and the queue was filled."""
        self._timer: ExpiryTimer | None = None
        """For the end of a token."""
        audit = client.server.audit
        self.unheard_s = 0.0
        """How long the connection sits out for what it was refused by a quota. See `QuotaKeeper.refused`."""
        self._free_bytes = 0
        """Of what has not left yet, so much takes nothing of a quota of bytes."""
        self._let_in: object | None = None
        """The transaction of which a quota has counted a command."""
        self._counted_for = ""
        """The user of whose connections it is one."""
        self._has_ended = False
        self.notes = AccessNotes(client, queue, audit) if audit is not None and audit.settings.chooses else None
        """Of what it does to tables that are audited; None: there are none."""

    def __len__(self) -> int:
        return len(self.arrived) + len(self._queue)

    def prove(self, caller: Caller) -> None:
        """Somebody has proved who it is, or is nobody again. Raises `Overloaded` for one who has as many connections as
        its quota gives, and changes nothing.
        """
        self._count_for(caller.name)
        self.close()
        self.caller = self.noted_caller = caller
        self.expires_ms = self._server.gate.expires_ms(caller)
        self._client.line = caller.name
        if self.expires_ms:
            server, recheck = self._server, self._client.recheck
            self._timer = ExpiryTimer(self.expires_ms, recheck, clock=server.clock, loop=server.loop)
        self._looked = -1
        self.look()

    def _count_for(self, user: str) -> None:
        """Count the connection for this user, and no more for the one before. Empty: nobody. Raises `Overloaded`."""
        if user != self._counted_for and not self._has_ended:
            connections = self._server.quotas.connections
            connections.join(user)
            connections.leave(self._counted_for)
            self._counted_for = user

    def end(self) -> None:
        """The connection is gone, also for a proof that is still being checked. Idempotent."""
        self.close()
        self._count_for("")
        self._has_ended = True

    def close(self) -> None:
        """Wait for the end of no token. Idempotent."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    @property
    def _is_expired(self) -> bool:
        return self.expires_ms > 0 and self._server.clock.wall_ms() >= self.expires_ms

    def renew(self) -> None:
        """Go by the users and grants of now; what waits in the queue is judged again if those are others than before.

        0.2 µs where nothing has changed.
        """
        if self._filled == self._server.trust_changes and not (self.expires_ms and self._is_expired):
            return
        self._filled = self._server.trust_changes
        self._take_back()
        self.look()

    def look(self) -> None:
        """Go by the users and grants of now, from the next command on that is judged."""
        if self._looked == self._server.trust_changes and not (self.expires_ms and self._is_expired):
            return
        self._looked = self._server.trust_changes
        caller, gate, client = self.caller, self._server.gate, self._client
        if caller.proof == "nothing":
            client.may_come_in(False, client.lapsed)
            return
        try:
            gate.decide(caller, ANY_USER)
        except Unauthenticated as error:
            self.caller, self.rights, self.expires_ms = NOBODY, NO_RIGHTS, 0
            client.line = NOBODY.name
            self._count_for("")
            self._filled = -1
            client.may_come_in(False, error.message)
        else:
            self.rights = gate.caller(caller.name, caller.proof, credential=caller.credential).rights
            client.may_come_in(True)
            if self._server.quotas.has_some:
                client.reply_queue.measure(self._sent)

    def _take_back(self) -> None:
        if self.notes is not None:
            self.notes.forget()
        counted = self._server.quotas.has_some
        for command in reversed(self._queue):
            if isinstance(command, RefusedCommand):
                self.arrived.appendleft(command.command)
            else:
                plain = counted and not isinstance(command, CountedCommand)
                self.arrived.appendleft(CountedCommand(command) if plain else command)
        self._queue.clear()

    def judge_again(self, commands: Sequence[RespCommand]) -> None:
        """Commands that had begun, and only read, are to begin again before all others."""
        self._take_back()
        self.arrived.extendleft(map(RestartedCommand, reversed(commands)))

    @property
    def is_counted(self) -> bool:
        """Has the caller or the selected table a quota?"""
        quotas = self._server.quotas
        return quotas.has_some and quotas.counts(self.caller, (self._client.table_name,))

    def _sent(self, size: int) -> None:
        """Replies leave. They count for the caller and the table of now."""
        free = min(size, self._free_bytes)
        self._free_bytes -= free
        self._server.quotas.sent(self.caller, (self._client.table_name,), size - free)

    def leaves_free(self, size: int) -> None:
        """Of what leaves next, so many bytes are no reply, or refuse by a quota."""
        if self._server.quotas.has_some:
            self._free_bytes += size

    def _over_quota(self, spec: CommandSpec, command: RespCommand) -> Problem | None:
        """Take what a command takes of its quotas; why it may not: nothing is taken then."""
        quotas = self._server.quotas
        if not quotas.has_some or isinstance(command, CountedCommand):
            return None
        if spec.name in _NOT_COUNTED or "no_auth" in spec.flags:
            return None
        transaction = self._client.transaction
        goes_on = transaction is not None and transaction is self._let_in and not self._client.aborted
        try:
            quotas.hold(self.caller, (self._client.table_name,), lambda: sum(map(len, command)), goes_on=goes_on)
        except Overloaded as error:
            self.unheard_s = quotas.refused(self.caller, (self._client.table_name,))
            return problem_of(error)
        self._let_in = transaction
        return None

    def take_unheard_s(self) -> float:
        """How long the connection has to sit out from now on, for all that it was refused."""
        unheard_s, self.unheard_s = self.unheard_s, 0.0
        return unheard_s

    def admit(self) -> bool:
        """Let in the next stretch; False where there is none. The queue is empty. 0.15 µs a command for several on keys
        that one grant covers, else 1 µs.
        """
        arrived, queue, notes = self.arrived, self._queue, self.notes
        if notes is not None:
            notes.begun()
        if not arrived:
            return False
        if not self._client.authenticated:
            queue.append(arrived.popleft())  # what may not run without a proof says so itself
            return True
        audited = notes is not None and notes.is_on
        if len(arrived) >= _ALIKE_MIN and not audited and not self.is_counted and self._admit_alike():
            return True
        for _ in range(min(len(arrived), AUDITED_AT_ONCE if audited else TURN)):
            command = arrived[0]
            spec = find_command(command[0])
            is_on_keys = spec is not None and spec.kind in DATA_KINDS and spec.fits(len(command))
            if is_on_keys or not queue:
                judged = self._judged(spec, arrived.popleft())
                queue.append(judged)
                if notes is not None and (audited or not is_on_keys):
                    notes.add(_noted_spec(spec, judged), judged)
            if not is_on_keys or self.unheard_s:
                break
        return True

    def _admit_alike(self) -> bool:
        """Let in the next commands at once if each is on one key, and one grant covers all of those."""
        arrived, selected = self.arrived, self._client.table
        if selected is None or selected.form is not None:
            return False  # its keys are perhaps not what is stored
        some = arrived if len(arrived) <= TURN else deque(islice(arrived, TURN))
        names = set(map(_FIRST, some))
        if not names <= _ON_ONE_KEY.keys():
            return False
        needed = frozenset[Right]().union(*map(_ON_ONE_KEY.__getitem__, names))
        if not names.isdisjoint(_SET_WORDS) and max(map(len, some)) > _PLAIN_SET:
            needed = _BOTH
        try:
            keys = list(map(_SECOND, some))
        except IndexError:
            return False
        first, behind = min(keys), max(keys) + b"\0"
        may_range, table = self.rights.may_range, self._client.table_name
        if not all(may_range(right, table, first, behind) for right in needed):
            return False
        self._queue.extend(some)
        if some is arrived:
            arrived.clear()
        else:
            for _ in some:
                arrived.popleft()
        return True

    def _judged(self, spec: CommandSpec | None, command: RespCommand) -> RespCommand:
        if spec is None or spec.refusal(command) is not None:
            return command
        problem = None if is_judged_later(spec, command) else self.refusal(spec, command)
        if problem is not None:
            return RefusedCommand(command, problem)
        problem = self._over_quota(spec, command)
        return command if problem is None else OverQuota(command, problem)

    def refusal(self, spec: CommandSpec, command: RespCommand) -> Problem | None:
        """Why the caller may not run a command of as many words as it may have; None: it may."""
        try:
            missing = lacks(self._client, spec, command, self.rights)
        except Problem as problem:
            return problem
        except PermissionDenied:
            missing = "a grant about the table of that id"
        except DuramenError as error:
            return problem_of(error)
        return no_permission(self.caller.name, spec.name, missing) if missing else None

    def reads_all(self, table: str) -> bool:
        """May the caller read the whole table?"""
        return self.rights.may(Right.READ, table, b"")

    def may_uncounted(self, right: Right, key: bytes) -> bool:
        """May the caller do this to a key of the selected table, and neither quota nor audit counts it? 0.7 µs."""
        self.renew()
        if self._server.quotas.has_some and self.is_counted:
            return False
        if self.notes is not None and self.notes.is_chosen(right):
            return False
        return covers(self.rights, right, self._client.table_name, (key,))


def is_judged_later(spec: CommandSpec, command: RespCommand) -> bool:
    """Has a command on keys so many of them that a thread judges it, when it runs?"""
    return len(command) > AT_ONCE_WORDS_MAX and spec.kind in DATA_KINDS


def _noted_spec(spec: CommandSpec | None, judged: RespCommand) -> CommandSpec | None:
    """The command that is noted when it has begun; None: it was refused, fails by its words, or is judged later."""
    if spec is None or isinstance(judged, RefusedCommand | RestartedCommand) or spec.refusal(judged) is not None:
        return None
    return None if is_judged_later(spec, judged) else spec


class GuardedLone:
    """The way of a GET or a SET that came alone, where its caller may, and nothing is counted or audited."""

    __slots__ = ("_admission", "_inner", "_turns")

    def __init__(self, admission: Admission, inner: LonePath, turns: SharedTurns) -> None:
        self._admission = admission
        self._inner = inner
        self._turns = turns

    def lone_get(self, key: bytes) -> bool:
        return self._admission.may_uncounted(Right.READ, key) and self._inner.lone_get(key)

    def lone_set(self, key: bytes, value: bytes) -> bool:
        if not self._admission.may_uncounted(Right.WRITE, key) or not self._inner.lone_set(key, value):
            return False
        self._turns.passes(self._admission.caller.name)
        return True
