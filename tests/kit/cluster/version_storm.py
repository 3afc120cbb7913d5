"""A storm over one table's versions: two callers stage, swap, roll back, discard and clear while others write.

What must be there afterwards is a fold of the log that knows nothing of indexes: `contents_of`.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from duramen.aio import Table
from kit.cluster.operated import Operated
from kit.deadlines import patience_s
from log_tier.catalog.cluster_map import EMPTY, TableEntry
from log_tier.model.barrier import ORIGINAL, parse_barrier
from log_tier.model.batch import Batch, decode_batch
from log_tier.model.batch_header import split_batches
from log_tier.model.errors import CommandRejected, ConditionFailed, DeadlineExceeded, InvalidRequest, Unavailable
from log_tier.model.identifiers import FIRST, Offset, Partition, PartitionId
from log_tier.model.record import OPERATION_MASK, PLAIN_PUT, Condition, Operation, attribute_of
from router.admin.admin import Admin
from router.admin.clear import clear_table
from router.admin.verbs import AdminChange, Discard, Rollback, Stage, Swap
from serving_tier.versions.empty import empty_offsets

__all__ = ["Storm", "contents_of"]

DEADLINE_S = 30.0
KEYS = [b"k%02d" % number for number in range(12)]
_TRIES = 10
_PAUSE_S = 0.01
"""A caller waits a little for another one's job, as clearing does, and then does something else."""

REFUSALS = (CommandRejected, InvalidRequest, Unavailable)
"""What a caller may be answered whom another one has overtaken. A deadline that has passed is none of them."""


@dataclass
class Storm:
    """One storm. Everything that is drawn comes from `seed`; what the event loop makes of it does not."""

    cluster: Operated
    admin: Admin
    table: Table
    seed: int
    said: list[str] = field(default_factory=list)
    """What was asked and what came of it, in the order of the answers."""
    _jobs: list[int] = field(default_factory=list)
    """Those that were begun."""

    async def rage(self, *, callers: int = 2, actions: int = 5, writers: int = 2) -> None:
        """Return when all callers are done, and all that they began has ended."""
        over = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            writing = [group.create_task(self._write(number, over)) for number in range(writers)]
            calling = [group.create_task(self._call(number, actions)) for number in range(callers)]
            await asyncio.wait(calling)
            over.set()
            await asyncio.wait(writing)

    async def _write(self, me: int, over: asyncio.Event) -> None:
        chance = random.Random(f"writer {me} of {self.seed}")
        number = 0
        while not over.is_set():
            number += 1
            key = chance.choice(KEYS[me::2])
            match chance.randrange(4):
                case 0:
                    await self.table.delete(key)
                case 1:
                    with suppress(ConditionFailed):
                        await self.table.put(key, b"%d absent" % number, if_absent=True)
                case _:
                    await self.table.put(key, b"%d" % number)
            await asyncio.sleep(chance.choice([0, 0, 0.002]))

    async def _call(self, me: int, actions: int) -> None:
        chance = random.Random(f"caller {me} of {self.seed}")
        name = self.table.name
        for _ in range(actions):
            await asyncio.sleep(chance.choice([0, 0.005, 0.02]))
            versions = {each.version: each.state for each in await self.admin.versions(name)}
            number = chance.choice([*versions, max(versions) + 1])
            what = chance.choices(["stage", "swap", "rollback", "discard", "clear", "abort"], [4, 4, 2, 2, 2, 2])[0]
            try:
                match what:
                    case "stage":
                        ended = await self._changed(Stage(name, EMPTY), wait=chance.random() < 0.6)
                    case "swap":
                        version = chance.choice([None, number])
                        ended = await self._changed(Swap(name, version, chance.choice([None, 0, 2])), wait=True)
                    case "rollback":
                        ended = await self._changed(Rollback(name, chance.choice([None, number])), wait=True)
                    case "discard":
                        ended = await self._changed(Discard(name, number), wait=True)
                    case "abort":
                        ended = await self._aborted(chance.random())
                    case _:
                        await clear_table(self.admin, name, keep=chance.randrange(2), timeout=patience_s(DEADLINE_S))
                        ended = "done"
                self.said.append(f"{me}: {what} of {versions}: {ended}")
            except REFUSALS as error:
                if isinstance(error, DeadlineExceeded):
                    raise
                self.said.append(f"{me}: {what} of {versions}: {error.message}")

    async def _changed(self, change: AdminChange, *, wait: bool) -> str:
        for tried in range(_TRIES):
            try:
                plan = await self.admin.start(change, dry_run=False)
                break
            except CommandRejected as error:
                if "are being changed" not in error.message or tried + 1 == _TRIES:
                    raise
                await asyncio.sleep(_PAUSE_S)
        if not plan.HasField("job"):
            return "nothing to do"
        self._jobs.append(plan.job)
        return f"job {plan.job} {(await self.cluster.ended(plan.job)).state}" if wait else f"job {plan.job} begun"

    async def _aborted(self, drawn: float) -> str:
        if not self._jobs:
            return "no job yet"
        job = self._jobs[-1] if drawn < 0.8 else self._jobs[int(drawn * len(self._jobs)) % len(self._jobs)]
        await self.admin.abort(job, dry_run=False)
        return f"job {job} aborted"

    async def check(self) -> None:
        """Wait until all replicas are level with the log, and compare each with a fold of it."""
        name = self.table.name
        for job in self._jobs:
            await self.cluster.ended(job)
        entry = self.cluster.router.catalog.map.find(name)
        for partition in map(Partition, range(entry.partitions)):
            end = (await self.cluster.log.log.bounds(PartitionId(entry.id, partition))).latest
            version, content = await contents_of(self.cluster.log.log, entry, partition)
            for replica in entry.assignments[partition]:
                found = self.cluster.replica(replica.node, name, partition)
                where = f"seed {self.seed}: {found.name} at {replica.node}"
                async with asyncio.timeout(patience_s(DEADLINE_S)):
                    await found.wait_applied(end, timeout=DEADLINE_S)
                    await found.wait_ready()
                found.check()
                assert found.index.version == version, f"{where} is version {found.index.version}, not {version}"
                held = {key: value.value for key, value in found.index.scan(b"", None).entries}
                assert held == content, f"{where} holds {held}, its log says {content}"


