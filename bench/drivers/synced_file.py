"""A floor: writes into a preallocated file, each followed by `fdatasync`."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from time import perf_counter_ns
from typing import Final

__all__ = ["NOTE", "timed_writes"]

NOTE: Final = "pwrite + fdatasync, one thread, file preallocated and filled with zeros, no index"


def timed_writes(
    folder: Path, writes: Iterable[bytes], *, bytes_max: int, seconds_max: float | None = None
) -> list[int]:
    """Write and sync every element of `writes`; the duration of each in nanoseconds.

    The file has `bytes_max` bytes from the start, filled with zeros and synced, so that a timed sync has no metadata to
    write: merely reserved blocks (`posix_fallocate`) cost a journal entry at first write. Stops before a write that
    would not fit, and after `seconds_max`.
    """
    durations: list[int] = []
    descriptor = os.open(folder / "floor.log", os.O_CREAT | os.O_WRONLY, 0o600)
    try:
        zeros = bytes(1 << 20)
        for start in range(0, bytes_max, len(zeros)):
            os.pwrite(descriptor, zeros[: bytes_max - start], start)
        os.fsync(descriptor)
        position = 0
        deadline = None if seconds_max is None else perf_counter_ns() + int(seconds_max * 1e9)
        for data in writes:
            started = perf_counter_ns()
            if position + len(data) > bytes_max or (deadline is not None and started >= deadline):
                break
            position += os.pwrite(descriptor, data, position)
            os.fdatasync(descriptor)
            durations.append(perf_counter_ns() - started)
    finally:
        os.close(descriptor)
    return durations
