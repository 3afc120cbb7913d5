"""`duramen audit`: who did what, of the table `_duramen_audit`; and `duramen audit data`: is all of the log folded?"""

from __future__ import annotations

import re
import time
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from duramen.cli.admin.arguments import parse_place
from duramen.cli.terminal.exits import ERROR, OK, RETRY
from duramen.cli.terminal.options import AT_DEFAULT, At, Json, Timeout
from duramen.cli.terminal.output import say, say_json, say_table
from log_tier.audit.row_format import first_key_at, parse_row
from log_tier.model.errors import InvalidRequest
from log_tier.model.identifiers import AUDIT_TABLE

__all__ = ["app", "parse_time_ms"]

app = typer.Typer(no_args_is_help=False, rich_markup_mode=None)

_AGO: Final = re.compile(r"(\d{1,9})([smhdw])")
_UNIT_MS: Final = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}

_REFUSALS: Final = ("refused", "ended")

_CODES: Final = {"equal": OK, "not compared": OK, "different": ERROR, "unverified": RETRY}


def parse_time_ms(text: str, *, now_ms: int) -> int:
    """`90m` is so long ago; `2026-11-25T14:00` is that time, here where it names no zone. Raises `InvalidRequest`."""
    if (found := _AGO.fullmatch(text)) is not None:
        return now_ms - int(found[1]) * _UNIT_MS[found[2]]
    try:
        return round(datetime.fromisoformat(text).timestamp() * 1000)
    except (ValueError, OverflowError, OSError) as error:
        raise InvalidRequest(
            f"{text!r} is no time: write how long ago (30s, 15m, 1h, 7d, 2w), or a time like 2026-11-25T14:00"
        ) from error


@app.callback(invoke_without_command=True)
def audit(
    since: Annotated[str, typer.Option("--since", metavar="TIME", help="From then on: 15m, 1h, 7d ago, or a time.")] = (
        "1h"
    ),
    until: Annotated[
        str, typer.Option("--until", metavar="TIME", help="Up to then, itself not included; by default up to now.")
    ] = "",
    user: Annotated[str, typer.Option("--user", help="Only what this user did, or was claimed to do.")] = "",
    table: Annotated[str, typer.Option("--table", help="Only what concerns this table.")] = "",
    refused: Annotated[bool, typer.Option("--refused", help="Only what was refused.")] = False,
    limit: Annotated[int | None, typer.Option("--limit", "-n", min=1, help="No more than the first so many.")] = None,
    at: At = AT_DEFAULT,
    timeout: Timeout = 10.0,
    json: Json = False,
) -> None:
    """Show who did what: logins, refused calls, administration, changes of users, chosen reads and writes.

    There are rows once the cluster has users. It takes a grant: read _duramen_audit. With --json each row is one line
    with all its fields, in the order of time: that is the export.

    \b
      duramen audit --since 1h --user alice
      duramen audit --since 7d --refused --table orders
      duramen audit --since 2026-11-01 --until 2026-12-01 --json > november.jsonl
      duramen audit data orders                       # is every record of the log in every replica?
    """
    from duramen.cli.terminal.connection import connected

    now_ms = time.time_ns() // 1_000_000
    start = first_key_at(parse_time_ms(since, now_ms=now_ms))
    end = first_key_at(parse_time_ms(until, now_ms=now_ms)) if until else None
    if end is not None and end <= start:
        raise InvalidRequest(f"--until {until} is not after --since {since}")
    shown: list[dict[str, Any]] = []
    count = 0
    with connected(at, timeout) as database:
        for key, value in database.table(AUDIT_TABLE).scan(start=start, end=end, level="strong"):
            row = parse_row(key, value)
            if not _is_asked_for(row, user, table, refused):
                continue
            count += 1
            if json:
                say_json(row)
            else:
                shown.append(row)
            if count == limit:
                break
    if not json:
        _say_rows(shown)


