"""Versions of a table: written, staged, swapped in. Without Spark, which `spark_*` measures."""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from time import perf_counter
from typing import Any, Final

from bench.callers import run_async
from bench.drivers.duramen import SERVER_NEEDS
from bench.workload import Bar, Measurement, Needs, RunSettings, Side, Workload
from log_tier.model.identifiers import PartitionId

__all__ = ["VERSIONS"]

_ROWS: Final = 2_000_000
_CHUNK: Final = 8192
_VALUE_BYTES: Final = 100


def _rows(count: int) -> Iterator[tuple[list[bytes], list[bytes]]]:
    """Sorted keys of 17 bytes with values of 100, in chunks as Spark's Arrow batches have them."""
    value = os.urandom(_VALUE_BYTES)
    numbers = iter(range(count))
    while chunk := list(islice(numbers, _CHUNK)):
        yield [b"key%014d" % number for number in chunk], [value] * len(chunk)


def _count(settings: RunSettings, rows: int) -> int:
    return rows // 10 if settings.quick else rows


def _version() -> str:
    return f"duramen {importlib.import_module('duramen').__version__}"


# --- writing an index from sorted rows


def _writer(settings: RunSettings) -> Measurement:
    writing = importlib.import_module("spark_bulk.build.index_writer")
    ids = importlib.import_module("log_tier.model.identifiers")
    # As columns, which is how Spark gives them.
    arrow = importlib.import_module("pyarrow")
    chunks = [
        (arrow.array(keys, arrow.binary()), arrow.array(values, arrow.binary()))
        for keys, values in _rows(_count(settings, _ROWS))
    ]
    began = perf_counter()
    with writing.IndexWriter.open(
        settings.folder / "index",
        partition=PartitionId(ids.table_id_from_bytes(bytes(16)), ids.Partition(0)),
        base=writing.Base(ids.Offset(7), 0),
    ) as writer:
        for keys, values in chunks:
            writer.write(keys, values)
        writer.finish()
    rate = _count(settings, _ROWS) / (perf_counter() - began)
    return Measurement({"records_per_second": rate}, _version(), "checked order, keys and values; no copy, no sync")


def _putmulti(settings: RunSettings) -> Measurement:
    import lmdb

    chunks = list(_rows(_count(settings, _ROWS)))
    began = perf_counter()
    with lmdb.open(str(settings.folder), map_size=60 << 30, sync=False, metasync=False, meminit=False) as env:
        for at in range(0, len(chunks), 64):
            with env.begin(write=True) as txn, txn.cursor() as cursor:
                for keys, values in chunks[at : at + 64]:
                    cursor.putmulti(zip(keys, values, strict=True), append=True)
        rate = _count(settings, _ROWS) / (perf_counter() - began)
    return Measurement({"records_per_second": rate}, f"py-lmdb {lmdb.__version__}", "putmulti(append=True)")


def _sst(settings: RunSettings) -> Measurement:
    rocksdict = importlib.import_module("rocksdict")
    chunks = list(_rows(_count(settings, _ROWS)))
    options = rocksdict.Options(raw_mode=True)
    began = perf_counter()
    writer = rocksdict.SstFileWriter(options=options)
    writer.open(str(settings.folder / "rows.sst"))
    for keys, values in chunks:
        for key, value in zip(keys, values, strict=True):
            writer[key] = value
    writer.finish()
    database = rocksdict.Rdict(str(settings.folder / "db"), options=options)
    database.ingest_external_file([str(settings.folder / "rows.sst")])
    rate = _count(settings, _ROWS) / (perf_counter() - began)
    database.close()
    return Measurement({"records_per_second": rate}, "rocksdict", "an SST file written row by row, and ingested")


INDEX_WRITER: Final = Workload(
    "index_writer",
    f"an index from {_ROWS:,} sorted rows of 17 + {_VALUE_BYTES} bytes",
    (
        Side("duramen", "subject", _writer, SERVER_NEEDS),
        Side("lmdb", "floor", _putmulti, Needs(("lmdb",))),
        Side("rocksdict", "peer", _sst, Needs(("rocksdict",), install="extra: duramen[bench]")),
    ),
    (Bar("records_per_second", "at least", 0.6, "lmdb"),),
)


# --- staging and swapping on a running server


async def _built(folder: Path, table: Any, bases: list[int], rows: int) -> tuple[str, int]:
    """A version of a table of one partition, of so many rows; its URL and bytes."""
    writing = importlib.import_module("spark_bulk.build.index_writer")
    ids = importlib.import_module("log_tier.model.identifiers")
    stores = importlib.import_module("serving_tier.versions.version_store")
    manifests = importlib.import_module("serving_tier.versions.manifest")
    url = f"file://{folder / 'version'}"
    store = stores.VersionStore.open(url)
    index = folder / "built"
    with writing.IndexWriter.open(
        index, partition=table.partition(ids.Partition(0)), base=writing.Base(ids.Offset(bases[0]), 0)
    ) as writer:
        for keys, values in _rows(rows):
            writer.write(keys, values)
        writer.finish()
    snapshot = await writing.store_index(
        index, store.snapshots, partition=table.partition(ids.Partition(0)), table_name=table.name
    )
    part = manifests.part_of(snapshot)
    await store.put(manifests.VersionManifest("b" * 16, table.id, table.name, 1, "slot", 0, "bench", (part,)))
    return url, part.bytes


