"""More of what lies on disks and in shared files: rows of a history and of builds, indexes as Spark reads them."""

from __future__ import annotations

import json
import struct
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

from kit.storage.versioned_rows import DEFINITION

from duramen.server.settings.loading import load_settings
from duramen.server.settings.models import NodeSettings
from fuzz.index_targets import index_files
from fuzz.target import Target
from log_tier.model.errors import DuramenError
from log_tier.model.identifiers import Offset
from log_tier.slow_calls.slow_call_log import SlowCallLog
from router.endpoints.resp.readers.slow_reads import hear_slow_read
from serving_tier.fold.entry import NEVER, columns_of_entries, entry_of, stored_entry
from serving_tier.fold.index_builds import IndexBuilds
from serving_tier.fold.past import PastEntry, pack_past, unpack_past
from serving_tier.index.lmdb.format import unpack_definition
from serving_tier.index.past.past_rows import pack_history_start, unpack_history_start, unpack_time
from spark_bulk.source.model.key_ranges import ALL_KEYS, KeyRange
from spark_bulk.source.table.closed_index_file import ClosedIndexFile

__all__ = ["store_targets"]

_MEMORY: Final = Path("/dev/shm")
_ROW_REFUSALS: Final = (DuramenError, struct.error, ValueError)
"""Who reads a row names these as damage."""
_SETTINGS: Final = b"""# a node
data = "/data/n1"
port = 7070
http_port = 0
log = "log:7071"
"""
_SLOW: Final = {
    "what": "GET",
    "table": "AAECAwQFBgcICQoLDA0ODw",
    "partition": 0,
    "key": "6b",
    "words": 2,
    "began_s": 1.5,
    "ended_s": 9.5,
    "peer": "127.0.0.1:7",
}


@cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    """One for all inputs of this process; it goes with the process."""
    return tempfile.TemporaryDirectory(prefix="duramen-fuzz-", dir=_MEMORY if _MEMORY.is_dir() else None)


def _written(name: str, data: bytes) -> Path:
    path = Path(_folder().name) / name
    path.write_bytes(data)
    return path


def _entry(data: bytes) -> None:
    if len(data) >= len(stored_entry(b"", Offset(0), NEVER)):
        entry_of(data)
        columns_of_entries([data, None, data], 5)


def _past(data: bytes) -> None:
    """A row that is read and written again is the same, but for a key that it cuts."""
    entry = unpack_past(7, data)
    again = unpack_past(7, pack_past(entry))
    assert again == entry


def _builds(data: bytes) -> None:
    found = IndexBuilds.unpack(data)
    assert IndexBuilds.unpack(found.pack()) == found


def _spark_index(data: bytes) -> None:
    """Rows of a file that nobody has checked, or `IndexDamaged`."""
    with ClosedIndexFile.open(_written("data.mdb", data)) as file:
        for keys in (ALL_KEYS, KeyRange(b"key 00009", b"key 00100")):
            for rows in file.rows(keys, log_time_ms=5):
                assert rows.count > 0


def _settings(data: bytes) -> None:
    load_settings(NodeSettings, _written("node.toml", data), {})


@cache
def _slow_calls() -> SlowCallLog:
    return SlowCallLog()


def _slow(data: bytes) -> None:
    hear_slow_read(_slow_calls(), data)


def store_targets() -> Iterator[Target]:
    """Rows of `meta`, `history` and `times`, an index without LMDB, settings, lines of readers."""
    builds = IndexBuilds({3: b"key", 65534: b""}, (1, 2)).pack()
    past = [pack_past(PastEntry(Offset(7), b"key", Offset(3), stored)) for stored in (None, b"12345678value")]
    numbers = [pack_history_start(Offset(7))]
    entries = [stored_entry(b"value", Offset(7), expiry) for expiry in (2000, NEVER)]
    yield Target("row of an index: stored entry", lambda: entries, _entry, _ROW_REFUSALS)
    yield Target("row of an index: past", lambda: past, _past, _ROW_REFUSALS)
    yield Target("row of an index: builds", lambda: [builds], _builds, _ROW_REFUSALS)
    yield Target("row of an index: definition", lambda: [DEFINITION], unpack_definition, _ROW_REFUSALS)
    yield Target("row of an index: begin of its history", lambda: numbers, unpack_history_start, _ROW_REFUSALS)
    yield Target("row of an index: time", lambda: numbers, unpack_time, _ROW_REFUSALS)
    yield Target("file of an index that Spark reads", index_files, _spark_index, quick_inputs=100)
    yield Target("settings of a node", lambda: [_SETTINGS], _settings, quick_inputs=200)
    slow = json.dumps(_SLOW).encode()
    yield Target("slow read of a reader", lambda: [slow], _slow, (ValueError, KeyError, TypeError))
