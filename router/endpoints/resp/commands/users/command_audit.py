"""What the endpoint notes of its connections, for the audit: logins, refused commands, and administration.

An equal event within a second is no row of its own, and refused commands of one user make only so many rows in a second
(Q2 of `log_tier.audit`), so a flood of them makes no row each. All functions belong to the event loop, and do nothing
while the catalog has no user or the endpoint no audit.

Reads and writes that are allowed are noted by `access_notes.py`, for the tables that the settings choose.
"""

from __future__ import annotations

from typing import Final

from log_tier.access.demand_parts import DemandPart, parts_of
from log_tier.access.demands import CLUSTER_ADMIN, KeyDemand
from log_tier.access.gate import NOBODY
from log_tier.access.tokens import read_token
from log_tier.audit.audit_event import AuditResult, event_of
from log_tier.model.errors import DuramenError, Overloaded
from log_tier.trust.rights import Rights
from router.endpoints.resp.command_spec import CommandSpec
from router.endpoints.resp.commands.users.access_rules import KEY_RULES, OTHER_RULES, covers, rule_name
from router.endpoints.resp.context import CommandContext
from router.endpoints.resp.wire.fallback_parser import RespCommand
from router.endpoints.resp.wire.limits import AT_ONCE_WORDS_MAX
from router.endpoints.resp.wire.replies import Problem

__all__ = ["host_of", "note_administration", "note_login", "note_no_login", "note_question", "note_refused"]

_NOTHING: Final[DemandPart] = ("call", "", "")


def note_login(client: CommandContext) -> None:
    """The connection has proved who it is."""
    _note(client, ("login", "", ""), "allowed", "login")


def note_no_login(client: CommandContext, user: str, secret: str, error: DuramenError) -> None:
    """A proof was none. The name is noted where a user has it: others may be passwords."""
    audit, gate = client.server.audit, client.server.gate
    if audit is None:
        return
    token = read_token(secret)
    name = user if user != "default" or token is None else token.user
    event = event_of(
        NOBODY,
        "login",
        "refused",
        address=host_of(client),
        action="login",
        detail="too many logins failed before" if isinstance(error, Overloaded) else "the proof is none",
        version=gate.version,
    )
    audit.note(event._replace(user=name if name in gate.trust.users else ""))


def note_refused(
    client: CommandContext,
    spec: CommandSpec,
    command: RespCommand,
    problem: Problem,
    rights: Rights,
    *,
    ended: bool = False,
) -> None:
    """A command was refused because of who its caller is, or a subscription `ended` that had been allowed.

    Other reasons to refuse a command are none of the audit's.
    """
    if client.server.audit is None or not problem.text.startswith(("NOAUTH", "NOPERM")):
        return
    missing = problem.text.rpartition("it lacks ")[2] if problem.text.startswith("NOPERM") else ""
    lapsed = problem.text.partition("required.")[2].strip()
    is_word = spec.refusal(command) is None
    _note(
        client,
        _asked(client, spec, command, rights) if is_word else _NOTHING,
        "ended" if ended else "refused",
        rule_name(spec, command) if is_word else spec.name,
        detail=f"what is missing is {missing}" if missing else lapsed or "no proof",
    )


def note_administration(client: CommandContext, action: str, table: str, result: AuditResult, version: int) -> None:
    """An administrative command has ended. `version`: of the catalog when it began."""
    _note(client, ("admin", table, ""), result, action, version=version, offset=client.server.gate.version)


def note_question(client: CommandContext, name: str, command: RespCommand) -> None:
    """A question is answered that takes `admin` by the rule of its name: of others, or of everything."""
    if client.server.is_guarded and OTHER_RULES[name](client, command) is CLUSTER_ADMIN:
        _note(client, ("admin", "", ""), "done", name, offset=client.server.gate.version)


def _note(
    client: CommandContext,
    part: DemandPart,
    result: AuditResult,
    action: str,
    *,
    detail: str = "",
    version: int | None = None,
    offset: int = -1,
) -> None:
    server = client.server
    if server.audit is None or not server.is_guarded:
        return
    kind, table, key = part
    server.audit.note(
        event_of(
            client.noted_caller,
            kind,
            result,
            address=host_of(client),
            action=action,
            table=table,
            key=key,
            detail=detail,
            version=server.gate.version if version is None else version,
            offset=offset,
        )
    )


def host_of(client: CommandContext) -> str:
    """The host of a connection's client."""
    return client.address.rpartition(":")[0]


def _asked(client: CommandContext, spec: CommandSpec, command: RespCommand, rights: Rights) -> DemandPart:
    """What a refused command asked for. Of very many keys, not what they begin with: that would take milliseconds."""
    rule = KEY_RULES.get(spec.name)
    short = len(command) <= AT_ONCE_WORDS_MAX
    if rule is not None:
        needs, table = rule.needs(command), client.table_name
        if not short:
            return needs[0].value, table, ""
        keys = spec.keys(command)
        right = next((right for right in needs if not covers(rights, right, table, keys)), needs[0])
        return next(parts_of(KeyDemand(right, table, tuple(keys)), with_keys=True), _NOTHING)
    other = OTHER_RULES.get(rule_name(spec, command))
    if other is None or not short:
        return _NOTHING
    try:
        # Not with the keys of a batch, which may be megabytes.
        return next(parts_of(other(client, command), with_keys=False), _NOTHING)
    except (Problem, DuramenError):
        return _NOTHING  # it names no table that is there
