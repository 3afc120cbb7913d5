"""Counting batches into minutes. Pure: headers go in, periods come out. Every tier counts with these functions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from log_tier.model.batch_header import BatchHeader
from log_tier.model.identifiers import NOTHING, Offset
from log_tier.tally.period import CHECKSUM_MASK, MINUTE_MS, Period, new_period

__all__ = ["count_batches", "count_pieces"]

_NONE: Final[tuple[Period, ...]] = ()
_NO_PERIOD: Final = Period(-1, 1, Offset(0), NOTHING, 0, 0)


def count_batches(
    headers: Sequence[BatchHeader], after: Offset, log_time_ms: int, open_period: Period | None
) -> tuple[Sequence[Period], Period | None]:
    """Count the offsets behind `after`, of batches in the order of the log: the minutes that came to their end, and the
    one that goes on.

    `log_time_ms`: the largest timestamp up to `after`. `open_period`: the minute that was under way there. Every fold
    does this, so it is one loop over plain numbers, and a short way for one batch within the minute: some 0.7 µs, and
    0.3 µs for each further one.
    """
    if open_period is not None and len(headers) == 1:
        minute, one, first, _, count, checksum = open_period
        _, _, _, _, _, _, base, timestamp_ms, _, stamp, _, _, _, span = headers[0]
        if base > after and (max(log_time_ms, timestamp_ms)) // MINUTE_MS == minute:
            checksum = (checksum + stamp * (2 * base + 1)) & CHECKSUM_MASK
            return _NONE, new_period((minute, one, first, base + span - 1, count + span, checksum))
    closed: list[Period] | tuple[Period, ...] = _NONE
    minute, one, first, last, count, checksum = open_period or _NO_PERIOD
    for _, _, _, _, _, _, base, timestamp_ms, _, stamp, _, _, _, span in headers:
        end = base + span - 1
        if end <= after:
            continue
        if timestamp_ms > log_time_ms:
            log_time_ms = timestamp_ms
        if log_time_ms // MINUTE_MS != minute:
            if minute >= 0:
                closed = [*closed, new_period((minute, 1, first, last, count, checksum & CHECKSUM_MASK))]
            minute, count, checksum = log_time_ms // MINUTE_MS, 0, 0
            first = base if base > after else Offset(after + 1)
        if base > after:
            count += span
            checksum += stamp * (2 * base + 1)  # `weight_of`
        else:
            count += end - after
        after = last = end  # type: ignore[assignment]
    if minute < 0:
        return closed, None
    return closed, new_period((minute, one, first, last, count, checksum & CHECKSUM_MASK))


def count_pieces(
    headers: Iterable[BatchHeader], *, start: Offset, ends: Iterable[Offset], log_time_ms: int = 0
) -> Iterator[Period]:
    """Count from `start` on, and begin a new period after each minute and after each of the offsets `ends`.

    `headers` begin with the batch that holds `start`; `log_time_ms`: the largest timestamp before it, if known.
    Yields periods of one minute or a part of it, none empty.
    """
    limits = sorted(set(ends), reverse=True)
    after = Offset(start - 1)
    open_period: Period | None = None
    for header in headers:
        if header.last_offset <= after:
            continue
        while limits and limits[-1] < max(header.base_offset, after + 1):
            limits.pop()
            if open_period is not None:
                yield open_period
            open_period = None
        for part in _parts(header, after, limits):
            closed, open_period = count_batches([part], after, log_time_ms, open_period)
            yield from closed
            after, log_time_ms = part.last_offset, max(log_time_ms, part.timestamp_ms)
            if limits and limits[-1] == after:
                limits.pop()
                if open_period is not None:
                    yield open_period
                open_period = None
    if open_period is not None:
        yield open_period


def _parts(header: BatchHeader, after: Offset, limits: list[Offset]) -> Iterator[BatchHeader]:
    """A batch up to each limit inside of it, then whole; the part that is counted already is left out by the count."""
    for limit in reversed(limits):
        if limit >= header.last_offset:
            break
        if limit > after:
            yield header._replace(span=limit - header.base_offset + 1)
    yield header
