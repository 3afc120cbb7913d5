"""`duramen admin explain | verify`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from duramen.cli.admin.answer import say_answer
from duramen.cli.admin.arguments import parse_place
from duramen.cli.admin.connection import ask
from duramen.cli.admin.format import local_time, offset, place
from duramen.cli.terminal.exits import ERROR, OK, RETRY
from duramen.cli.terminal.options import AT_DEFAULT, At, Json, Timeout
from duramen.cli.terminal.output import say, say_table
from duramen.cli.terminal.text import bytes_of, counted

if TYPE_CHECKING:
    from router.admin.client import AdminConnection
    from router.proto.admin_pb2 import AdminComparison, AdminHeldKey

__all__ = ["explain", "verify"]

_CODES = {"equal": OK, "single": OK, "different": ERROR, "unverified": RETRY}


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
        (each.node, each.role, each.state, offset(each.applied), _version(each), _value(each))
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
            _cut(each.value, each.value_bytes),
            "" if each.condition == "none" else each.condition,
            each.verdict,
        )
        for each in found.writes
    ]
    say_table(columns, rows_of_writes, right=["offset"])
    if len(found.writes) < writes and found.searched_from > found.earliest:
        say(f"the log was searched from offset {found.searched_from:,} on")


def _value(each: AdminHeldKey) -> str:
    if each.error:
        return f"({each.error})"
    return "(absent)" if not each.present else _cut(each.value, each.value_bytes)


def _version(each: AdminHeldKey) -> str:
    return offset(each.version if each.HasField("version") else None)


def _cut(text: str, size: int) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 60 else f"{line[:60]}… ({counted(size, 'byte')})"


def verify(
    where: Annotated[str, typer.Argument(metavar="TABLE[/PARTITION]", help="What to compare.")],
    at: At = AT_DEFAULT,
    timeout: Timeout = 300.0,
    json: Json = False,
) -> int:
    """Compare all replicas of each partition at one offset; name the keys in which they differ.

    Exit code 1 where replicas differ, 5 where not all of them could be asked. Reads everything once at every node, a
    second or so for a million keys; writes go on meanwhile.

    \b
      duramen admin verify flights
      duramen admin verify flights/3 --json
    """
    table, partition = parse_place(where)
    codes: set[int] = set()

    async def compared(admin: AdminConnection) -> None:
        async for each in admin.verify(table, partition):
            codes.add(_CODES[each.verdict])
            if json:
                say_answer(each, flush=True)
            else:
                _say_verified(each)

    ask(at, timeout, compared)
    return ERROR if ERROR in codes else max(codes, default=OK)


def _say_verified(each: AdminComparison) -> None:
    held = ", ".join(f"{replica.node} {counted(replica.keys, 'key')}" for replica in each.replicas)
    at = "" if not each.HasField("offset") else f" at offset {offset(each.offset)}"
    reason = f": {each.reason}" if each.reason else ""
    say(f"{place(each)}  {each.verdict}{at}  {held}{reason}")
    for difference in each.differences:
        replicas = "  ".join(
            f"{replica.node}: " + (f"version {replica.version}, {replica.hash[:8]}" if replica.present else "absent")
            for replica in difference.replicas
        )
        say(f"  key {difference.key} at offset {difference.offset}  {replicas}")
    if each.differing_buckets and not each.differences:
        say(f"  {each.differing_buckets} of {each.buckets} buckets of keys differed; no key does any more")
