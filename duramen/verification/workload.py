"""The workload: clients that write and read at the same time, and record the replies."""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Final

from duramen.client.context import ClientContext
from duramen.client.model.consistency import asked_of
from duramen.client.model.scan_range import ScanRange
from duramen.client.scan import scan_table
from duramen.client.table import Table
from duramen.verification.recorder import Recorder
from log_tier.model.errors import DuramenError, Rejected, WriteUnknown
from log_tier.model.identifiers import Partition
from log_tier.model.table_ref import TableRef
from log_tier.model.tokens import Token

__all__ = ["WorkloadShape", "run_client"]

_TAGS: Final = 4
"""Hot keys share this many tags, so that atomic batches and counters meet."""

_TTLS_S: Final = (0.05, 0.5, 3.0, 60.0)
"""Some end at the next write, some within the run, some not at all."""


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
    expiring: float = 0.0
    """Of the puts and updates, so many set an expiry or keep the one that is there."""
    compacted: bool = False
    """The log may be compacted meanwhile, so a watch that reads on later does not see what later writes replaced."""


class _Client:
    def __init__(self, number: int, table: Table, ref: TableRef, recorder: Recorder, shape: WorkloadShape, seed: str):
        self.number, self.table, self.ref, self.recorder, self.shape = number, table, ref, recorder, shape
        self.random = random.Random(f"{seed}/{number}")
        self.expiries = random.Random(f"{seed}/{number}/expiries")
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

    def expiry(self, *, is_put: bool) -> dict[str, Any]:
        """What a call says of its key's expiry."""
        if not self.shape.expiring or self.expiries.random() >= self.shape.expiring:
            return {}
        if is_put and self.expiries.random() < 0.25:
            return {"keep_ttl": True}
        return {"ttl": self.expiries.choice(_TTLS_S)}

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
        how |= self.expiry(is_put=True)
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
            expiry = self.expiry(is_put=False)
            await self.write(
                [_operation("append", key, value)],
                lambda: self.table.update(key, append=value, timeout=self.shape.timeout_s, **expiry),
            )
            return
        key, number = b"count{%d}" % tag, self.operand()
        name = self.random.choice(["add", "add", "max", "min"])
        how: dict[str, Any] = {name: number, **self.expiry(is_put=False)}
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
