"""Topics filled by Kafka's own command-line tools, on Kafka's own Java client, served as tables."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from kit.deadlines import patience_s
from kit.kafka.foreign import database_on, end_of, make_topic, replicas_of, wait_level

from deploy.kafka.brokers import LIBS

pytestmark = pytest.mark.kafka

_JAVA_DEADLINE_S = 150


def java(tool: str, *arguments: str, stdin: bytes = b"") -> str:
    """Run one of Kafka's tools; what it printed."""
    command = ["java", "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", f"{LIBS}/*", tool, *arguments]
    done = subprocess.run(command, input=stdin, capture_output=True, timeout=patience_s(_JAVA_DEADLINE_S), check=False)
    assert done.returncode == 0, done.stderr.decode()[-2000:]
    return done.stdout.decode()


async def ends_of(kafka: str, topic: str, partitions: int) -> Sequence[int]:
    return [(await asyncio.to_thread(end_of, kafka, topic, partition))[1] for partition in range(partitions)]


async def test_java_puts_keys_where_murmur2_says(kafka: str, tmp_path: Path) -> None:
    """12,000 keys of all lengths, placed by the Java producer: each is found where a table looks for it."""
    topic = await asyncio.to_thread(make_topic, kafka, partitions=4)
    keys = [f"{'ключ' if number % 3 == 0 else 'key'}{number}{'x' * (number % 41)}" for number in range(12_000)]
    lines = "".join(f"{key}\tvalue of {key}\n" for key in keys).encode()
    await asyncio.to_thread(
        java,
        "org.apache.kafka.tools.ConsoleProducer",
        *("--bootstrap-server", kafka, "--topic", topic),
        *("--property", "parse.key=true", "--property", "key.separator=\t"),
        stdin=lines,
    )
    ends = await ends_of(kafka, topic, 4)
    assert sum(ends) == len(keys)
    assert min(ends) > 2000, "the partitioner has spread them"
    async with database_on(kafka, tmp_path) as database:
        table = await database.create_table("words", over=topic)
        await wait_level(database, table, ends)
        found = await table.get_many([key.encode() for key in keys])
        assert found == [f"value of {key}".encode() for key in keys]
        # Each by itself too, as a program asks.
        for key in keys[:500]:
            assert await table.get(key.encode()) == f"value of {key}".encode()
        assert sum(replica.index.count() for replica in await replicas_of(database, table)) == len(keys)


async def test_the_wrong_partitioner_does_not_find_them(kafka: str, tmp_path: Path) -> None:
    """So the test above can fail: by slots, three of four keys are looked for in another partition."""
    topic = await asyncio.to_thread(make_topic, kafka, partitions=4)
    keys = [f"key{number}" for number in range(400)]
    lines = "".join(f"{key}\tv\n" for key in keys).encode()
    properties = ["--property", "parse.key=true", "--property", "key.separator=\t"]
    where = ["--bootstrap-server", kafka, "--topic", topic]
    await asyncio.to_thread(java, "org.apache.kafka.tools.ConsoleProducer", *where, *properties, stdin=lines)
    async with database_on(kafka, tmp_path) as database:
        table = await database.create_table("words", over=topic, partitioner="slot")
        await wait_level(database, table, await ends_of(kafka, topic, 4))
        found = await table.get_many([key.encode() for key in keys])
        assert 200 < found.count(None) < 400


async def test_a_topic_of_the_perf_test_is_served(kafka: str, tmp_path: Path) -> None:
    """`kafka-producer-perf-test` writes no keys, so no table can hold its records: they are counted, and seen."""
    topic = await asyncio.to_thread(make_topic, kafka, partitions=4)
    await asyncio.to_thread(
        java,
        "org.apache.kafka.tools.ProducerPerformance",
        *("--topic", topic, "--num-records", "60000", "--record-size", "100", "--throughput", "-1"),
        *("--producer-props", f"bootstrap.servers={kafka}", "compression.type=lz4"),
    )
    ends = await ends_of(kafka, topic, 4)
    assert sum(ends) == 60_000
    async with database_on(kafka, tmp_path) as database:
        table = await database.create_table("load", over=topic)
        await wait_level(database, table, ends)
        replicas = await replicas_of(database, table)
        assert [replica.void for replica in replicas] == list(ends)
        assert [replica.index.statistics().void for replica in replicas] == list(ends)
        assert [pair async for pair in table.scan()] == []
        # For its own writes it is a table like any other.
        done = await table.put(b"UA1545", b"departed")
        assert await table.get(b"UA1545", after=done.token) == b"departed"
