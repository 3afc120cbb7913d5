"""Which disk calls there are, and which one of them fails: what a test says to the processes that it starts."""

from __future__ import annotations

import errno
import json
import os
import re
from collections import Counter
from pathlib import Path
from typing import Final, NamedTuple, Self

__all__ = ["SHORT", "CallFault", "CallPoint", "DiskCalls", "kind_of"]

VARIABLE: Final = "DURAMEN_TESTS_DISK_CALLS"

SHORT: Final = 0
"""In place of an error's number: half of the bytes are written, and no error is reported."""

# What differs from run to run in the names of files: ids of tables, of snapshots, numbers.
_NAMES: Final = (
    (re.compile(r"(?<=/)(new-|gone-|)[A-Za-z0-9_-]{22}(?=/|$)"), r"\1TABLE"),
    (re.compile(r"-?\d{19,20}-[0-9a-zA-Z]+"), "SNAPSHOT"),
    (re.compile(r"copy-[0-9a-f]+"), "copy-ID"),
    (re.compile(r"duramen-readers-\w+"), "duramen-readers-ID"),
    (re.compile(r"\d+"), "N"),
)


def kind_of(path: str) -> str:
    """A file's kind: its path below the data folder without what differs from run to run."""
    for pattern, word in _NAMES:
        path = pattern.sub(word, path)
    return path or "."


class CallPoint(NamedTuple):
    """A call of the C library on a kind of file, the `nth` one of its process, from 0."""

    call: str
    kind: str
    nth: int

    def __str__(self) -> str:
        return f"{self.call} {self.kind} #{self.nth}"


class CallFault(NamedTuple):
    """A point, and how the call there fails."""

    point: CallPoint
    error: int
    """An error's number, or `SHORT`."""

    def __str__(self) -> str:
        return f"{self.point}: {errno.errorcode[self.error] if self.error else 'a short write'}"


class DiskCalls(NamedTuple):
    """What a process does with the disk calls below `root`: it writes them into `record`, and lets one fail."""

    root: Path
    record: Path
    fault: CallFault | None = None

    def environment(self) -> dict[str, str]:
        """The environment of the process, beside this one's."""
        here = Path(__file__).parent
        said = json.dumps([str(self.root), str(self.record), self.fault and [*self.fault.point, self.fault.error]])
        return {**os.environ, VARIABLE: said, "PYTHONPATH": os.pathsep.join([str(here), str(here.parent.parent)])}

    @classmethod
    def of_environment(cls) -> Self | None:
        """The other side of `environment()`; None in a process to which nobody said anything."""
        if VARIABLE not in os.environ:
            return None
        root, record, fault = json.loads(os.environ[VARIABLE])
        return cls(Path(root), Path(record), fault and CallFault(CallPoint(*fault[:3]), fault[3]))

    def points(self) -> Counter[tuple[str, str]]:
        """How often each call on each kind of file was made, by every process that wrote into `record`."""
        lines = self.record.read_text().splitlines() if self.record.exists() else []
        return Counter((call, kind) for call, _, kind in (line.partition(" ") for line in lines) if call != "FAILED")

    def failed(self) -> list[str]:
        """The paths of the calls that failed."""
        lines = self.record.read_text().splitlines() if self.record.exists() else []
        return [path for call, _, path in (line.partition(" ") for line in lines) if call == "FAILED"]