class _Reader(threading.Thread):
    """Reads one key all the time, in a process's own client; notes the longest pause, and what failed."""

    def __init__(self, target: str) -> None:
        super().__init__()
        self._target, self._stop_asked = target, threading.Event()
        self.reads = self.failures = 0
        self.longest_s = 0.0
        self.watched = False
        """Only pauses while this is set count."""

    def run(self) -> None:
        duramen = importlib.import_module("duramen")
        with duramen.connect(self._target) as database:
            table = database.table("bench")
            while not self._stop_asked.is_set():
                began = perf_counter()
                try:
                    found = table.get(b"key%014d" % (self.reads * 7919 % 100_000))
                    self.failures += found is None
                except duramen.DuramenError:
                    self.failures += 1
                if self.watched:
                    self.longest_s = max(self.longest_s, perf_counter() - began)
                    self.reads += 1

    def end(self) -> None:
        self._stop_asked.set()
        self.join()


class _Writer(_Reader):
    """Puts all the time: a swap under load."""

    def run(self) -> None:
        duramen = importlib.import_module("duramen")
        with duramen.connect(self._target) as database:
            table = database.table("bench")
            number = 0
            while not self._stop_asked.is_set():
                table.put(b"new%d" % (number % 1000), b"x")
                number += 1


async def _swapped(settings: RunSettings) -> Measurement:
    verbs = importlib.import_module("router.admin.verbs")
    client = importlib.import_module("router.admin.client")
    remote = importlib.import_module("log_tier.catalog.remote.cluster_view")
    duramen = importlib.import_module("duramen.aio")
    rows = _count(settings, _ROWS)
    command = [sys.executable, "-m", "duramen", "up", "--data", str(settings.folder / "data"), "--port", "0", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:  # noqa: ASYNC220 - the bench waits
        try:
            assert process.stdout is not None
            target = f"127.0.0.1:{json.loads(process.stdout.readline())['port']}"
            async with await duramen.connect(target) as database:
                bench = await database.create_table("bench", partitions=1)
                await bench.put_many((b"key%014d" % number, b"old") for number in range(100_000))
                token = importlib.import_module("log_tier.model.tokens").Token.parse(str(await bench.end_token()))
            table = (await remote.fetch_view(target, timeout=10)).map.find("bench").ref
            url, size = await _built(settings.folder, table, [token.offsets(table.id)[0]], rows)
            copied = await asyncio.to_thread(_copy, next((settings.folder / "version").glob("*/0/*/data.mdb")))
            reader, writer = _Reader(target), _Writer(target)
            async with client.AdminConnection(target) as admin:
                began = perf_counter()
                await _done(admin, verbs.Stage("bench", url))
                staged = perf_counter() - began
                for thread in (reader, writer):
                    thread.start()
                try:
                    await asyncio.sleep(1.0)
                    reader.watched = True
                    for change in (verbs.Swap("bench"), verbs.Rollback("bench"), verbs.Swap("bench", 2)):
                        await _done(admin, change)
                        await asyncio.sleep(0.5)
                finally:
                    for thread in (reader, writer):
                        await asyncio.to_thread(thread.end)
        finally:
            process.terminate()
    return Measurement(
        {
            "install_speed": copied / staged,
            "seconds": staged,
            "longest_ms": reader.longest_s * 1000,
            "reads": reader.reads,
            "failures": reader.failures,
        },
        _version(),
        f"{rows:,} rows, {size / 2**20:.0f} MiB; cp and fsync of it took {copied:.2f} s; three swaps while one client "
        "reads and another one writes",
    )


async def _done(admin: Any, change: Any) -> None:
    plan = await admin.start(change)
    async for job in admin.follow_job(plan.job):
        state = job.state
    if state != "done":
        raise AssertionError(f"{change}: the job is {state}")


def _copy(file: Path) -> float:
    """`cp` and fsync; the best of three, since the floor is what the machine can do."""
    best = float("inf")
    for _ in range(3):
        target = file.with_suffix(".copy")
        began = perf_counter()
        with open(file, "rb") as source, open(target, "wb") as sink:
            while os.sendfile(sink.fileno(), source.fileno(), None, 1 << 24):
                pass
            os.fsync(sink.fileno())
        best = min(best, perf_counter() - began)
        target.unlink()
    return best


SWAP: Final = Workload(
    "stage_swap",
    f"a version of {_ROWS:,} rows staged on a running server, and swapped three times under load",
    (Side("duramen", "subject", lambda settings: run_async(_swapped(settings)), SERVER_NEEDS),),
    (
        Bar("install_speed", "at least", 0.5),
        Bar("longest_ms", "at most", 50),
        Bar("failures", "at most", 0),
    ),
    runs_max=3,
)

VERSIONS: Final = (INDEX_WRITER, SWAP)
