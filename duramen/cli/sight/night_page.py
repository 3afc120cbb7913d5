"""The page that an operator looks at by night, as lines for a terminal of any size. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, Literal, NamedTuple

from duramen.cli.admin.figures import duration, size
from duramen.cli.terminal.text import counted, shown_line
from duramen.server.sight.status_history import PartitionFigures, StatusHistory

__all__ = ["PageLine", "Silence", "night_page"]

Style = Literal["title", "bad", "warn", "good", "head", "plain", "dim"]

# More troubles than that have one cause, or are dealt with one after the other.
_TROUBLES_MAX: Final = 4

_COLUMNS: Final = ("partition", "state", "copies", "written/s", "applied/s", "lag", "for", "trend", "level in")
_WIDTHS: Final = (24, 13, 6, 9, 9, 11, 11, 10, 0)
_COLUMNS_WIDE: Final = 120
"""Narrower terminals have columns no wider than their cells, so that a lag is seen on 80."""

_LEFT: Final = frozenset({"partition", "state", "level in"})


class PageLine(NamedTuple):
    """One line of the page, no wider than the terminal."""

    text: str
    style: Style


class Silence(NamedTuple):
    """A server does not answer."""

    since_s: float
    """How long ago its last answer came."""
    reason: str


def night_page(history: StatusHistory, at: str, columns: int, rows: int, silence: Silence | None) -> list[PageLine]:
    """The page of the server at `at`, for a terminal of `columns` × `rows`. `history` has one document at least.

    The troubles come first, then the machine, then as many partitions as there is room for. O(partitions).
    """
    facts = history.latest
    assert facts is not None, "a page was asked for before the first document"
    head = [*_title(facts, at, silence), *_troubles(facts), *_machine(facts, history)]
    room = max(0, rows - len(head))
    lines = [*head, *_partitions(history.partitions(), room, columns)][: max(1, rows)]
    return [PageLine(_fitted(line.text, columns), line.style) for line in lines]


def _title(facts: Mapping[str, Any], at: str, silence: Silence | None) -> Iterator[PageLine]:
    who = facts["name"] if facts["name"] == facts["role"] else f"{facts['role']} {facts['name']}"
    clock = datetime.fromtimestamp(facts["now_ms"] / 1000).strftime("%H:%M:%S")
    yield PageLine(f"duramen {facts['version']}  {at}  {who}  up {duration(facts['uptime_s'])}  {clock}", "title")
    if silence is not None:
        age = duration(silence.since_s)
        yield PageLine(f"NO ANSWER for {age}, what follows is as old: {silence.reason}", "bad")


def _troubles(facts: Mapping[str, Any]) -> Iterator[PageLine]:
    troubles: Sequence[Mapping[str, Any]] = facts["troubles"]
    if not troubles:
        yield PageLine("all is well", "good")
        return
    word = "not all is well" if facts["ready"] else "NOT READY"
    yield PageLine(f"{word}: {troubles[0]['what']}", "warn" if facts["ready"] else "bad")
    yield PageLine(f"do first: {facts['first']}", "head")
    for each in troubles[1:_TROUBLES_MAX]:
        yield PageLine(f"also: {each['what']}", "bad" if each["blocks"] else "warn")
    if len(troubles) > _TROUBLES_MAX:
        yield PageLine(f"and {len(troubles) - _TROUBLES_MAX} more (`duramen status --json`)", "warn")


def _machine(facts: Mapping[str, Any], history: StatusHistory) -> Iterator[PageLine]:
    yield PageLine("", "plain")
    nodes = facts["nodes"]
    if nodes:
        lost = [f"{each['node']} ({each['reason']})" for each in nodes if not each["alive"]]
        missing = f", lost: {', '.join(lost)}" if lost else ""
        alive = f"nodes   {len(nodes) - len(lost)} of {len(nodes)} answer{missing}"
        yield PageLine(alive, "bad" if lost else "plain")
    if (log := facts["log"]) is not None:
        rates = history.log_rates()
        speed = (
            ""
            if rates is None
            else f"{rates.batches:,.0f} batches/s  {size(round(rates.bytes))}/s  {rates.syncs:,.0f} syncs/s  "
        )
        p99_s = log.get("sync_p99_s")
        synced = "" if p99_s is None else f"  {_synced(p99_s)}"
        yield PageLine(f"log     {speed}{_queue(log)}{synced}", "plain")
    elif (server := facts.get("log_server")) is not None:
        yield _log_server(server)
    if (disk := facts["disk"]) is not None:
        full = history.disk_full_in_s()
        until = "" if full is None else f", full in {duration(full)} if it goes on so"
        yield PageLine(f"disk    {size(disk['free_bytes'])} of {size(disk['full_bytes'])} free{until}", "plain")
    parts = [] if facts["memory_bytes"] is None else [f"memory  {size(facts['memory_bytes'])}"]
    if (open_ := facts["connections"]) is not None:
        parts.append(f"streams {open_['streams']:,} of {open_['streams_max']:,}")
        parts += [] if open_["requests"] is None else [f"requests {open_['requests']:,}"]
    if parts:
        yield PageLine("  ".join(parts), "plain")


def _log_server(server: Mapping[str, Any]) -> PageLine:
    """The log in another process, as its server said lately."""
    if not server["alive"]:
        return PageLine(f"log     its server does not answer: {server['reason']}", "bad")
    parts = [f"at {server['address']}"]
    if server.get("queue_age_s") is not None:
        parts.append(_queue(server))
        parts.append(f"oldest {duration(server['queue_age_s'])}")
    if server.get("sync_p99_s") is not None:
        parts.append(_synced(server["sync_p99_s"]))
    if server["disk_free_bytes"] is not None:
        parts.append(f"disk {size(server['disk_free_bytes'])} of {size(server['disk_full_bytes'])} free")
    return PageLine("log     " + "  ".join(parts), "plain")


def _synced(p99_s: float) -> str:
    return f"sync p99 {1000 * p99_s:,.1f} ms"


def _queue(log: Mapping[str, Any]) -> str:
    word = "batch" if log["queued_batches"] == 1 else "batches"
    return f"queue {log['queued_batches']:,} {word} ({size(log['queued_bytes'])})"


def _partitions(partitions: Sequence[PartitionFigures], room: int, columns: int) -> Iterator[PageLine]:
    """A table of the first ones, no longer than `room` lines."""
    if room < 3 or not partitions:
        if partitions and room:
            yield _rest(partitions)
        return
    yield PageLine("", "plain")
    room -= 2
    shown = partitions if len(partitions) <= room else partitions[: max(0, room - 1)]
    rows = [_cells(each) for each in shown]
    widths = _WIDTHS if columns >= _COLUMNS_WIDE else _narrow((_COLUMNS, *rows))
    yield PageLine(_row(_COLUMNS, widths), "head")
    for each, cells in zip(shown, rows, strict=True):
        style: Style = "warn" if each.state == "behind" or each.is_well is False else "plain"
        yield PageLine(_row(cells, widths), style if each.state in ("ready", "behind") else "bad")
    if len(shown) < len(partitions):
        yield _rest(partitions[len(shown) :])


def _rest(partitions: Sequence[PartitionFigures]) -> PageLine:
    bad = sum(not each.is_well for each in partitions)
    word = f"{bad:,} of them not well" if bad else "all well"
    return PageLine(f"and {counted(len(partitions), 'partition')} more without room here, {word}", "dim")


def _cells(each: PartitionFigures) -> tuple[str, ...]:
    lag = f"{each.lag_records:,}" if each.lag_records else "-"
    lasts = duration(each.lag_s) if each.lag_records else "-"
    level = "" if not each.lag_records or each.lag_per_s is None else "never at this rate"
    if level and each.level_in_s is not None:
        level = duration(each.level_in_s)
    copies = f"{each.ready}/{each.wanted}"
    reason = each.reason if each.state != "ready" else ""
    return (
        each.name, each.state, copies, _rate(each.written_per_s), _rate(each.applied_per_s), lag, lasts,
        "" if each.lag_per_s is None or not each.lag_records else f"{each.lag_per_s:+,.0f}/s", reason or level,
    )  # fmt: skip


def _rate(per_s: float | None) -> str:
    return "" if per_s is None else f"{per_s:,.0f}"


def _narrow(rows: Sequence[Sequence[str]]) -> tuple[int, ...]:
    """Widths of columns that are no wider than what stands in them."""
    widest = [max(len(shown_line(cell)) for cell in column) for column in zip(*rows, strict=True)]
    return tuple(min(width, found) for width, found in zip(_WIDTHS, widest, strict=True))


def _row(cells: Sequence[str], widths: Sequence[int]) -> str:
    fields = []
    for column, width, cell in zip(_COLUMNS, widths, cells, strict=True):
        shown = shown_line(cell)
        if width and len(shown) > width:
            shown = shown[: width - 1] + "…"
        fields.append(shown.ljust(width) if column in _LEFT else shown.rjust(width))
    return " ".join(fields).rstrip()


def _fitted(text: str, columns: int) -> str:
    """On one line of the terminal."""
    shown = shown_line(text)
    return shown if len(shown) <= columns else shown[: max(0, columns - 1)] + "…"
