"""What is known of an index whose file is closed: its applied offset, and whether it must be opened. The marker next to
the file (`serving_tier.index.lmdb.folder`) carries it while the file is at rest, as one JSON object. It is taken from
there before the first write, so that a summary never says less than the file holds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, Self

from log_tier.model.barrier import ORIGINAL, LiveVersion
from log_tier.model.identifiers import FIRST, Offset
from log_tier.tally.period import Period
from serving_tier.fold.last_batch import LastBatch
from serving_tier.index.index import IndexStatistics
from serving_tier.index.lmdb.format import State

__all__ = ["IndexSummary"]


class IndexSummary(NamedTuple):
    """An index at rest."""

    state: State
    start: Offset
    """The first offset of its table."""
    version: int
    live: LiveVersion
    statistics: IndexStatistics
    keys: int
    next_expiry_ms: int | None

    @classmethod
    def of_new(cls, start: Offset) -> Self:
        """An index into which nothing was folded, and which has no file yet."""
        state = State() if start <= FIRST else State(applied=Offset(start - 1), verdicts_from=start)
        return cls(
            state,
            start,
            ORIGINAL.version,
            ORIGINAL,
            IndexStatistics(state.applied, 0, 0, 0, 0, 0, 0, 0, 0),
            0,
            None,
        )

    def to_json(self) -> dict[str, Any]:
        """The summary as the marker carries it."""
        return self._asdict()

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Self:
        """Read a summary. Raises `TypeError`, `KeyError` or `ValueError` for a document that is none."""
        applied, log_time_ms, verdicts_from, *more = document["state"]
        last, counting = (*more, None, None)[:2]
        version, since, job = map(int, document["live"])
        due = document["next_expiry_ms"]
        return cls(
            State(
                Offset(int(applied)),
                int(log_time_ms),
                Offset(int(verdicts_from)),
                _last_batch(last),
                _counting(counting),
            ),
            Offset(int(document["start"])),
            int(document["version"]),
            LiveVersion(version, Offset(since), job),
            _statistics(*map(int, document["statistics"])),
            int(document["keys"]),
            None if due is None else int(due),
        )


def _counting(fields: Iterable[int] | None) -> Period | None:
    """None also in a summary of version 2, which has no such field."""
    return None if fields is None else Period(*map(int, fields))  # type: ignore[arg-type]


def _last_batch(fields: Iterable[int] | None) -> LastBatch | None:
    """None also in a summary of version 1, which has no such field."""
    if fields is None:
        return None
    base_offset, *others = map(int, fields)
    return LastBatch(Offset(base_offset), *others)


def _statistics(applied: int, *others: int) -> IndexStatistics:
    return IndexStatistics(Offset(applied), *others)
