"""FLUSHDB: the table goes over to an empty version of itself, by a barrier in the log of each partition.

It costs the same whatever the table holds, and every replica clears it at the same offsets. What was acknowledged
before the command came is gone; what others write meanwhile is there or not, as with Redis.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from log_tier.audit.audit_event import AuditResult
from log_tier.model.errors import DuramenError
from log_tier.model.identifiers import Partition
from router.admin.clear import clear_table
from router.endpoints.resp.command_spec import async_command
from router.endpoints.resp.commands.users.command_audit import note_administration
from router.endpoints.resp.context import CommandContext
from router.endpoints.resp.wire.arguments import SYNTAX, text_of
from router.endpoints.resp.wire.limits import REQUEST_TIMEOUT_S
from router.endpoints.resp.wire.replies import Problem, Simple

__all__ = ["SPECS", "flushdb"]


async def flushdb(client: CommandContext, args: Sequence[bytes]) -> Simple:
    """FLUSHDB [ASYNC|SYNC]: both are the same here; the reply comes when no later read shows an old key."""
    if len(args) > 1 or (args and text_of(args[0]).upper() not in ("ASYNC", "SYNC")):
        raise SYNTAX
    server = client.server
    if server.admin is None:
        raise Problem("ERR this server cannot clear tables")
    # Without a proof there is no user, or it would have been refused.
    audited, name = client.caller.proof != "nothing", client.table_name
    result: AuditResult = "unanswered"
    version = server.gate.version if audited else -1
    try:
        table = await client.current_table()
        admin = await server.admin()
        cleared = await clear_table(admin, table.ref.name, timeout=REQUEST_TIMEOUT_S)
        result = "done"
    except (DuramenError, Problem):
        result = "failed"
        raise
    finally:
        if audited:
            note_administration(client, "flushdb", name, result, version)
    for number, offset in enumerate(cleared):
        table.raise_floor(Partition(number), offset)
    return Simple("OK")


SPECS: Final = (async_command("flushdb", -1, flushdb, "write", summary="Clears the table by an empty version."),)
"""The commands of this module."""
