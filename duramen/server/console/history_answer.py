"""`GET /history`: what is asked, and the JSON that answers it. Pure. docs/FORMATS.md describes both."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from operator import sub
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qs

from duramen.server.console.history import HOUR_S, WEEK_S, ServerHistory
from duramen.server.console.history_ring import STATES, HistoryRow, PartitionNames, ServerSample
from log_tier.model.errors import InvalidRequest

__all__ = ["HISTORY_FORMAT", "HistoryQuery", "HistoryView", "history_to_json", "look_back", "parse_history_query"]

HISTORY_FORMAT: Final = 1

POINTS_MAX: Final = HOUR_S
"""An hour, second by second; so many are shared by the partitions that one answer shows singly."""
_POINTS_USUAL: Final = 360
"""A graph on a screen shows no more, and every answer may have as many."""
_OF_MAX: Final = 32
"""Partitions that one answer shows singly: what a screen has rows for. 10 kB each."""


class HistoryQuery(NamedTuple):
    """What is asked."""

    since_s: float = -float(HOUR_S)
    """Seconds since 1970; below zero: seconds ago."""
    step_s: int = 0
    """Seconds between two points; 0: as it fits."""
    of: tuple[tuple[str, int], ...] = ()
    """Partitions that are shown singly."""


class HistoryView(NamedTuple):
    """The rows that answer a query."""

    points: Sequence[Sequence[HistoryRow]]
    """By step; the first is the one before the first that is shown."""
    step_s: int
    begin_ms: int
    """When the first step that is shown begins, by the server's wall clock of now."""
    now_ms: int
    kept_step_s: int
    """Seconds between two rows that are kept."""


def parse_history_query(text: str) -> HistoryQuery:
    """The part of a target behind `?`. Raises `InvalidRequest`."""
    try:
        fields = parse_qs(text, keep_blank_values=True, strict_parsing=bool(text), max_num_fields=_OF_MAX + 2)
        since_s, step_s = float(_one(fields, "since", f"{-HOUR_S}")), int(_one(fields, "step", "0"))
        of = tuple(_partition(each) for each in fields.pop("of", ()))
    except ValueError as error:
        raise InvalidRequest(f"the query is none that /history answers: {error}") from error
    if fields or not math.isfinite(since_s) or not 0 <= step_s <= WEEK_S or len(of) > _OF_MAX:
        raise InvalidRequest(
            f"/history takes since (seconds), step (0 to {WEEK_S} seconds) and {_OF_MAX} times of=TABLE/PARTITION"
        )
    return HistoryQuery(since_s, step_s, of)


