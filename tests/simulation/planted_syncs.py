"""Every sync of the log left out, one at a time: the places are found in the sources, so a new sync is planted too.

A place is one call in one function. The disk's own call stays as it is; it does nothing where that place makes it. What
`replace_file` syncs is a place for each kind of document that it writes.
"""

from __future__ import annotations

import ast
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any, Final, NamedTuple

import log_tier.embedded
from duramen.testing.machine.kernel_disk import KernelDisk, KernelFile
from log_tier.embedded.commit import journal_replay
from log_tier.embedded.segments.growing_file import GrowingFile
from log_tier.embedded.segments.partition_log import PartitionLog
from log_tier.embedded.storage import names
from simulation.planted import Patches

__all__ = ["COVERED", "PLACES", "PLANTED_SYNCS", "SyncPlace"]

_ROOT: Final = Path(log_tier.embedded.__file__).parent
_CALLS: Final = ("fdatasync", "sync_folder", "sync")
_REPLACED: Final = (names.MARKER, names.TOPIC_FILE, names.CHECKPOINT, names.JOURNAL_WITNESS, names.SUMMARY)
"""The documents that `replace_file` writes."""


class SyncPlace(NamedTuple):
    """Where a sync stands."""

    file: str
    """Below `log_tier/embedded`."""
    function: str
    """With its class."""
    call: str
    number: int
    """Which of these calls in that function, from 1."""
    line: int
    document: str = ""
    """In `replace_file`: the name of what is written."""

    def __str__(self) -> str:
        which = f", {self.number}" if self.number > 1 else ""
        of = f" of {self.document}" if self.document else ""
        return f"{self.function} does not {self.call}{which}{of}"


def _places(path: Path) -> Iterator[SyncPlace]:
    """The calls of a file that sync, but for those of `disk.py` that pass a call on to the kernel."""
    counts: Counter[tuple[str, str]] = Counter()
    file = str(path.relative_to(_ROOT))

    def walk(node: ast.AST, function: str) -> Iterator[SyncPlace]:
        for child in ast.iter_child_nodes(node):
            inside = function
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                inside = f"{function}.{child.name}" if function else child.name
            if isinstance(child, ast.Call) and isinstance(child.func, ast.Attribute) and child.func.attr in _CALLS:
                counts[function, child.func.attr] += 1
                number = counts[function, child.func.attr]
                place = SyncPlace(file, function, child.func.attr, number, child.func.end_lineno or 0)
                if function == "replace_file":
                    yield from (place._replace(document=name) for name in _REPLACED)
                elif not (isinstance(child.func.value, ast.Name) and child.func.value.id == "os"):
                    yield place
            yield from walk(child, inside)

    yield from walk(ast.parse(path.read_text()), "")


def _all_places() -> list[SyncPlace]:
    """Those of a running log: no simulated operator repairs one."""
    files = sorted(path for path in _ROOT.rglob("*.py") if path.relative_to(_ROOT).parts[0] != "repair")
    return [place for path in files for place in _places(path)]


def _is_there(place: SyncPlace, frame: FrameType | None) -> bool:
    code = frame.f_code if frame is not None else None
    if frame is None or code is None or frame.f_lineno != place.line:
        return False
    if code.co_qualname != place.function or not code.co_filename.endswith(f"log_tier/embedded/{place.file}"):
        return False
    return not place.document or frame.f_locals["path"].name == place.document


def _left_out(place: SyncPlace) -> Patches:
    owner: Any = {"fdatasync": KernelFile, "sync_folder": KernelDisk, "sync": GrowingFile}[place.call]
    inner = getattr(owner, place.call)

    def sync(self: Any, *args: Any) -> None:
        if not _is_there(place, sys._getframe(1)):
            inner(self, *args)
        elif owner is GrowingFile:
            self.is_in_commit = self._unsynced = False

    return [(owner, place.call, sync)]


def _replay_lets_go_unsynced() -> Patches:
    place = next(each for each in PLACES if each.function == "_let_go")
    return [*_left_out(place), (journal_replay, "_REPLAY_FILES_MAX", 1)]


def _no_name_of_the_log_synced() -> Patches:
    inner = KernelDisk.sync_folder

    def sync_folder(self: KernelDisk, folder: Path) -> None:
        if folder.name != "log":
            inner(self, folder)

    return [(KernelDisk, "sync_folder", sync_folder)]


def _trim_is_not_written_down() -> Patches:
    inner = PartitionLog.save_checkpoint

    def save_checkpoint(self: PartitionLog, **how: Any) -> None:
        how.pop("earliest", None)
        inner(self, **how)

    return [(PartitionLog, "save_checkpoint", save_checkpoint)]


PLACES: Final = _all_places()

COVERED: Final = {
    "Journal._make_fit does not fdatasync": "the header, written next, syncs the same file; power is lost in between "
    "in tests/log_tier/embedded/test_journal_zeros.py",
    "Journal.open does not sync_folder": "the witness, written next, syncs the same folder before the first frame",
    "DataFolder._open does not sync_folder": "the marker, written next, syncs the same folder",
    "replace_file does not sync_folder of duramen.json": "the journal, opened next, syncs the same folder",
    "LogSummary.take does not sync_folder": "the witness syncs the same folder before anything is appended",
    "replace_file does not fdatasync of summary.json": "a summary that is torn is not used: it costs time",
    "replace_file does not sync_folder of summary.json": "a summary that is missing costs time",
    "replay does not fdatasync": "its second sync, which is found, covers the same files",
    "_let_go does not fdatasync": "a replay of few segments lets none go; planted below with room for one",
    "_rewrite does not sync_folder": "without its new name a segment is as it was before the compaction",
    "trim_partition does not sync_folder": "the checkpoint, written before, has them removed again at the next start",
}
"""Places without which nothing is lost, and why. Their pairs are planted together."""

PLANTED_SYNCS: Final[dict[str, Callable[[], Patches]]] = {
    **{str(place): partial(_left_out, place) for place in PLACES if str(place) not in COVERED},
    "a replay lets go of segments that are not synced": _replay_lets_go_unsynced,
    "no name in the log's folder is synced": _no_name_of_the_log_synced,
    "a trim is not written down before its files go": _trim_is_not_written_down,
}
