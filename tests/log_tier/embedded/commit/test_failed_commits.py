"""A commit that fails: what each of its writes is answered is what the next process finds."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from kit.log.engine_steps import SMALL, open_log
from kit.log.sample_batches import keys_of, plain_batch, read_all
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from duramen.testing.machine.memory_disk import MemoryDisk
from duramen.tracing.otel_spans import OtelSpan
from log_tier.embedded import EmbeddedLog
from log_tier.model.errors import DuramenError, LogStopped, WriteUnknown
from log_tier.model.log import Appended, Topic
from log_tier.tracing.span import TRACED

PARTITIONS = 3
LARGE = b"x" * 1500
"""Three of them are too much for a journal of 4 KiB, so each segment is synced."""

Fault = Callable[[str, Path], bool]


def of_any_sync(step: str, path: Path) -> bool:
    return step == "sync"


def of_the_second_segment(step: str, path: Path) -> bool:
    return step == "sync" and path.suffix == ".log" and path.parent.name == "1"


def of_the_journal(step: str, path: Path) -> bool:
    return step == "sync" and path.name.startswith("journal")


def of_a_write_to_the_second_segment(step: str, path: Path) -> bool:
    return step == "write" and path.suffix == ".log" and path.parent.name == "1"


async def begin(disk: MemoryDisk, quick: bool) -> tuple[EmbeddedLog, Topic]:
    log = await open_log(disk, replace(SMALL, quick_commit_s=10.0 if quick else 0.0, segment_bytes=1 << 20))
    topic = await log.create_topic("flights", partitions=PARTITIONS)
    for _ in range(10):  # so many commits show that a disk is quick, and that each segment has its room
        for number in range(PARTITIONS):
            assert await log.append(topic.partition(number), plain_batch("warm"))
    return log, topic


@pytest.mark.parametrize("quick", [True, False], ids=["in the caller's thread", "in the writer's thread"])
@pytest.mark.parametrize(
    ("partitions", "value", "fault"),
    [
        ((0,), b"v", of_any_sync),
        ((0, 1, 2), b"v", of_the_journal),
        ((0, 1, 2), LARGE, of_the_second_segment),
        ((0, 1, 2), b"v", of_a_write_to_the_second_segment),
    ],
    ids=["one segment", "the journal", "one segment of three", "a write"],
)
@pytest.mark.parametrize("traced", [False, True], ids=["", "traced"])
async def test_what_was_written_and_not_synced_is_unknown(
    quick: bool, partitions: tuple[int, ...], value: bytes, fault: Fault, traced: bool
) -> None:
    disk = MemoryDisk()
    log, topic = await begin(disk, quick)
    parts = [(topic.partition(number), plain_batch("late", value=value)) for number in partitions]

    def fail(step: str, path: Path) -> None:
        if fault(step, path):
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    disk.on_step = fail
    spans, caller = caller_in_a_trace()
    if traced:
        TRACED.set((caller,))
    answers = await log.append_many(parts, gathered=quick)
    TRACED.set(())
    disk.on_step = lambda step, path: None
    for number in range(PARTITIONS):
        with pytest.raises(LogStopped, match="restart"):
            await log.append(topic.partition(number), plain_batch("later"))
    found = disk.after_process_end()
    await close(log)
    async with await open_log(found) as log:
        for number, answer in zip(partitions, answers, strict=True):
            keys = list(keys_of(await read_all(log, topic.id, number)).values())
            assert b"later" not in keys
            if isinstance(answer, Appended):
                assert b"late" in keys
            else:
                assert "restart" in answer.message
                outcome = type(answer)
                assert outcome is WriteUnknown or (outcome is LogStopped and b"late" not in keys), (
                    f"{number}: {answer!r}"
                )
    assert any(isinstance(answer, WriteUnknown) for answer in answers)
    finished = {span.name: span.attributes or {} for span in spans.get_finished_spans()}
    parts_of = {"log append", "log queue", "log write", "log sync", "log commit"}
    assert finished.keys() == (parts_of if traced else set()), "the log was closed, so its threads have ended"
    if traced:
        first = next(answer for answer in answers if isinstance(answer, DuramenError))
        assert finished["log append"]["error.type"] == first.code


def caller_in_a_trace() -> tuple[InMemorySpanExporter, OtelSpan]:
    spans = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(spans))
    tracer = provider.get_tracer("test")
    return spans, OtelSpan(tracer.start_span("put"), tracer)


async def test_what_waited_behind_it_was_not_written() -> None:
    """One commit is under way when its sync fails; what has gathered meanwhile never reached the disk."""
    disk = MemoryDisk()
    log, topic = await begin(disk, False)
    loop = asyncio.get_running_loop()
    behind: list[asyncio.Future[Appended]] = []

    def gather() -> None:
        behind.extend(
            asyncio.ensure_future(log.append(topic.partition(number), plain_batch("behind")))
            for number in range(PARTITIONS)
        )

    async def gathered() -> None:
        gather()
        await asyncio.sleep(0)

    def fail(step: str, path: Path) -> None:
        if step == "sync":
            asyncio.run_coroutine_threadsafe(gathered(), loop).result()
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    disk.on_step = fail
    with pytest.raises(WriteUnknown):
        await log.append(topic.partition(0), plain_batch("late"))
    disk.on_step = lambda step, path: None
    answers = await asyncio.gather(*behind, return_exceptions=True)
    assert {type(answer) for answer in answers} == {LogStopped}
    found = disk.after_process_end()
    await close(log)
    async with await open_log(found) as log:
        keys = [key for number in range(PARTITIONS) for key in keys_of(await read_all(log, topic.id, number)).values()]
        assert b"late" in keys
        assert b"behind" not in keys


async def close(log: EmbeddedLog) -> None:
    with suppress(LogStopped):
        await log.close()
