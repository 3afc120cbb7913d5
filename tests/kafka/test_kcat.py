"""kcat writes into tables, and reads what Duramen wrote: nothing of ours between them but the topic."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import uuid
from pathlib import Path
from typing import NamedTuple

import pytest
from kit.deadlines import patience_s
from kit.kafka.foreign import DEADLINE_S, database_on, end_of, make_topic, token

from log_tier.kafka.records.header import HEADER_NAME
from log_tier.model.partitioner import partition_of

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.skipif(shutil.which("kcat") is None, reason="needs kcat: apt-get install kcat"),
]

KEYS = [b"UA%d" % number for number in range(40)] + [b"{tag}.a", b"{tag}.b", "ключ".encode()]


class SeenRecord(NamedTuple):
    """A record as kcat prints it."""

    key: bytes
    value: bytes | None
    headers: bytes


def kcat(kafka: str, *arguments: str, stdin: bytes = b"") -> bytes:
    done = subprocess.run(
        ["kcat", "-b", kafka, *arguments], input=stdin, capture_output=True, timeout=patience_s(DEADLINE_S), check=False
    )
    assert done.returncode == 0, done.stderr.decode(errors="replace")
    return done.stdout


def write(kafka: str, topic: str, pairs: dict[bytes, bytes], *more: str) -> None:
    lines = b"".join(key + b"\t" + value + b"\n" for key, value in pairs.items())
    kcat(kafka, "-P", "-t", topic, "-K", "\\t", *more, stdin=lines)


def read(kafka: str, topic: str, partition: int, offset: int) -> SeenRecord:
    """The one record at an offset. Sizes come first, so that no byte of it can be mistaken for kcat's own."""
    where = ["-C", "-q", "-t", topic, "-p", str(partition), "-o", str(offset), "-c", "1"]
    printed = kcat(kafka, *where, "-f", "%K %S %k%s%h")
    key_size, value_size, rest = printed.split(b" ", 2)
    after_key, size = int(key_size), int(value_size)
    value = None if size < 0 else rest[after_key : after_key + size]
    return SeenRecord(rest[:after_key], value, rest[after_key + max(size, 0) :])


async def test_it_writes_into_a_table_of_ours(kafka: str, tmp_path: Path) -> None:
    """The partition is passed to it, because it knows nothing of slots."""
    namespace = f"t{uuid.uuid4().hex[:12]}"
    async with database_on(kafka, tmp_path, namespace=namespace) as database:
        flights = await database.create_table("flights", partitions=3)
        table = (await flights.describe()).table
        topic = f"{namespace}.flights"
        placed = {key: partition_of(key, 3) for key in KEYS}
        assert set(placed.values()) == {0, 1, 2}
        for partition in range(3):
            mine = {key: b"from kcat " + key for key in KEYS if placed[key] == partition}
            await asyncio.to_thread(write, kafka, topic, mine, "-p", str(partition))
            low, high = await asyncio.to_thread(end_of, kafka, topic, partition)
            assert high - low == len(mine)
            for number, (key, value) in enumerate(mine.items()):
                entry = await flights.get_entry(key, after=token(table.id, partition, low + number))
                assert entry is not None
                assert (entry.value, entry.version) == (value, low + number)


async def test_it_writes_where_murmur2_says(kafka: str, tmp_path: Path) -> None:
    """Its partitioner is librdkafka's own `murmur2_random`, which is to agree with Java's."""
    topic = await asyncio.to_thread(make_topic, kafka, partitions=4)
    async with database_on(kafka, tmp_path) as database:
        flights = await database.create_table("flights", over=topic)
        table = (await flights.describe()).table
        values = {key: b"by murmur2 " + key for key in KEYS}
        await asyncio.to_thread(write, kafka, topic, values, "-X", "topic.partitioner=murmur2_random")
        ends = [(await asyncio.to_thread(end_of, kafka, topic, partition))[1] for partition in range(4)]
        assert sum(ends) == len(KEYS)
        assert min(ends) > 0
        for key in KEYS:
            partition = table.partition_of(key)
            assert await flights.get(key, after=token(table.id, partition, ends[partition] - 1)) == values[key]


async def test_its_empty_values_delete(kafka: str, tmp_path: Path) -> None:
    topic = await asyncio.to_thread(make_topic, kafka)
    async with database_on(kafka, tmp_path) as database:
        flights = await database.create_table("flights", over=topic)
        table = (await flights.describe()).table
        await asyncio.to_thread(write, kafka, topic, {b"gone": b"1", b"stays": b"2", b"empty": b""})
        assert await flights.get(b"gone", after=token(table.id, 0, 2)) == b"1"
        assert await flights.get(b"empty") == b"", "without -Z an empty value is a value"
        await asyncio.to_thread(write, kafka, topic, {b"gone": b""}, "-Z")
        assert await flights.get(b"gone", after=token(table.id, 0, 3)) is None
        assert [key async for key, _ in flights.scan()] == [b"empty", b"stays"]


async def test_it_reads_what_duramen_wrote(kafka: str, tmp_path: Path) -> None:
    namespace = f"t{uuid.uuid4().hex[:12]}"
    key, value = b"\x00\xffkey\n", b"\x00\x01 any \xff bytes\n"
    async with database_on(kafka, tmp_path, namespace=namespace) as database:
        flights = await database.create_table("flights", partitions=1)
        put = await flights.put(key, value)
        empty = await flights.put(b"empty", b"")
        updated = await flights.update(b"count", add=5)
        deleted = await flights.delete(key)
        conditional = await flights.put(b"once", b"1", if_absent=True)
    topic = f"{namespace}.flights"

    def seen(offset: int) -> SeenRecord:
        return read(kafka, topic, 0, offset)

    found = [await asyncio.to_thread(seen, done.offset) for done in (put, empty, updated, deleted, conditional)]
    assert [(each.key, each.value) for each in found] == [
        (key, value),
        (b"empty", b""),
        (b"count", b"5"),
        (key, None),
        (b"once", b"1"),
    ]
    # It prints a header as text, so up to its first zero byte: the version of ours, and what comes before the zero.
    assert all(each.headers.startswith(HEADER_NAME.encode() + b"=\x01") for each in found), found
