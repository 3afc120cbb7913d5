"""Looking at many partitions, as after a kill: several threads, because each look waits for the device.

A partition that was written to is synced, and the end of its newest file is read from the device and not from memory
(`segment_end`). A thousand such waits, one after another, take longer than all the work between them.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, NamedTuple

from log_tier.embedded.recovery.open_partition import RecoveryReport, look_at_partition
from log_tier.embedded.segments.partition_state import PartitionState
from log_tier.embedded.storage.disk import Disk
from log_tier.embedded.storage.settings import EngineSettings
from log_tier.model.identifiers import Offset

__all__ = ["Looked", "look_at_many"]

# Threads that look: enough that a device has several reads and syncs before it, few enough that they do not only take
# turns at the interpreter's lock.
_LOOKERS: Final = 8

# Fewer partitions than this are looked at by one thread.
_SHARED_OUT: Final = 64


class Looked(NamedTuple):
    """What the look at one partition found."""

    state: PartitionState
    report: RecoveryReport


def look_at_many(places: Sequence[tuple[Path, Offset]], disk: Disk, settings: EngineSettings) -> list[Looked]:
    """Look at the partitions in these folders, each with the end that is proved of it; the results in the same order.

    Returns, or raises, when every thread has ended. Raises as `look_at_partition` does.
    """

    def look(folder: Path, proved_end: Offset) -> Looked:
        report = RecoveryReport()
        return Looked(look_at_partition(folder, disk, settings, report=report, proved_end=proved_end), report)

    def look_at_some(first: int) -> list[Looked]:
        return [look(*place) for place in places[first::_LOOKERS]]

    if len(places) < _SHARED_OUT:
        return [look(*place) for place in places]
    with ThreadPoolExecutor(_LOOKERS, thread_name_prefix="duramen-log-look") as threads:
        parts = [iter(part) for part in threads.map(look_at_some, range(_LOOKERS))]
    return [next(parts[at % _LOOKERS]) for at in range(len(places))]
