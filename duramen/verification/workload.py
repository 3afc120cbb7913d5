"""The workload: clients that write and read at the same time, and record the replies."""

from __future__ import annotations

import asyncio
import random
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, Final, cast

from duramen.client.context import ClientContext
from duramen.client.model.consistency import asked_of
from duramen.client.model.results import Change
from duramen.client.scan import ScanRange, scan_table
from duramen.client.table import Table
from duramen.verification import observations as truth
from duramen.verification.history import Call, CallResult
from log_tier.model.errors import DuramenError, OffsetTrimmed, Rejected, WriteUnknown
from log_tier.model.identifiers import Offset, Partition
from log_tier.model.record import Operation
from log_tier.model.table_ref import TableRef
from log_tier.model.tokens import Token

__all__ = ["Recorder", "WorkloadShape", "run_client", "run_watcher"]

_TAGS: Final = 4
"""Hot keys share this many tags, so that atomic batches and counters meet."""


@dataclass(frozen=True, slots=True)
class WorkloadShape:
    """The kinds of calls of a workload, and how many."""

    clients: int = 8
    watchers: int = 2
    hot_keys: int = 12
    cold_keys: int = 400
    timeout_s: float = 5.0
    """The timeout of each call: longer than a restart takes, so that few calls are lost to it."""
    pause_s: float = 0.0
    """Between two calls of a client."""
    late_s: float = 0.0
    """Every second watcher begins so late, at the first record all the same."""
    compacted: bool = False
    """The log may be compacted meanwhile, so a watch that reads on later does not see what later writes replaced."""


@dataclass(slots=True)
class Recorder:
    """The calls so far, and the tokens that clients hand to each other."""

    calls: list[Call] = field(default_factory=list)
    tokens: list[Token] = field(default_factory=list)
    clock: Callable[[], int] = time.monotonic_ns

    def begin(self, client: int, kind: str, **arguments: Any) -> Call:
        """A call that is about to be made."""
        call = Call(len(self.calls), client, kind, self.clock(), arguments=arguments)
        self.calls.append(call)
        return call

    def end(self, call: Call, outcome: CallResult, **reply: Any) -> None:
        """Record the end of a call: its outcome and its reply."""
        call.end_ns, call.outcome, call.reply = self.clock(), outcome, reply


