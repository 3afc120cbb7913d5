"""A node of four is lost for good: how long it takes until all partitions have their copies, against copying the bytes.

The floor copies the files of the lost node's indexes, which survive it here, through a socket of this machine into new
files, each synced: two at a time, as a node copies two replicas at a time. Both have the same two cores and disk.
"""

from __future__ import annotations

import asyncio
import importlib
import os
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import perf_counter
from typing import Final

from bench.callers import run_async
from bench.drivers.duramen import SERVER_NEEDS
from bench.drivers.lost_node import HEAL_AFTER_S, LostNode
from bench.workload import Bar, Measurement, RunSettings, Side, Workload

__all__ = ["HEALING"]

_NODES: Final = 4
_PARTITIONS: Final = 16
_LOST: Final = "n2"
_PIECE: Final = 1 << 20


async def _healed(settings: RunSettings, records: int, value_bytes: int) -> Measurement:
    records = records // 10 if settings.quick else records
    cluster = LostNode(settings.folder, nodes=_NODES)
    try:
        await cluster.start()
        await cluster.fill(records, value_bytes, partitions=_PARTITIONS)
        killed_s = await cluster.kill(_LOST)
        took_s = await cluster.healed(_LOST) - killed_s - HEAL_AFTER_S
        jobs = await cluster.jobs()
        files = cluster.files(_LOST)
    finally:
        await cluster.stop()
    copied_s = min([await asyncio.to_thread(_copied, files, settings.folder / "copies") for _ in range(3)])
    size = sum(file.stat().st_size for file in files)
    sources = sorted({task.note.split()[2] for job in jobs for task in job.task_list})
    return Measurement(
        {"seconds": took_s, "copy_seconds": copied_s, "healed_to_copied": took_s / copied_s},
        f"duramen {importlib.import_module('duramen').__version__}",
        f"{records:,} × {value_bytes:,} B, {len(files)} replicas of {size / 2**20:,.0f} MiB, by {len(jobs)} jobs, from "
        f"{' and '.join(sources)}; without the {HEAL_AFTER_S:g} s of --heal-after",
    )


def _copied(files: list[Path], folder: Path) -> float:
    """Seconds for the files through sockets, two at a time, each synced."""
    folder.mkdir()
    began = perf_counter()
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda numbered: _copy(numbered[1], folder / str(numbered[0])), enumerate(files)))
    took_s = perf_counter() - began
    for file in folder.iterdir():
        file.unlink()
    folder.rmdir()
    return took_s


def _copy(source: Path, target: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        sender = threading.Thread(target=_send, args=(source, listener.getsockname()[1]))
        sender.start()
        connection, _ = listener.accept()
        with connection, target.open("wb") as sink:
            while piece := connection.recv(_PIECE):
                sink.write(piece)
            sink.flush()
            os.fsync(sink.fileno())
        sender.join()


def _send(source: Path, port: int) -> None:
    with socket.create_connection(("127.0.0.1", port)) as connection, source.open("rb") as file:
        connection.sendfile(file)


def _workload(name: str, title: str, records: int, value_bytes: int, *bars: Bar) -> Workload:
    def run(settings: RunSettings) -> Measurement:
        return run_async(_healed(settings, records, value_bytes))

    return Workload(name, title, (Side("duramen", "subject", run, SERVER_NEEDS),), bars, runs_max=1)


HEALING: Final = (
    _workload(
        "healing",
        "a node of four is lost with 800,000 records of 1,000 B in two copies: until all copies are there again",
        800_000,
        1000,
        Bar("healed_to_copied", "at most", 2),
    ),
)
