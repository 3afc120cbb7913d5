"""`duramen history`: the versions of one key."""

from __future__ import annotations

from typing import Annotated

import typer

from duramen.cli.data.table_text import text_of
from duramen.cli.terminal.exits import NOT_FOUND, OK
from duramen.cli.terminal.options import AT_DEFAULT, At, AtTime, AtToken, Json, Timeout, asked_state
from duramen.cli.terminal.output import say, say_json, say_note
from log_tier.model.errors import InvalidRequest

__all__ = ["history"]


def history(
    table: Annotated[str, typer.Argument(metavar="TABLE", help="A table that keeps a history.")],
    key: Annotated[
        list[str],
        typer.Argument(
            metavar="KEY...", help="The key: text or base64:…; where keys have fields, a list of JSON, or each field."
        ),
    ],
    at_token: AtToken = None,
    at_time: AtTime = None,
    limit: Annotated[int, typer.Option("--limit", "-n", metavar="N", min=1, max=10_000, help="So many.")] = 100,
    at: At = AT_DEFAULT,
    timeout: Timeout = 10.0,
    json: Json = False,
) -> int:
    """Show the versions of a key, one a line, the newest first. Exit code 3 where it has none.

    Each has the offset of the change, its time, and the value; a deletion has none. With --json it has a token as well,
    which `get --at-token` takes. The table keeps a history if it was made with `duramen table create --history`; the
    last version may be older than what it keeps: it is what the key had then.

    \b
      duramen history prices JFK
      duramen history prices JFK --at-time 2026-01-31T12:00:00Z -n 1
      duramen history departures UA 1545 --json
    """
    from duramen.cli.terminal.connection import connected

    state = asked_state(at_token, at_time)
    with connected(at, timeout) as database:
        text = text_of(database, table)
        keys = text.keys(key)
        if len(keys) != 1:
            raise InvalidRequest(f"history takes one key, and {len(keys)} are given")
        versions = database.table(table).history(keys[0], at=state, limit=limit)
        for each in versions:
            time = None if each.time is None else each.time.isoformat(timespec="milliseconds")
            if json:
                say_json(
                    {
                        "table": table,
                        "key": text.json_key(keys[0]),
                        "partition": each.partition,
                        "offset": each.offset,
                        "time": time,
                        "value": None if each.value is None else text.json_value(each.value),
                        "deleted": each.value is None,
                        "expires_at_ms": each.expires_at_ms or None,
                        "token": each.token,
                    }
                )
            else:
                value = "(deleted)" if each.value is None else text.value(each.value, lines=False)
                say(f"{each.offset}\t{time or '-'}\t{value}")
    if not versions:
        say_note(f"error: {table} has no version of the key {text.key(keys[0])}")
    return OK if versions else NOT_FOUND