class _Client:
    def __init__(self, number: int, table: Table, ref: TableRef, recorder: Recorder, shape: WorkloadShape, seed: str):
        self.number, self.table, self.ref, self.recorder, self.shape = number, table, ref, recorder, shape
        self.random = random.Random(f"{seed}/{number}")
        self.written = 0
        self.versions: dict[bytes, int] = {}

    @property
    def context(self) -> ClientContext:
        return self.table.lookup.context

    def key(self) -> bytes:
        if self.random.random() < 0.6:
            number = self.random.randrange(self.shape.hot_keys)
            return b"hot{%d}.%d" % (number % _TAGS, number)
        return b"cold%d" % self.random.randrange(self.shape.cold_keys)

    def value(self) -> bytes:
        self.written += 1
        return b"%d.%d" % (self.number, self.written)

    def operand(self) -> int:
        """A number that no other update of this run adds."""
        self.written += 1
        return self.number * 1_000_000 + self.written

    # --- writes

    async def write(self, operations: list[dict[str, Any]], send: Callable[[], Awaitable[Any]]) -> None:
        """`send` returns a `Done`, or a list of them."""
        kind = "write" if len(operations) == 1 else "batch"
        call = self.recorder.begin(self.number, kind, operations=operations)
        call.partition = self.ref.partition_of(operations[0]["key"].encode())
        try:
            found = await send()
        except Rejected as error:
            self.recorder.end(call, "rejected", error=error.code, offset=int(error.fields["offset"]))
            if kind == "batch":  # the offset is that of the record that failed
                call.reply.pop("offset")
        except WriteUnknown as error:
            self.recorder.end(call, "unknown", error=error.code)
        except DuramenError as error:
            self.recorder.end(call, "failed", error=error.code)
        else:
            done = found if isinstance(found, list) else [found]
            results = ["" if each.value is None else str(each.value) for each in done]
            self.recorder.end(call, "ok", offset=done[0].offset, results=results)
            self.recorder.tokens.append(Token.parse(done[-1].token))
            del self.recorder.tokens[:-50]

    async def put(self) -> None:
        key, value = self.key(), self.value()
        how: dict[str, Any] = {}
        condition = self.random.choice(["", "", "", "absent", "present", "version"])
        version = 0
        if condition == "version":
            version = self.versions.get(key, -1)
            how["if_version"] = version
        elif condition:
            how[f"if_{condition}"] = True
        operation = _operation("put", key, value, condition, version)
        await self.write([operation], lambda: self.table.put(key, value, timeout=self.shape.timeout_s, **how))

    async def delete(self) -> None:
        key = self.key()
        if_present = self.random.random() < 0.5
        operation = _operation("delete", key, b"", "present" if if_present else "")
        await self.write(
            [operation], lambda: self.table.delete(key, if_present=if_present, timeout=self.shape.timeout_s)
        )

    async def update(self) -> None:
        tag = self.random.randrange(_TAGS)
        if self.random.random() < 0.3:
            key, value = b"text{%d}" % tag, b"%d." % self.operand()
            await self.write(
                [_operation("append", key, value)],
                lambda: self.table.update(key, append=value, timeout=self.shape.timeout_s),
            )
            return
        key, number = b"count{%d}" % tag, self.operand()
        name = self.random.choice(["add", "add", "max", "min"])
        how: dict[str, Any] = {name: number}
        await self.write(
            [_operation(name, key, b"%d" % number)],
            lambda: self.table.update(key, timeout=self.shape.timeout_s, **how),
        )

    async def batch(self) -> None:
        tag = self.random.randrange(_TAGS)
        batch = self.table.batch()
        operations: list[dict[str, Any]] = []
        for place in range(self.random.randrange(2, 5)):
            key, value = b"both{%d}.%d" % (tag, place), self.value()
            condition = "absent" if self.random.random() < 0.1 else ""
            batch.put(key, value, if_absent=bool(condition))
            operations.append(_operation("put", key, value, condition))
        await self.write(operations, lambda: batch.commit(timeout=self.shape.timeout_s))

    async def put_many(self) -> None:
        """Each pair is a write of its own: `put_many` promises nothing about them together."""
        await asyncio.gather(*(self.put() for _ in range(self.random.randrange(2, 12))))

    # --- reads

    async def read(self) -> None:
        keys = [self.key() for _ in range(1 if self.random.random() < 0.7 else self.random.randrange(2, 6))]
        tag = self.random.randrange(_TAGS)
        keys += self.random.choice([[], [], [b"count{%d}" % tag, b"both{%d}.0" % tag, b"both{%d}.1" % tag]])
        level = self.random.choice(["session", "session", "session", "eventual", "strong"])
        token = self.random.choice(self.recorder.tokens) if self.recorder.tokens and level == "session" else None
        if self.random.random() < 0.5:
            token = None
        groups: dict[Partition, list[bytes]] = defaultdict(list)
        for key in dict.fromkeys(keys):
            groups[self.ref.partition_of(key)].append(key)
        await asyncio.gather(*(self.read_keys(part, group, level, token) for part, group in groups.items()))

    async def read_keys(self, partition: Partition, keys: list[bytes], level: Any, token: Token | None) -> None:
        after = {} if token is None else {str(p): o for p, o in token.offsets(self.ref.id).items()}
        call = self.recorder.begin(
            self.number,
            "read",
            keys=[key.decode() for key in keys],
            strong=level == "strong",
            session=level != "eventual",
            after=after,
        )
        call.partition = partition
        context = self.context
        asked = asked_of(context.session, self.ref, token, level)
        try:
            result = await context.reads.submit(
                self.ref,
                self.ref.partition(partition),
                tuple(keys),
                after=asked.after(partition),
                strong=asked.strong,
                seen=asked.seen,
                deadline=context.deadline(self.shape.timeout_s),
            )
        except DuramenError as error:
            self.recorder.end(call, "failed", error=error.code)
            return
        for key, version in zip(keys, result.versions, strict=True):
            self.versions[key] = version
        self.recorder.end(
            call,
            "ok",
            applied=result.applied,
            entries=[
                [key.decode(), None if value is None else value.decode(), version]
                for key, value, version in zip(keys, result.values, result.versions, strict=True)
            ],
        )

    async def scan(self) -> None:
        prefix = self.random.choice([b"hot", b"both{%d}" % self.random.randrange(_TAGS), b"cold1", b""])
        call = self.recorder.begin(self.number, "scan", prefix=prefix.decode(), session=True)
        asked = asked_of(self.context.session, self.ref, None, "session")
        wanted = ScanRange.of(prefix=prefix or None, start=None, end=None, reverse=False, limit=None)
        pages: list[dict[str, Any]] = []
        lower = prefix.decode()
        try:
            scanning: Any = scan_table(
                self.context, self.ref, wanted, asked, self.context.deadline(None), self.shape.timeout_s
            )
            async with aclosing(scanning) as found:
                async for page in found:
                    entries = [
                        [key.decode(), value.decode(), version]
                        for key, value, version in zip(page.keys, page.values, page.versions, strict=True)
                    ]
                    upper = entries[-1][0] if page.more and entries else None
                    applied = {str(partition): offset for partition, offset in page.applied.items()}
                    pages.append({"from": lower, "to": upper, "entries": entries, "applied": applied})
                    lower = (upper or "") + "\x00"
        except DuramenError as error:
            self.recorder.end(call, "failed", error=error.code)
            return
        self.recorder.end(call, "ok", pages=pages, entries=[entry for page in pages for entry in page["entries"]])


def _operation(name: str, key: bytes, value: bytes, condition: str = "", version: int = 0) -> dict[str, Any]:
    return {
        "operation": name,
        "key": key.decode(),
        "value": value.decode(),
        "condition": condition,
        "version": version,
    }


async def run_client(
    number: int,
    table: Table,
    ref: TableRef,
    recorder: Recorder,
    shape: WorkloadShape,
    *,
    seed: str,
    stop: asyncio.Event,
) -> None:
    """Call after call until `stop`. The choice of calls depends on the seed and the number alone."""
    client = _Client(number, table, ref, recorder, shape, seed)
    kinds: list[Callable[[], Awaitable[None]]] = [
        *[client.put] * 6,
        *[client.read] * 8,
        *[client.update] * 3,
        client.delete,
        client.batch,
        client.put_many,
        client.scan,
    ]
    while not stop.is_set():
        await client.random.choice(kinds)()
        # Someone may answer without ever waiting; the others must get their turn.
        await asyncio.sleep(client.shape.pause_s)


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
    lost = False
    while not lost and (end is None or not shown.reached(end)):
        runs: Any = table.watch_runs(after=shown.position, timeout=60)
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
                for change in run:
                    shown.add(change)
                left -= 1
                if left <= 0 and not stop.is_set():
                    break
    assert end is not None, "the loop ends with it"
    shown.record(number, recorder, end)
