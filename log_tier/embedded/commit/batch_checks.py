"""Batches are checked before they are queued for a commit: small ones on the event loop, large ones in a thread.

A check reads the whole batch for its checksum and then its lengths, 4.5 ms for a MiB of the shortest records; a request
may have 16 MiB. One thread checks what is large, in order.

Invariant: the batches of a partition are queued in the order of the calls (`OrderedThread`): a producer's later batch
that overtook an earlier one would have it judged a repetition.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Final

from log_tier.concurrency.sized_work import AT_ONCE_ITEMS_MAX, OrderedThread
from log_tier.embedded.commit.committer import Committer
from log_tier.embedded.segments.partition_log import PartitionLog
from log_tier.model.batch import SealedBatch, checked_span
from log_tier.model.batch_header import COMPRESSION_MASK, HEADER_BYTES, decoded_bytes, flags_of
from log_tier.model.errors import DuramenError, ShuttingDown
from log_tier.model.identifiers import PartitionId
from log_tier.model.log import Appended

__all__ = ["AT_ONCE_BYTES_MAX", "BatchChecks"]

# Checking a batch costs as much as two of the items of `sized_work.py`, or as two records of a reply.
_CHECK_ITEMS: Final = 2

AT_ONCE_BYTES_MAX: Final = 256 << 10
"""Bytes of batches that one call has checked on the event loop: 0.03 ms where all lengths are equal, 1.2 ms for the
shortest records of different lengths."""

_Parts = Sequence[tuple[PartitionId, bytes]]
_Outcomes = list[Appended | DuramenError]
_Checked = tuple[list[tuple[PartitionLog, bytes, int]], dict[int, DuramenError]]


class BatchChecks:
    """The checks of a log's batches, and the thread for large ones. Safe from any event loop."""

    def __init__(self, find: Callable[[PartitionId], PartitionLog], committer: Committer) -> None:
        """`find`: a partition by its identity; raises `TableNotFound` and `ShuttingDown`."""
        self._find = find
        self._committer = committer
        self._large: OrderedThread[PartitionId] = OrderedThread("duramen-log-check")

    def at_once(self, parts: _Parts) -> bool:
        """May these batches be checked on the event loop, and queued now?"""
        if _CHECK_ITEMS * len(parts) > AT_ONCE_ITEMS_MAX:
            return False
        size = 0
        for _, batch in parts:
            size += _checked_bytes(batch)
        large = self._large
        return size <= AT_ONCE_BYTES_MAX and (not large.pending or large.is_free(partition for partition, _ in parts))

    def append(self, parts: _Parts, *, gathered: bool) -> Awaitable[_Outcomes]:
        """Check batches and queue them for a commit; see `Log.append_many`."""
        if not self.at_once(parts):
            return self._append_large(parts, gathered)
        checked, refused = self._checked(parts)
        if checked:
            try:
                appended = self._committer.submit(checked, gathered=gathered)
                return _with_refused(appended, refused) if refused else appended
            except DuramenError as error:
                refused = {place: refused.get(place, error) for place in range(len(parts))}
        answered: asyncio.Future[_Outcomes] = asyncio.get_running_loop().create_future()
        answered.set_result([refused[place] for place in range(len(parts))])
        return answered

    def _append_large(self, parts: _Parts, gathered: bool) -> asyncio.Future[_Outcomes]:
        """The same by way of the thread. A caller that waits no longer ends nothing: its batches are queued, as small
        ones are.
        """
        answered: asyncio.Future[_Outcomes] = asyncio.get_running_loop().create_future()
        try:
            self._large.run(
                {partition for partition, _ in parts},
                partial(self._checked, parts),
                partial(self._queue, parts, gathered, answered),
            )
        except RuntimeError:  # the thread has ended
            closing = ShuttingDown("the log is closing; open it again, or use another replica")
            answered.set_result([closing.as_value() for _ in parts])
        return answered

    def _queue(
        self, parts: _Parts, gathered: bool, answered: asyncio.Future[_Outcomes], checking: asyncio.Future[_Checked]
    ) -> None:
        """Queue what the thread has checked. The loop calls this in the order of the checks."""
        try:
            checked, refused = checking.result()
            try:
                appended = self._committer.submit(checked, gathered=gathered) if checked else None
            except DuramenError as error:
                appended, refused = None, {place: refused.get(place, error) for place in range(len(parts))}
        except BaseException as error:
            if not answered.done():
                answered.set_exception(error)
            raise
        if appended is None:
            _answer(answered, refused, None)
        else:
            appended.add_done_callback(partial(_answer, answered, refused))

    def _checked(self, parts: _Parts) -> _Checked:
        """The parts that can be written, and, by their places, why others cannot."""
        checked: list[tuple[PartitionLog, bytes, int]] = []
        refused: dict[int, DuramenError] = {}
        for place, (partition, batch) in enumerate(parts):
            try:
                checked.append((self._find(partition), batch, checked_span(batch)))
            except DuramenError as error:
                refused[place] = error.as_value()
        return checked, refused

    def close(self) -> None:
        """End the thread; what it has not begun gets an answer first. Blocks."""
        self._large.close()


def _answer(
    answered: asyncio.Future[_Outcomes],
    refused: Mapping[int, DuramenError],
    appended: asyncio.Future[_Outcomes] | None,
) -> None:
    if not answered.done():
        answered.set_result(_placed([] if appended is None else appended.result(), refused))


async def _with_refused(appended: asyncio.Future[_Outcomes], refused: Mapping[int, DuramenError]) -> _Outcomes:
    return _placed(await appended, refused)


def _placed(appended: _Outcomes, refused: Mapping[int, DuramenError]) -> _Outcomes:
    """The outcomes of all parts, in their order. `refused`: the parts, by place, that never came to a commit."""
    others = iter(appended)
    return [refused.get(place) or next(others) for place in range(len(refused) + len(appended))]


def _checked_bytes(batch: bytes) -> int:
    """How many bytes `checked_span` reads of a batch, or of its body after decompression."""
    if type(batch) is SealedBatch:
        return 0
    is_plain = len(batch) > HEADER_BYTES and not flags_of(batch) & COMPRESSION_MASK
    return len(batch) if is_plain else decoded_bytes(batch)
