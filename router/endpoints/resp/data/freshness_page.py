"""The freshness page of a table: what reader processes must know of it, in shared memory.

    N.page     cells of 8 bytes, each written at once:
               0               format version
               1               generation: rises before anything else changes of which index is read
               2 …             floor, for each partition: no read is answered from before it, whatever its key
               2 + P …         for each of the 16,384 hash slots, the offset of the last acknowledged write to it
    N.json     generation, table, and the folder of each partition's index, null where it cannot be read by others

A slot lies in one partition, so its offsets are of one log and only rise; that the index has applied the offset is all
that a reader has to see, and nobody takes anything out again. The JSON file is replaced after the generation rose; a
reader that finds another generation in it asks the server until it has caught up.

The files live as long as the server, in a folder of its own that nobody else may enter; what one that was killed left
behind is removed by the next one that starts.
"""

from __future__ import annotations

import fcntl
import json
import mmap
import os
import shutil
import tempfile
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from log_tier.model.identifiers import Offset, Partition
from log_tier.model.partitioner import slot_of
from log_tier.model.table_ref import TableRef
from router.endpoints.resp.data.trust_cell import TrustCell

__all__ = [
    "FLOORS",
    "GENERATION",
    "PAGE_VERSION",
    "FreshnessPage",
    "FreshnessPages",
    "Tally",
    "description_of",
    "page_path",
]

PAGE_VERSION: Final = 1

GENERATION: Final = 1
FLOORS: Final = 2

_SLOTS: Final = 16384
_PREFIX: Final = "duramen-readers-"

_LOCK: Final = "lock"
"""Held by the server for as long as it lives."""
_CELL_BYTES: Final = 8


def page_path(folder: Path, number: int) -> Path:
    """The path of a page's shared file."""
    return folder / f"{number}.page"


def _description_path(folder: Path, number: int) -> Path:
    return folder / f"{number}.json"


def description_of(folder: Path, number: int) -> dict[str, Any] | None:
    """What the page says of the table; None if the page is gone."""
    try:
        found: dict[str, Any] = json.loads(_description_path(folder, number).read_bytes())
    except FileNotFoundError:
        return None
    return found


class FreshnessPage:
    """The server's side of a freshness page. Belongs to its event loop."""

    def __init__(self, folder: Path, number: int, ref: TableRef) -> None:
        self.number = number
        self._folder = folder
        self._ref = ref
        self._slots_at = FLOORS + ref.partitions
        cells = self._slots_at + _SLOTS
        with open(page_path(folder, number), "xb+") as file:
            os.ftruncate(file.fileno(), cells * _CELL_BYTES)
            self._memory = mmap.mmap(file.fileno(), cells * _CELL_BYTES)
        self._cells = memoryview(self._memory).cast("q")
        self._memory[:] = b"\xff" * len(self._memory)  # NOTHING in every cell
        self._cells[0], self._cells[GENERATION] = PAGE_VERSION, 0
        self._closed = False

    def withdraw(self) -> None:
        """Readers of the indexes that were described stop before this returns; `describe` says what follows. 0.1 µs."""
        if not self._closed:
            self._cells[GENERATION] += 1

    def describe(self, indexes: Sequence[Path | None]) -> None:
        """From now on these indexes are the ones to read, by partition. Readers of others stop before this returns."""
        if self._closed:
            return
        self.withdraw()
        generation = self._cells[GENERATION]
        path = _description_path(self._folder, self.number)
        new = path.with_suffix(".new")
        described = {
            "generation": generation,
            "table_id": self._ref.id,
            "table": self._ref.name,
            "indexes": [None if index is None else str(index) for index in indexes],
        }
        new.write_text(json.dumps(described), encoding="utf-8")
        os.replace(new, path)

    def wrote(self, keys: Iterable[bytes], last: Offset) -> None:
        """A write to these keys is about to be acknowledged; its last offset. 0.2 µs a key."""
        if self._closed:
            return
        cells, at = self._cells, self._slots_at
        for key in keys:
            cells[at + slot_of(key)] = last

    def raise_floor(self, partition: Partition, offset: Offset) -> None:
        """A state was shown that holds `offset`."""
        if not self._closed and offset > self._cells[FLOORS + partition]:
            self._cells[FLOORS + partition] = offset

    def close(self) -> None:
        """End the page: no reader process reads the table by it any more. Idempotent."""
        if self._closed:
            return
        self.describe([None] * self._ref.partitions)
        self._closed = True
        self._cells.release()
        self._memory.close()
        page_path(self._folder, self.number).unlink(missing_ok=True)
        _description_path(self._folder, self.number).unlink(missing_ok=True)


class Tally:
    """How many commands each reader has answered by itself: a cell for each of them, which only it writes."""

    def __init__(self, folder: Path, readers: int) -> None:
        """`readers`: how many there are at most; the file is made where it is missing."""
        with open(folder / "tally", "ab+") as file:
            os.ftruncate(file.fileno(), readers * _CELL_BYTES)
            self._memory = mmap.mmap(file.fileno(), readers * _CELL_BYTES)
        self.cells = memoryview(self._memory).cast("q")

    def total(self) -> int:
        """Of all readers. An endpoint that was closed has none any more."""
        return 0 if self._memory.closed else sum(self.cells)

    def close(self) -> None:
        """Idempotent."""
        self.cells.release()
        self._memory.close()


class FreshnessPages:
    """Makes the freshness pages of an endpoint, in a folder of its own, which is removed in the end."""

    def __init__(self, readers: int) -> None:
        _remove_left_behind()
        self.folder, self._lock = _locked_folder()
        """Only this user may enter it."""
        self.readers = readers
        """How many processes there should be."""
        self.tally = Tally(self.folder, readers)
        self.trust = TrustCell(self.folder)
        self._last = 0

    def make(self, ref: TableRef) -> FreshnessPage | None:
        """A new freshness page; None for a table whose partitions do not follow from the hash slot."""
        if ref.partitioner != "slot":
            return None
        self._last += 1
        return FreshnessPage(self.folder, self._last, ref)

    def close(self) -> None:
        """Remove everything. Idempotent."""
        self.tally.close()
        self.trust.close()
        shutil.rmtree(self.folder, ignore_errors=True)
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


def _locked_folder() -> tuple[Path, int]:
    """A new folder with its lock. If another process takes the folder for an abandoned one before it is locked, make a
    new one.
    """
    while True:
        folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
        lock = os.open(folder / _LOCK, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        fcntl.flock(lock, fcntl.LOCK_EX)
        if (folder / _LOCK).exists():
            return folder, lock
        os.close(lock)


def _remove_left_behind() -> None:
    """The folders of servers that were killed: those whose lock nobody holds."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with suppress(OSError):  # another user's, or one that another process is removing
            lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CLOEXEC)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(lock)
