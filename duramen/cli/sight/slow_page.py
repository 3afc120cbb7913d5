"""The slow calls of a server as lines for people, newest first. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from duramen.cli.terminal.text import counted, shown_line

__all__ = ["slow_page"]

_COLUMNS: Final = ("when", "duration", "call", "table", "key", "user", "from", "where the time went")
_RIGHT: Final = frozenset({"duration"})

_CELL_MAX: Final = 40
"""Characters of a name: what a server sends may be as long as it likes."""


def slow_page(document: Mapping[str, Any]) -> list[str]:
    """A line for each call, below a header and a line that says what is slow; one line where there is none."""
    threshold = document["threshold_ms"]
    if not threshold:
        return ["this server keeps no slow calls: its slow_call_ms is 0"]
    calls = document["calls"]
    if not calls:
        return [f"no call that is shown to you has taken {threshold:,} ms or longer"]
    rows = [_COLUMNS, *(_row(call) for call in calls)]
    widths = [max(len(row[number]) for row in rows) for number in range(len(_COLUMNS))]
    return [_counts(document, len(calls)), "", *(_line(row, widths) for row in rows)]


def _counts(document: Mapping[str, Any], shown: int) -> str:
    counts = f"{counted(shown, 'call')} of {document['threshold_ms']:,} ms or longer, newest first"
    total, left_out = document["total"], document["left_out"]
    if total is not None and total > shown:
        counts += f"; there were {total:,} since the server began"
    if left_out:
        counts += f", {left_out:,} of them too many at once to be kept"
    return counts


def _row(call: Mapping[str, Any]) -> Sequence[str]:
    table, partition = call["table"], call["partition"]
    place = "-" if table is None else table if partition is None else f"{table}/{partition}"
    what = call["call"] if call["outcome"] == "done" else f"{call['call']} ({call['outcome']})"
    when = datetime.fromtimestamp(call["ended_ms"] / 1000).strftime("%m-%d %H:%M:%S")
    cells = (what, place, call.get("key_text") or call["key"], call["user"], call["peer"])
    return (when, _ms(call["duration_ms"]), *(_cell(each) for each in cells), _parts(call["parts"]))


def _parts(parts: Mapping[str, float | None]) -> str:
    """The longest first; what is not known last."""
    known = sorted(((spent, name) for name, spent in parts.items() if spent is not None), reverse=True)
    texts = [f"{_name(name)} {_ms(spent)}" for spent, name in known]
    unknown = [_name(name) for name, spent in parts.items() if spent is None]
    if unknown:
        texts.append(f"{' and '.join(unknown)} not known here")
    return ", ".join(texts) or "-"


def _name(part: str) -> str:
    return shown_line(part.removesuffix("_ms"))[:_CELL_MAX]


def _ms(spent: float) -> str:
    return f"{spent:,.0f} ms" if spent >= 10 else f"{spent:.1f} ms"


def _cell(text: str | None) -> str:
    shown = shown_line(text or "-")
    return shown if len(shown) <= _CELL_MAX else shown[: _CELL_MAX - 1] + "…"


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    fields = [
        cell.rjust(width) if column in _RIGHT else cell.ljust(width)
        for column, cell, width in zip(_COLUMNS, row, widths, strict=True)
    ]
    return "  ".join(fields).rstrip()