@app.command("data")
def data(
    where: Annotated[str, typer.Argument(metavar="TABLE[/PARTITION]", help="What to look at.")],
    since: Annotated[
        str, typer.Option("--since", metavar="TIME", help="From that minute on: 15m, 1h, 7d ago, or a time.")
    ] = "1h",
    session: Annotated[
        Path | None,
        typer.Option("--session", metavar="FILE", help="Compare what `Database.acknowledged()` of a client said, too."),
    ] = None,
    export: Annotated[
        str, typer.Option("--export", metavar="URL", help="Compare the exports there with the table, and nothing else.")
    ] = "",
    snapshots: Annotated[
        str,
        typer.Option("--snapshots", metavar="URL", help="With --export: the cluster's snapshot store, to read too."),
    ] = "",
    note: Annotated[
        bool, typer.Option("--note/--no-note", help="Leave the result of --export or --session with the servers.")
    ] = True,
    forget: Annotated[
        bool,
        typer.Option(
            "--forget", help="Audit nothing: the servers forget what they know of this --export or --session."
        ),
    ] = False,
    at: At = AT_DEFAULT,
    timeout: Timeout = 300.0,
    json: Json = False,
) -> int:
    """Compare what each replica has folded with what the log holds, minute by minute, in numbers that must be equal.

    A replica counts in the transaction of the fold, and the log's batches are read again and counted: first and last
    offset, how many, and a checksum over their checksums. Replicas keep an hour of minutes, and a day of hours. Minutes
    are those of the log's timestamps. A difference names offsets.

    With --session, what a client was acknowledged is looked for in the log as well: the file has the text that its
    `Database.acknowledged()` returned.

    With --export, each partition of each export there is counted three times: rows and checksum as its manifest says,
    as its files hold, and as the table held at the export's offset, or its log had up to there. What cannot be had any
    more is not compared, and the line says so. It needs duramen[spark], and no Java.

    What --export or --session found stays with the servers, by partition, until it is audited again or forgotten: this
    command, `duramen status`, metrics and the console show it, with its time. It takes the grant admin on the table.

    Exit code 1 where a replica, an export or a session differs, 5 where one did not answer.

    \b
      duramen audit data orders
      duramen audit data orders/3 --since 24h --json
      duramen audit data orders --session acknowledged.json
      duramen audit data orders --export s3://lake/orders
    """
    from duramen.cli.admin.connection import ask
    from duramen.cli.data.audit_notes import export_name, export_note, leave_note, session_name, session_note
    from router.proto import admin_pb2 as pb

    table, partition = parse_place(where)
    if export and session is not None:
        raise InvalidRequest("--session and --export are two audits: ask for one after the other")
    if snapshots and not export:
        raise InvalidRequest("--snapshots is for --export")
    if forget and not export and session is None:
        raise InvalidRequest("--forget is for --export or --session: name what the servers shall forget")
    runs = _acknowledged(session, partition)
    if forget:
        name = export_name(_absolute(export)) if export else session_name(runs)
        tier = "export" if export else "session"
        leave_note(at, timeout, pb.AdminNoteAuditRequest(table=table, tier=tier, name=name), forget=True)
        return OK
    if export:
        from duramen.cli.spark.export_audit import say_export_audit

        found = say_export_audit(table, partition, export, snapshots=snapshots, at=at, timeout=timeout, json=json)
        if note:
            leave_note(at, timeout, export_note(table, export_name(_absolute(export)), found))
        return _code({each.verdict for each in found})
    since_ms = max(0, parse_time_ms(since, now_ms=time.time_ns() // 1_000_000))
    minutes: list[Any] = []

    async def compared(admin: Any) -> set[str]:
        return await _say_minutes(admin, table, partition, since_ms, runs, minutes, json=json)

    verdicts = ask(at, timeout, compared)
    if runs and note:
        left = session_note(table, session_name(runs), {run.table_id for run in runs}, minutes)
        leave_note(at, timeout, left)
    if not minutes and not json:
        say(f"nothing was written to {where} since then")
    return _code(verdicts)


async def _say_minutes(
    admin: Any, table: str, partition: int | None, since_ms: int, runs: list[Any], minutes: list[Any], *, json: bool
) -> set[str]:
    """Print what was compared, and what the servers know of earlier audits; return the verdicts. `minutes` is filled
    with those that a session was acknowledged, and one of those that were compared.
    """
    from duramen.cli.admin.answer import say_answer
    from duramen.cli.admin.minutes import say_minute
    from duramen.cli.data.audit_notes import say_noted

    verdicts: set[str] = set()
    async for each in admin.audit_data(table, partition, since_ms=since_ms, acknowledged=runs):
        verdicts.add(each.verdict)
        if each.acknowledged or not minutes:
            minutes.append(each)
        if json:
            say_answer(each, flush=True)
        else:
            say_minute(each)
    return verdicts | await say_noted(admin, table, partition, json=json)


def _code(verdicts: set[str]) -> int:
    codes = {_CODES.get(verdict, OK) for verdict in verdicts}
    return ERROR if ERROR in codes else max(codes, default=OK)


def _absolute(url: str) -> str:
    from duramen.cli.spark.bulk import absolute

    return absolute(url)


def _acknowledged(session: Path | None, partition: int | None) -> list[Any]:
    if session is None:
        return []
    from duramen.client.model.acknowledged_json import parse_acknowledged
    from router.admin.audits.audit_acknowledged import run_message

    try:
        text = session.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidRequest(f"the file of --session cannot be read: {error}") from error
    runs = parse_acknowledged(text)
    return [run_message(run) for run in runs if partition in (None, run.partition.partition)]


def _is_asked_for(row: dict[str, Any], user: str, table: str, refused: bool) -> bool:
    if refused and row["result"] not in _REFUSALS:
        return False
    return (not user or row["user"] == user) and (not table or row["table"] == table)


def _say_rows(rows: list[dict[str, Any]]) -> None:
    if not rows:
        say("nothing of this is in the audit")
        return
    columns = ["time", "user", "from", "what", "result", "table", "key", "times", "detail"]
    say_table(columns, [_cells(row) for row in rows], right=["times"])


def _cells(row: dict[str, Any]) -> list[object]:
    name = row["user"] or "(nobody)"
    claimed = row["user"] and row["proof"] == "nothing"
    what = row["action"] if row["kind"] not in ("login", "lost") else row["kind"]
    detail = row["detail"] + (f" [catalog {row['offset']}]" if row["offset"] >= 0 else "")
    return [
        datetime.fromtimestamp(row["time_ms"] / 1000).strftime("%Y-%m-%d %H:%M:%S"),
        f"{name} (claimed)" if claimed else name,
        row["address"],
        what,
        row["result"],
        row["table"],
        _printable(row["key_text"] or row["key"]),
        row["count"],
        _printable(detail),
    ]


def _printable(text: str) -> str:
    """Callers choose some of it: nothing may move a terminal's cursor."""
    return "".join(character if character.isprintable() else "?" for character in text)
