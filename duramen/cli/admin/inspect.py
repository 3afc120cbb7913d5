"""`duramen admin explain | verify`."""

from __future__ import annotations

from typing import Annotated

import typer

from duramen.cli.admin.arguments import parse_place
from duramen.cli.admin.figures import local_time, offset, place
from duramen.cli.terminal.exits import ERROR, OK, RETRY
from duramen.cli.terminal.options import AT_DEFAULT, At, Json, Timeout
from duramen.cli.terminal.output import say, say_table
from duramen.cli.terminal.text import bytes_of

__all__ = ["explain", "verify"]

_CODES = {"equal": OK, "single": OK, "different": ERROR, "damaged": ERROR, "unverified": RETRY}


def explain(
    table: Annotated[str, typer.Argument(metavar="TABLE", help="The table's name.")],
    key: Annotated[str, typer.Argument(metavar="KEY", help="The key, as text or base64:…")],
    writes: Annotated[int, typer.Option("--writes", "-n", min=1, max=1000, help="How many of its last writes.")] = 10,
    at: At = AT_DEFAULT,
    timeout: Timeout = 30.0,
    json: Json = False,
) -> None:
    """Show everything about one key: its partition, what each replica holds, its last writes in the log.

    The log is read backwards for the writes, at most a million records of it.

    \b
      duramen admin explain flights UA1545
      duramen admin explain flights UA1545 --writes 100 --json
    """
    from duramen.cli.admin.answer import say_answer
    from duramen.cli.admin.connection import ask
    from duramen.cli.admin.rendering import cut_text, held_value, held_version

    key_bytes = bytes_of(key)
    found = ask(at, timeout, lambda admin: admin.explain(table, key_bytes, writes=writes))
    if json:
        say_answer(found)
        return
    how = f"slot {found.slot}" if found.HasField("slot") else f"by {found.partitioner}"
    say(f"key {found.key} lies in {how}, partition {place(found)}")
    say(f"its log holds {found.earliest:,} to {offset(found.latest)}")
    columns = ["replica", "role", "state", "applied", "version", "value"]
    rows = [
        (each.node, each.role, each.state, offset(each.applied), held_version(each), held_value(each))
        for each in found.replicas
    ]
    say_table(columns, rows, right=["applied", "version"])
    if not found.writes:
        say(f"no write of it is in the log from offset {found.searched_from:,} on")
        return
    columns = ["offset", "time", "operation", "value", "condition", "verdict"]
    rows_of_writes = [
        (
            each.offset,
            local_time(each.timestamp_ms),
            each.operation + (" (atomic)" if each.grouped else ""),
            cut_text(each.value, each.value_bytes),
            "" if each.condition == "none" else each.condition,
            each.verdict,
        )
        for each in found.writes
    ]
    say_table(columns, rows_of_writes, right=["offset"])
    if len(found.writes) < writes and found.searched_from > found.earliest:
        say(f"the log was searched from offset {found.searched_from:,} on")


def verify(
    where: Annotated[str, typer.Argument(metavar="TABLE[/PARTITION]", help="What to compare.")],
    at: At = AT_DEFAULT,
    timeout: Timeout = 300.0,
    json: Json = False,
) -> int:
    """Compare all replicas of each partition at one offset; name the keys in which they differ.

    The entries of ordered indexes are compared with their rows, at each replica; those that are wrong are named by
    their row's key. Exit code 1 where replicas differ or entries are wrong, 5 where a replica did not answer. Reads
    everything once at every node, a second or so for a million keys, and two for a million entries; writes go on
    meanwhile.

    \b
      duramen admin verify flights
      duramen admin verify flights/3 --json
    """
    from duramen.cli.admin.answer import say_answer
    from duramen.cli.admin.connection import ask
    from duramen.cli.admin.rendering import say_comparison
    from router.admin.client import AdminConnection

    table, partition = parse_place(where)
    codes: set[int] = set()

    async def compared(admin: AdminConnection) -> None:
        async for each in admin.verify(table, partition):
            codes.add(_CODES[each.verdict])
            if json:
                say_answer(each, flush=True)
            else:
                say_comparison(each)

    ask(at, timeout, compared)
    return ERROR if ERROR in codes else max(codes, default=OK)
