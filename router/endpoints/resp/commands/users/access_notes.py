"""Reads and writes of the tables that the audit's settings choose: a row for each command that does some.

    let in ─▶ `add` ─▶ waits in the queue ─▶ has begun: `begun` gives the event to the audit
                          └─▶ is taken back, judged again, or never begins: `forget`

A command is noted when it has begun, so none that a revocation, a quota, DISCARD or the end of its connection kept
from running. It is noted as gRPC notes a call: once for each right that it needs, with what its keys have in common,
whatever comes of it. EXEC is one call, as `KV/Write` is: what its commands read is one event, what they write another.

Nothing here is made where the settings choose no table.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final

from log_tier.access.demand_parts import common_prefix_text, parts_of
from log_tier.audit.audit_event import AuditEvent, event_of
from log_tier.audit.audit_trail import AuditTrail
from log_tier.model.errors import DuramenError
from log_tier.trust.grants import Right
from router.endpoints.resp.command_spec import CommandSpec
from router.endpoints.resp.commands.users.access_rules import KEY_RULES, OTHER_RULES, rule_name
from router.endpoints.resp.commands.users.command_audit import host_of
from router.endpoints.resp.context import CommandContext
from router.endpoints.resp.wire.fallback_parser import RespCommand
from router.endpoints.resp.wire.replies import Problem

__all__ = ["AUDITED_AT_ONCE", "AccessNotes"]

AUDITED_AT_ONCE: Final = 128
"""Commands on keys of a chosen table that are let in together: each costs some 10 µs."""


class AccessNotes:
    """What one connection does to chosen tables.

    Invariant: `_waiting` has what the last commands of the queue do, one entry for each; those before them are noted.
    """

    __slots__ = ("_client", "_queue", "_reads", "_settings", "_table", "_trail", "_waiting", "_writes")

    def __init__(self, client: CommandContext, queue: deque[RespCommand], trail: AuditTrail) -> None:
        self._client = client
        self._queue = queue
        self._trail = trail
        self._settings = trail.settings
        self._waiting: deque[Sequence[AuditEvent]] = deque()
        self._table = ""
        """The table of the next two: whether its reads and its writes are chosen."""
        self._reads = self._writes = False

    def is_chosen(self, right: Right) -> bool:
        """Is a command on keys of the selected table noted that needs `read`, or `write`? 0.1 µs."""
        if self._client.table_name is not self._table:
            self._look_up()
        return self._reads if right is Right.READ else self._writes

    def _look_up(self) -> None:
        table = self._client.table_name
        self._reads, self._writes = (self._settings.is_chosen(right, table) for right in ("read", "write"))
        self._table = table

    @property
    def is_on(self) -> bool:
        """Is any command on keys of the selected table noted?"""
        return self.is_chosen(Right.READ) or self._writes

    def add(self, spec: CommandSpec | None, command: RespCommand) -> None:
        """A command gets into the queue. `spec` None: it is noted later, or not at all."""
        client = self._client
        runs = spec is not None and client.transaction is None
        runs = runs and not (client.subscribed and spec is not None and "pubsub" not in spec.flags)
        self._waiting.append(self.of(((spec, command),)) if runs and spec is not None else ())

    def begun(self) -> None:
        """Note what has left the queue."""
        waiting, queue = self._waiting, self._queue
        while len(waiting) > len(queue):
            self.note(waiting.popleft())

    def forget(self) -> None:
        """What is still in the queue leaves it without having begun."""
        self.begun()
        self._waiting.clear()

    def note(self, events: Sequence[AuditEvent]) -> None:
        """Give them to the audit. Some 4 µs each."""
        for event in events:
            self._trail.note(event)

    def of(self, commands: Sequence[tuple[CommandSpec, RespCommand]], action: str = "") -> Sequence[AuditEvent]:
        """What commands do together to chosen tables; with no `action` it is one command. O(keys); also in a thread."""
        keys: dict[Right, list[bytes]] = {}
        events: list[AuditEvent] = []
        for spec, command in commands:
            rule = KEY_RULES.get(spec.name)
            if rule is None:
                events += self._of_other(spec, command)
                continue
            for right in rule.needs(command):
                if self.is_chosen(right):
                    keys.setdefault(right, []).extend(spec.keys(command))
        table = self._client.table_name
        for right, named in keys.items():
            events.append(self._event(right, table, common_prefix_text(named), action or commands[0][0].name))
        return events

    def _of_other(self, spec: CommandSpec, command: RespCommand) -> Sequence[AuditEvent]:
        """What a command does that is not about keys of the selected table."""
        rule = OTHER_RULES.get(rule_name(spec, command))
        if rule is None:
            return ()
        is_chosen = self._settings.is_chosen
        try:
            demand = rule(self._client, command)
        except (Problem, DuramenError):
            return ()  # it names no table that is there
        # The keys of a batch are decoded where they are needed.
        if not any(is_chosen(kind, table) for kind, table, _ in parts_of(demand, with_keys=False)):
            return ()
        return [
            self._event(Right(kind), table, key, rule_name(spec, command))
            for kind, table, key in parts_of(demand, with_keys=True)
            if is_chosen(kind, table)
        ]

    def _event(self, right: Right, table: str, key: str, action: str) -> AuditEvent:
        client = self._client
        version = client.server.gate.version
        return event_of(
            client.noted_caller,
            right.value,
            "allowed",
            address=host_of(client),
            action=action,
            table=table,
            key=key,
            version=version,
        )
