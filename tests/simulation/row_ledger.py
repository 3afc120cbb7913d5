"""What the callers of a simulated cluster tried to write to tables of rows, and what may be seen there.

Each try has a number of its own, which is in what it writes. So what is read says who wrote it, and a record of the log
says whether it was meant to fit.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable
from typing import Final, NamedTuple

from duramen.client.model.results import Entry
from log_tier.model.identifiers import Offset
from simulation.plan import Plan

__all__ = ["LaterRow", "RowLedger", "RowWrite", "has_rows"]

_CHANCE: Final = 0.35


def has_rows(plan: Plan) -> bool:
    """Has a cluster tables of rows? Not where the log is put back: rows go with its end. Nor where it has users, who
    have tables of their own.
    """
    return plan.copied_s is None and not plan.has_users() and random.Random(f"rows {plan.seed}").random() < _CHANCE


LaterRow = Callable[[str, int, str], bytes]
"""Makes a row from carrier, number of the flight and number of the try."""


class RowWrite(NamedTuple):
    """A row that was acknowledged."""

    offset: Offset
    value: bytes


class RowLedger:
    """Knows of every try of every caller."""

    def __init__(self) -> None:
        self.schemas: dict[str, int] = {}
        """The numbers of two schemas: of the rows, and of a table that holds others."""
        self.later: dict[str, dict[int, LaterRow]] = {}
        """By table and number: schemas that were acknowledged later."""
        self.coming: dict[str, dict[int, LaterRow]] = {}
        """The same of schemas of which somebody has seen the number, acknowledged or not."""
        self.cleared = ""
        """The table that was cleared."""
        self._tries = 0
        self._fitting: defaultdict[tuple[str, bytes], set[bytes]] = defaultdict(set)
        """By table and key: the values of rows that may be there."""
        self._void: defaultdict[str, set[tuple[bytes, bytes]]] = defaultdict(set)
        """By table: the keys and values of records that must have no effect."""
        self._early: defaultdict[str, set[tuple[bytes, bytes]]] = defaultdict(set)
        """By table: the keys and values of records whose schema may have come too late."""
        self._newest: dict[tuple[str, bytes], RowWrite] = {}

    @property
    def row_schema(self) -> int:
        """The number of the schema that the rows have."""
        return next(iter(self.schemas.values()))

    def next_number(self) -> int:
        """Of a try; never given twice."""
        self._tries += 1
        return self._tries

    def tries(self, table: str, key: bytes, value: bytes, *, fits: bool) -> None:
        """A record is sent. One that fits, but is in a group with a misfit, does not fit."""
        if fits:
            self._fitting[table, key].add(value)
        else:
            self._void[table].add((key, value))

    def tries_early(self, table: str, key: bytes, value: bytes) -> None:
        """A record is sent that fits where its schema comes before it in the log."""
        self._fitting[table, key].add(value)
        self._early[table].add((key, value))

    def wrote(self, table: str, key: bytes, row: RowWrite) -> None:
        """A row was acknowledged."""
        newest = self._newest.get((table, key))
        if newest is None or newest.offset < row.offset:
            self._newest[table, key] = row

    def newest(self, table: str, key: bytes) -> RowWrite | None:
        """What a strong read that begins now shows, or something later."""
        return self._newest.get((table, key))

    def acknowledged(self, table: str) -> dict[bytes, RowWrite]:
        """The newest of each key."""
        return {key: row for (of, key), row in self._newest.items() if of == table}

    def forget(self, table: str) -> None:
        """The table was cleared: what was acknowledged need not be there."""
        for key in self.acknowledged(table):
            del self._newest[table, key]

    def is_void(self, table: str, key: bytes, value: bytes) -> bool:
        """Must a record of the log have no effect?"""
        return (key, value) in self._void[table]

    def is_early(self, table: str, key: bytes, value: bytes) -> bool:
        """May a record of the log have no effect?"""
        return (key, value) in self._early[table]

    def is_fitting(self, table: str, key: bytes, value: bytes | None) -> bool:
        """May somebody see this row?"""
        return value in self._fitting[table, key]

    def difference(self, table: str, key: bytes, found: Entry | None, least: RowWrite | None) -> str:
        """Why this is not what a read may find that must show `least`, or something later; empty: it may."""
        if found is None:
            return "" if least is None else f"{key!r} is not there, which was acknowledged at {least.offset}"
        if not self.is_fitting(table, key, found.value):
            return f"{key!r} has {found.value!r}, which nobody wrote who may have"
        if least is None or found.version > least.offset:
            return ""
        if found.version < least.offset:
            return f"{key!r} is as of {found.version}, and was acknowledged at {least.offset}"
        return "" if found.value == least.value else f"{key!r} has {found.value!r} in place of {least.value!r}"