async def contents_of(log: Any, table: TableEntry, partition: Partition) -> tuple[int, dict[bytes, bytes]]:
    """The live version of a partition and its keys, by the log alone. It knows puts, deletes and empty versions."""
    batches: list[Batch] = []
    async for chunk in log.read(PartitionId(table.id, partition), FIRST, follow=False):
        batches += [decode_batch(batch) for batch in split_batches(chunk.data)]
    begins: dict[int, Offset] = {1: Offset(-1)}
    for _, operation, _, value in _records(batches):
        if operation & OPERATION_MASK == Operation.BARRIER:
            barrier = parse_barrier(value)
            assert barrier is not None, value
            if barrier.url:
                begins[barrier.version] = empty_offsets(barrier.url, table.partitions)[partition]
    live, contents = ORIGINAL, {version: dict[bytes, bytes]() for version in begins}
    for offset, attribute, key, value in _records(batches):
        if attribute & OPERATION_MASK == Operation.BARRIER:
            barrier = parse_barrier(value)
            assert barrier is not None, value
            live = live.after(barrier, offset) or live
        elif attribute == _PUT_IF_ABSENT and key in contents[live.version]:
            continue
        else:
            for version, content in contents.items():
                if offset > begins[version]:
                    _change(content, attribute & OPERATION_MASK, key, value)
    return live.version, contents[live.version]


_PUT_IF_ABSENT = attribute_of(Operation.PUT, condition=Condition.ABSENT)


def _records(batches: Sequence[Batch]) -> list[tuple[Offset, int, bytes, bytes]]:
    """Offset, attribute, key and value of each record."""
    found: list[tuple[Offset, int, bytes, bytes]] = []
    for batch in batches:
        columns = batch.columns
        attributes = columns.attributes or [PLAIN_PUT] * len(columns.keys)
        offsets = map(Offset, batch.offsets())
        found += zip(offsets, attributes, columns.keys, columns.values, strict=True)
    return found


def _change(content: dict[bytes, bytes], operation: int, key: bytes, value: bytes) -> None:
    if operation == Operation.PUT:
        content[key] = value
    elif operation == Operation.DELETE:
        content.pop(key, None)
    else:
        assert operation == Operation.NOOP, f"the storm writes no {operation}"
