"""What Redis cannot do: tokens, levels, and writes under a version. Their names begin with `DURAMEN.`"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from log_tier.model.errors import InvalidToken
from log_tier.model.identifiers import NOTHING, Offset
from log_tier.model.tokens import Token
from router.data.freshness import FreshnessLevel
from router.endpoints.resp.command_spec import CommandSpec, async_command, read_command, sync_command
from router.endpoints.resp.commands.strings import set_options
from router.endpoints.resp.context import CommandContext
from router.endpoints.resp.data.key_views import PendingVersion, View, known_version
from router.endpoints.resp.wire.arguments import SYNTAX, integer, text_of
from router.endpoints.resp.wire.error_replies import problem_of
from router.endpoints.resp.wire.limits import TOKEN_OFFSETS_MAX
from router.endpoints.resp.wire.replies import Problem, Simple

__all__ = ["SPECS", "after", "getv", "level", "setv", "token"]

_LEVELS: Final[dict[str, FreshnessLevel]] = {"session": "session", "eventual": "eventual", "strong": "strong"}


async def token(client: CommandContext, args: Sequence[bytes]) -> str:
    """DURAMEN.TOKEN: everything that this connection may have seen of its table, as text for any other process."""
    table = await client.current_table()
    return str(table.token().merge(Token(client.token.tables, session=False)))


def after(client: CommandContext, args: Sequence[bytes]) -> Simple:
    """DURAMEN.AFTER token: this connection's reads wait until they are not older than the token."""
    try:
        asked = Token.parse(text_of(args[0]))
        if client.table is not None:
            asked.offsets(client.table.ref.id, table_name=client.table.ref.name)
    except InvalidToken as error:
        raise problem_of(error) from error
    # Kept as a session's: it may name other tables than the one that is selected when a read comes.
    merged = client.token.merge(asked).tables
    if sum(map(len, merged.values())) > TOKEN_OFFSETS_MAX:
        raise Problem(
            f"ERR the tokens of a connection name at most {TOKEN_OFFSETS_MAX} partitions: use a new connection for it"
        )
    client.token = Token(merged, session=True)
    client.changed()
    return Simple("OK")


def level(client: CommandContext, args: Sequence[bytes]) -> Any:
    """DURAMEN.LEVEL [session | eventual | strong]"""
    if not args:
        return client.level
    wanted = _LEVELS.get(text_of(args[0]).lower())
    if len(args) > 1 or wanted is None:
        raise Problem(f"ERR the level is one of {', '.join(_LEVELS)}")
    client.level = wanted
    client.changed()
    return Simple("OK")


def getv(view: View, args: Sequence[bytes]) -> list[Any] | None:
    """DURAMEN.GETV key: [value, version]"""
    entry = view.get(args[0])
    return None if entry is None else [entry.value, known_version(entry)]


def setv(view: View, args: Sequence[bytes]) -> PendingVersion | None:
    """DURAMEN.SETV key value version [EX s | PX ms | EXAT s | PXAT ms]: the new version, nil where it has another one.

    Version -1 means a key that is not there. The log decides, once, and every replica alike: also the nil.
    """
    key, value, asked = args[0], args[1], integer(args[2])
    if asked < NOTHING:
        raise Problem("ERR a version is an offset, or -1 for a key that is not there")
    options = set_options(args[3:], view.now_ms)
    if options.condition or options.get or options.keep:
        raise SYNTAX
    return view.put_over(key, Offset(asked), value, options.expires_at_ms)


_SETV: Final = CommandSpec(
    *("duramen.setv", -4, frozenset({"write", "denyoom", "alone"}), "change", setv, 1, 1, 1),
    summary="Sets a value if its version is still the one that is named.",
)

SPECS: Final = (
    async_command("duramen.token", 1, token, summary="Returns a token of all that was seen."),
    sync_command("duramen.after", 2, after, "alone", summary="Lets the next reads wait for a token."),
    sync_command("duramen.level", -1, level, "alone", summary="session, eventual or strong."),
    read_command("duramen.getv", 2, getv, "Returns a value with its version."),
    _SETV,
)
"""The commands of this module."""
