"""A connection's caller, and its commands that have not begun: judged where the catalog has users."""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Hashable, Sequence, Sized
from typing import Final, cast

from log_tier.access.gate import NOBODY
from log_tier.audit.audit_event import AuditEvent
from log_tier.model.errors import DuramenError, TableNotFound
from log_tier.trust.caller import Caller
from log_tier.trust.grants import Right
from router.endpoints.resp.command_spec import CommandSpec
from router.endpoints.resp.commands.command_table import BY_STEP, find_command, unknown_command
from router.endpoints.resp.commands.transactions import ExecStep, aborted_for
from router.endpoints.resp.commands.users.command_audit import note_refused
from router.endpoints.resp.connection.admission import (
    Admission,
    GuardedClient,
    OverQuota,
    RefusedCommand,
    is_judged_later,
)
from router.endpoints.resp.connection.connection_context import ConnectionOwner
from router.endpoints.resp.connection.resp_session import RespSession
from router.endpoints.resp.connection.socket_input import SocketInput
from router.endpoints.resp.data.key_views import DataCommand
from router.endpoints.resp.wire.fallback_parser import RespCommand
from router.endpoints.resp.wire.fence import ConnectionState
from router.endpoints.resp.wire.limits import AT_ONCE_KEYS_MAX
from router.endpoints.resp.wire.replies import Problem, encode
from router.endpoints.resp.wire.reply_queue import ReplyQueue

__all__ = ["GuardedSession"]

logger = logging.getLogger(__name__)

_Refused = tuple[CommandSpec, RespCommand, Problem]
"""A command, and why it is refused."""

_Judged = tuple[_Refused | None, Sequence[AuditEvent]]
"""The refusal of some commands, or what they do to audited tables."""
_NOT_JUDGED: Final[_Judged] = (None, ())


