"""What an audit of an export or of a session found, left with the servers, and what they know of earlier ones."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from duramen.cli.admin.connection import ask
from duramen.cli.terminal.output import say, say_json, say_note
from log_tier.model.errors import DuramenError
from log_tier.model.identifiers import NOTHING
from log_tier.privacy.masked_url import mask_url
from log_tier.tally.audit_note import NAME_MAX, REASON_MAX
from router.admin.answers.document import document_of
from router.admin.client import AdminConnection
from router.proto import admin_pb2 as pb

__all__ = ["export_name", "export_note", "leave_note", "say_noted", "session_name", "session_note"]


def export_name(url: str) -> str:
    """The name of a place of exports, without secrets."""
    return _text(mask_url(url), NAME_MAX)


def session_name(runs: Iterable[pb.AdminAcknowledged]) -> str:
    """The name of a session: its producers, which no other session has."""
    producers = sorted({run.producer for run in runs})
    others = f" and {len(producers) - 1} more" if len(producers) > 1 else ""
    return f"{producers[0]:016x}{others}" if producers else ""


def export_note(table: str, name: str, found: Sequence[Any]) -> pb.AdminNoteAuditRequest:
    """Of an audit of exports, a `PartAudit` for each, the newest export first: of each partition what the newest one
    has; it is different where any of them is. An export of an earlier table of that name is left out, and so is what
    a later audit may find equal.
    """
    note = pb.AdminNoteAuditRequest(table=table, tier="export", name=name)
    if not found:
        return note
    note.table_id = found[0].export.table
    by_partition: dict[int, list[Any]] = {}
    for each in found:
        if each.export.table == note.table_id:
            by_partition.setdefault(each.partition, []).append(each)
    for partition, audits in sorted(by_partition.items()):
        newest = audits[0]
        wrong = next((each for each in audits if each.verdict == "different"), None)
        if wrong is None and newest.verdict == "unverified":
            continue
        said = newest if wrong is None else wrong
        reason = f"{said.export.folder}: {said.reason}" if said.reason else ""
        note.parts.add(
            partition=partition,
            rows=newest.said.rows,
            until=newest.until,
            verdict=said.verdict,
            reason=_text(reason, REASON_MAX),
        )
    return note


def session_note(table: str, name: str, table_ids: set[str], minutes: Sequence[pb.AdminMinute]) -> Any:
    """Of an audit of a session: of each partition how many records were acknowledged. `table_ids`: of its runs."""
    note = pb.AdminNoteAuditRequest(table=table, tier="session", name=name)
    if len(table_ids) == 1:
        (note.table_id,) = table_ids
    by_partition: dict[int, list[pb.AdminMinute]] = {}
    for minute in minutes:
        if minute.acknowledged:
            by_partition.setdefault(minute.partition, []).append(minute)
    for partition, found in sorted(by_partition.items()):
        counts = [count for minute in found for count in minute.acknowledged]
        verdicts = {count.verdict for count in counts}
        wrong = next((count for count in counts if count.verdict == "different"), None)
        unknown = next((minute.reason for minute in found if minute.verdict == "not compared"), "")
        note.parts.add(
            partition=partition,
            rows=sum(count.counted.offsets for count in counts),
            until=max((count.counted.last for count in counts), default=NOTHING),
            verdict="different" if wrong is not None else "not compared" if "not compared" in verdicts else "equal",
            reason=_text(unknown if wrong is None else wrong.reason, REASON_MAX),
        )
    return note


def leave_note(at: str, timeout: float, note: pb.AdminNoteAuditRequest, *, forget: bool = False) -> None:
    """Leave it with the servers. What they refuse is said, and is no error of the audit; to `forget` is the command
    itself, and raises what they say.
    """

    async def left(admin: AdminConnection) -> None:
        await admin.note_audit(note)

    if not note.parts and not forget:
        return
    try:
        ask(at, timeout, left)
    except DuramenError as error:
        if forget:
            raise
        say_note(f"the servers did not keep this result: {error.message}")


async def say_noted(admin: AdminConnection, table: str, partition: int | None, *, json: bool) -> set[str]:
    """What the servers know of exports and sessions; returns the verdicts."""
    verdicts: set[str] = set()
    for each in await admin.partitions(table):
        if partition not in (None, each.partition):
            continue
        for audited in each.audits:
            verdicts.add(audited.verdict)
            if json:
                say_json({"table": each.table, "partition": each.partition, **document_of(audited)}, flush=True)
            else:
                say(f"{each.table}/{each.partition} {_line(audited)}")
    return verdicts


def _line(audited: pb.AdminAudited) -> str:
    """`exported 81,204 up to offset 90,311, checked 2026-11-27 14:05 (s3://lake/orders)`."""
    what = {"export": "exported", "session": "acknowledged"}.get(audited.tier, audited.tier)
    checked = datetime.fromtimestamp(audited.checked_ms / 1000).strftime("%Y-%m-%d %H:%M")
    verdict = "" if audited.verdict == "equal" else f"  {audited.verdict}"
    reason = f": {audited.reason}" if audited.reason else ""
    up_to = f"up to offset {audited.until:,}, checked {checked} ({audited.name})"
    return f"{what} {audited.rows:,} {up_to}{verdict}{reason}"


def _text(text: str, most: int) -> str:
    """So much of it, and nothing that moves a terminal's cursor."""
    shown = "".join(character if character.isprintable() else "?" for character in text)
    return shown if len(shown) <= most else shown[: most - 1] + "…"