def look_back(history: ServerHistory, query: HistoryQuery, now_s: float, now_ms: int) -> HistoryView:
    """The rows for a query. `now_s`: on the clock of `ServerHistory.record`; `now_ms`: the wall clock. O(rows)."""
    ago_s = -query.since_s if query.since_s < 0 else now_ms / 1000 - query.since_s
    ago_s = min(max(ago_s, 0.0), float(WEEK_S))
    ring = history.ring(now_s - ago_s, now_s)
    points_max = max(_POINTS_USUAL, POINTS_MAX // max(1, len(query.of))) if query.step_s else _POINTS_USUAL
    fewest = math.ceil(ago_s / points_max)
    # Whole steps of what is kept, so that each point has as many rows as the next.
    step_s = ring.step_s * max(1, math.ceil(max(query.step_s, fewest) / ring.step_s))
    begin_s = (now_s - ago_s) // step_s * step_s
    points = ring.points(begin_s - step_s, now_s, step_s)
    return HistoryView(points, step_s, now_ms - round((now_s - begin_s) * 1000), now_ms, ring.step_s)


def history_to_json(
    view: HistoryView,
    query: HistoryQuery,
    shows: Callable[[str], bool] | None = None,
    kept: Mapping[str, Any] | None = None,
) -> bytes:
    """The answer for a caller to whom `shows` says which tables are shown; None: all. What is null was not observed.
    `kept`: how it stands with what outlives the server; None: nothing does.

    O(points × partitions), some 0.1 µs each.
    """
    server, shown = ServerSample(), _Shown(shows)
    samples: list[ServerSample] = []
    totals: list[_Totals] = []
    for before, rows in pairwise(view.points):
        server = ServerSample()
        for row in rows:
            server = server.worst(row.server)
        samples.append(server)
        totals.append(_totals(before, rows, shown))
    document = {
        "format": HISTORY_FORMAT,
        "now_ms": view.now_ms,
        "begin_ms": view.begin_ms,
        "step_s": view.step_s,
        "kept_step_s": view.kept_step_s,
        "kept": kept,
        "server": {
            "sync_p99_s": [_rounded(each.sync_p99_s, 6) for each in samples],
            "queue_age_s": [_rounded(each.queue_age_s, 3) for each in samples],
            "disk_free_bytes": [each.disk_free_bytes for each in samples],
            "ready": [each.ready for each in samples],
        },
        "all": {name: [getattr(each, name) for each in totals] for name in _Totals._fields},
        "states": STATES,
        "of": [_single(view.points, each) for each in query.of if shows is None or shows(each[0])],
    }
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode()


class _Totals(NamedTuple):
    """All shown partitions at one time; None: not known."""

    written_per_s: float | None = None
    applied_per_s: float | None = None
    lag_records: int | None = None


class _Shown:
    """Which places of a row are shown. Remembers it for the names that it was last asked about."""

    def __init__(self, shows: Callable[[str], bool] | None) -> None:
        self._shows = shows
        self._names: PartitionNames = ()
        self._places: list[int] = []

    def of(self, names: PartitionNames, numbers: Sequence[int]) -> Sequence[int]:
        """The shown ones of numbers that belong to `names`."""
        shows = self._shows
        if shows is None:
            return numbers
        if names is not self._names:
            self._names = names
            self._places = [place for place, (table, _) in enumerate(names) if shows(table)]
        return [numbers[place] for place in self._places]


def _totals(before: Sequence[HistoryRow], rows: Sequence[HistoryRow], shown: _Shown) -> _Totals:
    if not rows:
        return _Totals()
    row = rows[-1]
    last, applied = shown.of(row.names, row.last), shown.of(row.names, row.applied)
    lag = sum(behind for behind in map(sub, last, applied) if behind > 0)
    if not before or (spent_s := row.at_s - before[-1].at_s) <= 0:
        return _Totals(lag_records=lag)
    old = before[-1]
    if old.names is row.names:
        written = sum(last) - sum(shown.of(old.names, old.last))
        folded = sum(applied) - sum(shown.of(old.names, old.applied))
    else:
        written, folded = (sum(each) for each in _grown(old, row, shown))
    # A replica that is built anew has applied less than before.
    return _Totals(round(written / spent_s, 1), round(max(0, folded) / spent_s, 1), lag)


def _grown(old: HistoryRow, row: HistoryRow, shown: _Shown) -> tuple[Iterator[int], Iterator[int]]:
    """By how much the offsets of each partition grew that both rows have; one that fell is another table's by now."""
    places = {name: place for place, name in enumerate(old.names)}
    pairs = [(places[name], place) for place, name in enumerate(row.names) if name in places]
    visible = set(shown.of(row.names, range(len(row.names))))
    pairs = [(then, now) for then, now in pairs if now in visible and row.last[now] >= old.last[then]]
    return (
        (row.last[now] - old.last[then] for then, now in pairs),
        (row.applied[now] - old.applied[then] for then, now in pairs),
    )


def _single(points: Sequence[Sequence[HistoryRow]], name: tuple[str, int]) -> dict[str, Any]:
    """One partition at each step but the first."""
    found = [_Place.at(rows, name) for rows in points]
    return {
        "table": name[0],
        "partition": name[1],
        "last": [None if each is None else each.last for each in found[1:]],
        "applied": [None if each is None else each.applied for each in found[1:]],
        "written_per_s": [_written(before, each) for before, each in pairwise(found)],
        "state": [None if each is None else each.worst for each in found[1:]],
    }


class _Place(NamedTuple):
    """One partition in one step."""

    at_s: float
    last: int
    applied: int
    worst: int
    """Its worst state, as a place in `STATES`."""

    @classmethod
    def at(cls, rows: Sequence[HistoryRow], name: tuple[str, int]) -> _Place | None:
        """None: it was not observed in this step. O(rows)."""
        worst, place, names = 0, -1, None
        for row in rows:
            if row.names is not names:
                names, place = row.names, row.names.index(name) if name in row.names else -1
            if place >= 0:
                worst = max(worst, row.states[place])
        return None if place < 0 else cls(rows[-1].at_s, rows[-1].last[place], rows[-1].applied[place], worst)


def _written(before: _Place | None, each: _Place | None) -> float | None:
    if before is None or each is None or each.last < before.last:  # another table of this name
        return None
    return round((each.last - before.last) / (each.at_s - before.at_s), 1)


def _one(fields: dict[str, list[str]], name: str, usual: str) -> str:
    values = fields.pop(name, [usual])
    if len(values) > 1:
        raise ValueError(f"{name} is given {len(values)} times")
    return values[0]


def _partition(text: str) -> tuple[str, int]:
    table, _, partition = text.rpartition("/")
    return table, int(partition)


def _rounded(value: float | None, digits: int) -> float | None:
    return None if value is None else round(value, digits)
