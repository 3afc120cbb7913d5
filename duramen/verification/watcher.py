"""A client that watches the table, and records what it was shown."""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict
from collections.abc import Awaitable
from contextlib import aclosing
from typing import Any, Final, cast

from duramen.client.model.results import Change
from duramen.client.table import Table
from duramen.verification import observations as truth
from duramen.verification.recorder import Recorder
from log_tier.concurrency.backoff import Backoff
from log_tier.model.errors import DiskFailed, FolderReadOnly, OffsetTrimmed
from log_tier.model.identifiers import Offset, Partition
from log_tier.model.record import Operation
from log_tier.model.table_ref import TableRef
from log_tier.model.tokens import Token

__all__ = ["run_watcher"]

_PAUSE_FIRST_S: Final = 0.2
_PAUSE_MAX_S: Final = 2.0


class _Shown:
    """What one watcher was shown of each partition, in stretches: a trim of the log may end one and begin another."""

    def __init__(self, start: Token, ref: TableRef, *, compacted: bool) -> None:
        self._ref, self._compacted = ref, compacted
        self.position = start
        """Everything up to it was shown."""
        first = {number: start.offsets(ref.id).get(Partition(number), -1) + 1 for number in range(ref.partitions)}
        self._stretches: dict[int, list[tuple[int, list[list[Any]]]]] = {
            number: [(offset, [])] for number, offset in first.items()
        }
        self._cuts: dict[int, list[int]] = defaultdict(list)

    def add(self, change: Change) -> None:
        self._stretches[change.partition][-1][1].append(
            [
                int(change.offset),
                Operation(change.operation).name.lower(),
                change.key.decode(),
                None if change.value is None else change.value.decode(),
            ]
        )
        self.position = Token.parse(change.token)

    def skip(self, error: OffsetTrimmed) -> None:
        """The log does not hold what comes next any more. Raises `error` where that cannot be."""
        number, earliest = Partition(int(error.fields["partition"])), Offset(int(error.fields["earliest"]))
        offsets = dict(self.position.offsets(self._ref.id))
        if earliest <= offsets.get(number, -1) + 1:
            raise error
        self._cuts[number].append(offsets.get(number, -1))
        self._stretches[number].append((earliest, []))
        self.position = Token({self._ref.id: {**offsets, number: Offset(earliest - 1)}})

    def reached(self, end: Token) -> bool:
        """Was everything up to `end` shown? What changed nothing at its end is not shown: the token counts."""
        seen = self.position.offsets(self._ref.id)
        return all(seen.get(number, -1) >= offset for number, offset in end.offsets(self._ref.id).items())

    def record(self, number: int, recorder: Recorder, end: Token) -> None:
        """One call for each stretch."""
        for partition, stretches in self._stretches.items():
            ends = [*self._cuts[partition], end.offsets(self._ref.id).get(Partition(partition), -1)]
            for (first, changes), last in zip(stretches, ends, strict=True):
                call = recorder.begin(number, "watch", **{"from": first, "session": False})
                if self._compacted:
                    call.arguments["compacted"] = True
                call.partition = partition
                recorder.end(call, "ok", to=last, changes=[change for change in changes if change[0] <= last])


async def run_watcher(
    number: int,
    table: Table,
    ref: TableRef,
    recorder: Recorder,
    *,
    seed: str,
    stop: asyncio.Event,
    start: Token,
    until: Awaitable[Token],
    late_s: float = 0.0,
    compacted: bool = False,
) -> None:
    """Wait `late_s`, then watch from `start`, torn down now and then and resumed by token, to the token that `until`
    gives. Where the log was trimmed, go on where it begins. `compacted`: the log may be compacted meanwhile.
    """
    await asyncio.sleep(late_s)
    chance = random.Random(f"{seed}/watch/{number}")
    shown = _Shown(start, ref, compacted=compacted)
    end: Token | None = None
    ended = asyncio.ensure_future(until)
    backoff = Backoff(_PAUSE_FIRST_S, _PAUSE_MAX_S)
    lost = False
    while not lost and (end is None or not shown.reached(end)):
        runs: Any = table.change_runs(after=shown.position, timeout=60)
        left = chance.randrange(5, 60)
        async with aclosing(runs) as watching:
            while True:
                if ended.done() and end is None:
                    end = ended.result()
                if end is not None and shown.reached(end):
                    break
                following = asyncio.ensure_future(cast("Any", anext(watching)))
                await asyncio.wait(
                    [following, *([] if ended.done() else [ended])],
                    return_when="FIRST_COMPLETED",
                    timeout=None if end is None else truth.SILENCE_S,
                )
                if not following.done():
                    # Where the end was known already, it does not come: what is missing is the checker's to say.
                    lost = end is not None
                    following.cancel()
                    await asyncio.wait([following])
                    break  # the end is known: look whether it is reached, and go on from the last token
                try:
                    run: list[Change] = following.result()
                except OffsetTrimmed as error:
                    shown.skip(error)
                    break
                except (DiskFailed, FolderReadOnly):
                    # Of the only node that is there: go on from the last token, as a program does.
                    if end is not None:
                        raise
                    await backoff.pause()
                    break
                for change in run:
                    shown.add(change)
                left -= 1
                if left <= 0 and not stop.is_set():
                    break
    assert end is not None, "the loop ends with it"
    shown.record(number, recorder, end)
