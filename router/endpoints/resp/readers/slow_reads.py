"""Reads of a reader process that were slow, as lines for its server, which has the slow log.

A read is answered at once, so it is slow only where the processor or the disk of the machine is: a page of an index
that is not in memory, say. The process writes a line of JSON for each to its standard output; one that the server does
not take at once is lost.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from math import inf
from typing import Final

from log_tier.model.identifiers import Partition, PartitionId, TableId
from log_tier.slow_calls.slow_call import KEY_BYTES_MAX
from log_tier.slow_calls.slow_call_log import SlowCallLog
from log_tier.slow_calls.slow_ring import NOTED_MAX_PER_S
from router.endpoints.resp.command_spec import CommandSpec
from router.endpoints.resp.readers.reader_table import ReaderTable
from router.endpoints.resp.wire.fallback_parser import RespCommand

__all__ = ["SlowReads", "hear_slow_read"]

_PEER_CHARS_MAX: Final = 64


class SlowReads:
    """Of one reader process."""

    def __init__(self, least_s: float, now_s: Callable[[], float], write: Callable[[bytes], None]) -> None:
        """`write`: of a line. Never waits, and raises nothing."""
        self.least_s = least_s
        """What takes so long is slow."""
        self.now_s = now_s
        self._write = write
        self._second_s = -inf
        self._noted = 0

    def took(self, spec: CommandSpec, command: RespCommand, table: ReaderTable, began_s: float, peer: str) -> None:
        """A command was answered just now that was slow. No more than `NOTED_MAX_PER_S` in a second are written."""
        ended_s = self.now_s()
        if ended_s - self._second_s >= 1.0:
            self._second_s, self._noted = ended_s, 0
        self._noted += 1
        keys = spec.keys(command)
        if self._noted > NOTED_MAX_PER_S or not keys:
            return
        said = {
            "what": spec.name,
            "table": table.id,
            "partition": table.partition_of(keys[0]),
            "key": keys[0][:KEY_BYTES_MAX].hex(),
            "words": len(command),
            "began_s": began_s,
            "ended_s": ended_s,
            "peer": peer[:_PEER_CHARS_MAX],
        }
        self._write(json.dumps(said, separators=(",", ":")).encode() + b"\n")


def hear_slow_read(slow: SlowCallLog, line: bytes) -> None:
    """A line that a reader process has written. Raises `ValueError`, `KeyError` and `TypeError` for another one."""
    try:
        said = json.loads(line)
        place = PartitionId(TableId(said["table"]), Partition(said["partition"]))
        key, words = bytes.fromhex(said["key"]), int(said["words"])
        began_s, ended_s = float(said["began_s"]), float(said["ended_s"])
    except (RecursionError, OverflowError) as error:
        raise ValueError(f"a slow read cannot be read: {error!r}") from error
    slow.read_elsewhere(str(said["what"]), place, key, words, began_s, ended_s, peer=str(said["peer"]))