class GuardedSession(RespSession, ABC):
    """The state of one connection, with who calls and what it may do."""

    def __init__(self, server: ConnectionOwner) -> None:
        super().__init__(server)
        self.queue: deque[RespCommand] = deque()
        """Commands that were read and have not begun, but for the first, which may be the one that runs."""
        self.inbox = self.queue
        """Where commands go that were parsed: into the queue, or to the admission of a guarded connection."""
        self.waiting: Sized = self.queue
        """All commands that have not begun."""
        self.line: Hashable = self.id
        """Whose share of the endpoint's time it takes: its user's, and nobody's where it has proved nothing. Where the
        catalog has no users, each connection has its own.
        """
        self.admission: Admission | None = None
        """What guards the connection once the catalog has users."""
        self.input: SocketInput
        self.reply_queue: ReplyQueue
        self.task: asyncio.Task[None] | None = None
        """The command that runs by itself."""
        self.under_way: Sequence[RespCommand] = ()
        """The commands of `task`."""
        self.only_waits = False
        """What `task` is to change, it has not begun to change."""
        self.judges_wait = False
        """That wait was broken off, to be judged by the users and grants of now."""
        self.closing = False

    def guard(self) -> None:
        """The catalog has users: from now on the connection may do what its caller may, and that is nobody yet."""
        self.waiting = self.admission = Admission(cast("GuardedClient", self), self.queue)
        self.inbox = self.admission.arrived
        self.line = NOBODY.name
        self.may_come_in(False)

    def forget_queued(self) -> None:
        """No command that waits is to run, and none will follow."""
        if self.admission is not None and self.admission.notes is not None:
            self.admission.notes.forget()
        self.queue.clear()
        self.inbox.clear()
        if self.admission is not None:
            self.admission.close()

    @property
    def held_bytes_max(self) -> int:
        """What it holds, or more. See `BoundedConnection`."""
        return self.input.waiting_bytes_max + self.reply_queue.held_bytes + self.transaction_bytes

    def held_bytes(self) -> int:
        """What it holds. See `BoundedConnection`."""
        queued = self.queue if self.inbox is self.queue else [*self.queue, *self.inbox]
        return self.input.waiting_bytes(queued) + self.reply_queue.held_bytes + self.transaction_bytes

    def evict(self, reason: str) -> None:
        """End the connection, and say why where its replies are read."""
        self.forget_queued()
        if self.reply_queue.stalled or self.reply_queue.waits:
            self.drop(reason)
        else:
            logger.warning("client %s at %s is evicted: %s", self.id, self.address, reason)
            self.reply_queue.emit(b"-ERR %b\r\n" % reason.encode())
            self.close(reason)

    @property
    def caller(self) -> Caller:
        """Who calls; nobody where nothing was proved, or the catalog has no users."""
        return NOBODY if self.admission is None else self.admission.caller

    @property
    def noted_caller(self) -> Caller:
        """Whom the audit names: also one whose proof counts no more."""
        return NOBODY if self.admission is None else self.admission.noted_caller

    def prove(self, caller: Caller) -> None:
        """The client has proved who it is."""
        assert self.admission is not None, "a connection that is not guarded has no caller"
        self.admission.prove(caller)

    @abstractmethod
    def close(self, reason: str) -> None:
        """Send what there is, then end the connection."""

    @abstractmethod
    def drop(self, reason: str) -> None:
        """End the connection at once."""

    @abstractmethod
    def _run(self) -> None:
        """Work off what is queued."""

    def trust_changed(self) -> bool:
        """Users, roles or grants are others than before. What waits is judged again when it is its turn; True where
        something goes on without that, so that `recheck` has to follow.
        """
        if self.admission is None:
            self.guard()
            self.input.queue = self.waiting
        return bool(self.channels or self.patterns) or self.task is not None or self.unanswered > 0

    @property
    def unanswered(self) -> int:
        """Its commands that have begun, or wait for a round."""
        return self.reply_queue.unanswered

    def recheck(self) -> None:
        """End the connection where it goes on with what its caller may not do any more. A read that waits begins again,
        and is refused by the rights of now. A change that waits is judged before it waits on, one that is queued for a
        round is judged there, and one that has begun is answered.
        """
        refusal = None if self.closing else self._no_longer()
        if self.admission is not None:
            self.admission.look()
            self.server.changes.judge(self.reply_queue, self._judged_in_queue)
        if refusal is not None:
            if self.channels or self.patterns:
                listens = [b"", *self.channels, *self.patterns]
                self._note(self.server.commands["subscribe"], listens, refusal, ended=True)
            if self.task is not None and not self._may_change():
                for command in self.under_way:
                    if (spec := find_command(command[0])) is not None:
                        self._note(spec, command, refusal)
                self.task.cancel()
            self.reply_queue.emit(encode(refusal, self.protocol))
            self.close("its caller may not go on with what it does")
        elif not self.closing and self.task is not None and self.only_waits:
            if not self.judges_wait:
                self.judges_wait = True
                self.task.cancel()
        elif not self.closing and self.task is not None and self._waits_for_what_it_may_not():
            self.task.cancel()
            self.task.add_done_callback(self._begin_again)

    def _judged_in_queue(self, step: DataCommand, args: Sequence[bytes]) -> Problem | None:
        """Why the caller may not run a command, or a transaction, that waits for a round; None: it may. One that is so
        large that a thread would judge it was judged when it got there.
        """
        assert self.admission is not None, "a connection that is not guarded is not judged"
        commands: Sequence[tuple[CommandSpec, RespCommand]]
        if isinstance(step, ExecStep):
            commands = step.demanding
        elif self.table is not None and self.table.form is not None:
            # What is queued has keys as they are stored, and rights are judged by the command as it was sent.
            found = [(find_command(command[0]), command) for command in self.under_way]
            commands = [(spec, command) for spec, command in found if spec is not None]
        else:
            commands = [(BY_STEP[step], [BY_STEP[step].name.encode(), *args])]
        if len(commands) > AT_ONCE_KEYS_MAX:
            return None
        for spec, command in commands:
            if is_judged_later(spec, command):
                continue
            problem = self.admission.refusal(spec, command) if self.authenticated else self.unproved()
            if problem is not None:
                self._note(spec, command, problem)
                return aborted_for(problem) if isinstance(step, ExecStep) else problem
        return None

    def _begin_again(self, ended: asyncio.Task[None]) -> None:
        if self.admission is not None and self.task is ended and ended.cancelled() and not self.closing:
            self.task = None
            self.commands -= len(self.under_way)
            self.admission.judge_again(self.under_way)
            self._run()

    def _may_change(self) -> bool:
        """Has the command that runs by itself begun to change something, or may it have?"""
        specs = [find_command(command[0]) for command in self.under_way]
        return not self.only_waits and any(spec is not None and spec.changes for spec in specs)

    def _waits_for_what_it_may_not(self) -> bool:
        """Do commands run by themselves that only read, and has the right to one of them ended?"""
        admission = self.admission
        specs = [find_command(command[0]) for command in self.under_way]
        if admission is None or not all(spec is not None and spec.only_reads for spec in specs):
            return False
        return any(
            is_judged_later(spec, command) or admission.refusal(spec, command) is not None
            for spec, command in zip(specs, self.under_way, strict=True)
            if spec is not None
        )

    def _no_longer(self) -> Problem | None:
        """Why the connection may not go on with what needs no further command: its subscriptions, and a command that
        waits; None: it may.
        """
        if self.admission is None:
            return None
        came_in, listening = self.authenticated, self.channels | self.patterns
        self.admission.look()
        if not self.authenticated:
            waits = came_in and self.task is not None and not self._may_change()
            return self.unproved() if listening or waits else None
        if not listening:
            return None
        return self.admission.refusal(self.server.commands["subscribe"], [b"", *listening])

    def denied(self, commands: Sequence[tuple[CommandSpec, RespCommand]], *, action: str = "") -> Problem | None:
        """Why the caller may not run the first of the commands that it may not; None: it may run all, and what they do
        to audited tables is noted. Everybody may where the catalog has no users.

        `action`: under which name several commands are audited as one.
        """
        if self.admission is None:
            return None
        self.admission.look()
        return self._noted(_judged(self.admission, commands, action) if self.authenticated else _NOT_JUDGED, commands)

    def denied_by_form(self, spec: CommandSpec, command: RespCommand) -> Problem | None:
        """Why the caller may not run a command on a table with a definition; None: it may. The admission has judged the
        text of its keys where nobody had opened the table yet, and rights are on the keys that are stored.
        """
        refused = None if self.admission is None else self.admission.refusal(spec, command)
        if refused is not None:
            self._note(spec, command, refused)
        return refused

    async def denied_in_thread(
        self, commands: Sequence[tuple[CommandSpec, RespCommand]], *, action: str = ""
    ) -> Problem | None:
        """`denied`, for commands on many keys."""
        if self.admission is None:
            return None
        self.admission.look()
        found = _NOT_JUDGED
        if self.authenticated:
            found = await asyncio.to_thread(_judged, self.admission, commands, action)
        return self._noted(found, commands)

    async def denied_since(
        self, judged_by: int, commands: Sequence[tuple[CommandSpec, RespCommand]], *, action: str = ""
    ) -> Problem | None:
        """Why the caller may not run, after a wait, what it was allowed to run before; None: it may. `judged_by`: the
        changes of users of that time.
        """
        if self.admission is None:
            return None
        self.admission.look()
        if self.authenticated and self.server.trust_changes == judged_by:
            return None
        refused = None
        if self.authenticated:
            refused, _ = await asyncio.to_thread(_judged, self.admission, commands, action)
        return self._noted((refused, ()), commands)

    def refusal(self, spec: CommandSpec, command: RespCommand) -> Problem | None:
        """Why a command is not to run on this connection. Notes one of somebody who proved nothing."""
        problem = super().refusal(spec, command)
        if problem is not None and not self.authenticated:
            self._note(spec, command, problem)
        return problem

    def no_command(self, command: RespCommand) -> Problem:
        """The reply to what has no command's name: nobody knows it, or it stands for a command that was refused before
        it was in the queue, which is noted now, and once.
        """
        if not isinstance(command, RefusedCommand):
            return unknown_command(command)
        spec = find_command(command.command[0])
        if spec is not None:
            self._note(spec, command.command, command.problem)
        if isinstance(command, OverQuota):
            self.leaves_free(encode(command.problem, self.protocol))
        return command.problem

    def leaves_free(self, data: bytes) -> None:
        """This is among what leaves next, and takes nothing of the quotas of bytes of replies."""
        if self.admission is not None:
            self.admission.leaves_free(len(data))

    def _noted(self, judged: _Judged, commands: Sequence[tuple[CommandSpec, RespCommand]]) -> Problem | None:
        """Note the refusal that was found, or that of a connection which has no proof (any more), or what is done."""
        refused, accesses = judged
        if not self.authenticated and commands:
            refused = (*commands[0], self.unproved())
        if refused is not None:
            self._note(*refused)
            return refused[2]
        if not self.authenticated:
            return self.unproved()
        if accesses and self.admission is not None and self.admission.notes is not None:
            self.admission.notes.note(accesses)
        return None

    def _note(self, spec: CommandSpec, command: RespCommand, problem: Problem, *, ended: bool = False) -> None:
        if self.admission is not None:
            note_refused(cast("GuardedClient", self), spec, command, problem, self.admission.rights, ended=ended)

    def reads_all(self, table: str) -> bool:
        """May the caller read the whole table?"""
        return self.admission is None or self.admission.reads_all(table)

    def state(self) -> ConnectionState:
        """What a reader process has to know of this connection, which is the upstream one of its client's."""
        changes = self.server.trust_changes
        if self.admission is None:
            return self.state_for(self.plain, changes)
        self.admission.renew()
        # At the end of a token nobody raises the number. What a reader process answers by itself nobody counts, nor
        # does anybody note it.
        reads = self.admission.reads_all(self.table_name) and not self.admission.expires_ms
        notes = self.admission.notes
        reads = reads and not self.admission.is_counted and (notes is None or not notes.is_chosen(Right.READ))
        return self.state_for(self.plain and reads, changes)

    def report(self, error: DuramenError) -> Problem:
        """The reply for an error of the database. See `RespSession`."""
        problem = super().report(error)
        if isinstance(error, TableNotFound) and self.admission is not None:
            # Not in the error's words: they name the tables that there are.
            return Problem("ERR there is no such table here: it was dropped, or never was")
        return problem


def _judged(admission: Admission, commands: Sequence[tuple[CommandSpec, RespCommand]], action: str) -> _Judged:
    found = ((*each, problem) for each in commands if (problem := admission.refusal(*each)) is not None)
    refused = next(found, None)
    if refused is not None or admission.notes is None:
        return refused, ()
    return None, admission.notes.of(commands, action)
