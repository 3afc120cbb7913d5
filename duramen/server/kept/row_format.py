"""A row of `_duramen_history` as bytes, and back. `docs/FORMATS.md` has the layout; no other file builds or parses it.

key    node/n1/1764104400123      series / ms since 1970: the keys of a series sort by time
value  zlib of {"v":1,"step_s":60,"server":{…},"tables":[{"table":…,"partitions":[…],"last":[…],"lag":[…],"state":[…]}]}
"""

from __future__ import annotations

import json
import zlib
from array import array
from collections.abc import Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any, Final, NamedTuple

from duramen.server.console.history_ring import STATES, HistoryRow, PartitionNames, ServerSample
from log_tier.model.errors import UnknownFormat

__all__ = [
    "ROW_PARTITIONS_MAX",
    "ROW_VERSION",
    "KeptRow",
    "first_key_at",
    "key_behind",
    "parse_row",
    "row_key",
    "row_value",
]

ROW_VERSION: Final = 1

ROW_PARTITIONS_MAX: Final = 20_000
"""A row of so many has some 150 kB, and is written every five hours."""

_ROW_BYTES_MAX: Final = 16 << 20
"""What no row of ours inflates to."""

_TIME_DIGITS: Final = 13  # until the year 2286
_UNKNOWN: Final = len(STATES) - 1
_PLACES: Final = {state: place for place, state in enumerate(STATES)}


class KeptRow(NamedTuple):
    """What a row says. Its `HistoryRow` has no time of the process that reads it yet."""

    time_ms: int
    names: PartitionNames
    last: array[int]
    applied: array[int]
    states: bytes
    server: ServerSample

    def at(self, at_s: float) -> HistoryRow:
        """The row at this time."""
        return HistoryRow(at_s, self.names, self.last, self.applied, self.states, self.server)


def first_key_at(series: str, time_ms: int) -> bytes:
    """What no key of an earlier time reaches: rows of the series from `time_ms` on begin here."""
    return f"{series}/{max(0, time_ms):0{_TIME_DIGITS}}".encode()


def key_behind(series: str) -> bytes:
    """The first key behind all of a series."""
    return f"{series}0".encode()  # '0' follows '/'


def row_key(series: str, time_ms: int) -> bytes:
    """The row's key."""
    return first_key_at(series, time_ms)


def row_value(row: HistoryRow, step_s: int) -> bytes:
    """The row's value: one JSON object, compressed. Some 6 bytes and 1 µs for each partition."""
    tables: list[dict[str, Any]] = []
    places = range(min(len(row.names), ROW_PARTITIONS_MAX))
    for table, group in groupby(places, key=lambda place: row.names[place][0]):
        mine = list(group)
        tables.append(
            {
                "table": table,
                "partitions": [row.names[place][1] for place in mine],
                "last": [row.last[place] for place in mine],
                "lag": [row.last[place] - row.applied[place] for place in mine],
                "state": [STATES[row.states[place]] for place in mine],
            }
        )
    server = row.server
    document = {
        "v": ROW_VERSION,
        "step_s": step_s,
        "server": {
            "sync_p99_s": server.sync_p99_s,
            "queue_age_s": server.queue_age_s,
            "disk_free_bytes": server.disk_free_bytes,
            "ready": server.ready,
        },
        "tables": tables,
    }
    return zlib.compress(json.dumps(document, separators=(",", ":")).encode(), 6)


def parse_row(key: bytes, value: bytes) -> KeptRow:
    """What a row says. Raises `UnknownFormat` for what is none of version 1."""
    try:
        inflating = zlib.decompressobj()
        text = inflating.decompress(value, _ROW_BYTES_MAX)
        document = json.loads(text)
        version = document["v"]
        if version == ROW_VERSION:
            return _row(int(key.rpartition(b"/")[2]), document["server"], document["tables"])
    except (ValueError, LookupError, TypeError, OverflowError, RecursionError, zlib.error) as error:
        raise UnknownFormat(f"{key!r} is no row of a history: {error!r}") from error
    raise UnknownFormat(f"the row {key!r} has version {version!r}, this Duramen knows version {ROW_VERSION}")


def _row(time_ms: int, server: Any, tables: Sequence[Any]) -> KeptRow:
    names: list[tuple[str, int]] = []
    last, applied, states = array("q"), array("q"), bytearray()
    for each in tables:
        columns = zip(each["partitions"], each["last"], each["lag"], each["state"], strict=True)
        for partition, newest, lag, state in columns:
            names.append((str(each["table"]), int(partition)))
            last.append(newest)
            applied.append(newest - lag)
            states.append(_PLACES.get(state, _UNKNOWN))
    sync_s, queue_s, free, ready = itemgetter("sync_p99_s", "queue_age_s", "disk_free_bytes", "ready")(server)
    sample = ServerSample(
        None if sync_s is None else float(sync_s),
        None if queue_s is None else float(queue_s),
        None if free is None else int(free),
        None if ready is None else bool(ready),
    )
    return KeptRow(time_ms, tuple(names), last, applied, bytes(states), sample)
