"""The stored format of ordered indexes, frozen in the middle of a build and at its end.

`fixtures/ordered_v3.json` holds batches, in which an index comes and is put into service, and every row that they had
made when some of the build was done, and at the end. `python test_ordered_format.py` in this folder makes one for a new
format version.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import lmdb
from kit.flight_rows import FLIGHTS, flight, flight_key
from kit.index.frozen_rows import frozen_rows
from kit.index.marker import change_marker
from kit.log.stored_log import PARTITION, TABLE, StoredLog, delete, put

from log_tier.model.barrier import Barrier, barrier_batch
from log_tier.model.batch_header import stamp_batch
from log_tier.model.identifiers import Offset, PartitionId
from serving_tier.index.lmdb.environment import Databases, open_environment
from serving_tier.index.lmdb.format import INDEX_FORMAT_VERSION
from serving_tier.index.lmdb.lmdb_index import LmdbIndex

FIXTURE = Path(__file__).parent / "fixtures" / f"ordered_v{INDEX_FORMAT_VERSION}.json"
PLACE = PartitionId(TABLE, PARTITION)
BUILDING = FLIGHTS.with_index("by_tail", ("tailnum",))
SERVED = BUILDING.with_index_served(1)

Rows = dict[str, list[list[str]]]


def open_index(folder: Path) -> LmdbIndex:
    return LmdbIndex.open(folder, partition=PLACE, definition=FLIGHTS)


def rows_of(folder: Path) -> Rows:
    """Every row of every database, in hex."""
    with lmdb.open(str(folder), max_dbs=9, readonly=True, lock=False) as env:
        found: Rows = {}
        for name in Databases._fields[:8]:  # the others are of a history
            database = env.open_db(name.encode(), create=False)
            with env.begin(database) as txn:
                found[name] = [[key.hex(), row.hex()] for key, row in txn.cursor()]
    return found


def halves() -> tuple[bytes, bytes]:
    """What comes up to the build, and what puts the index into service."""
    log = StoredLog()

    def define(number: int, text: str) -> None:
        batch = barrier_batch(Barrier(1, 3, definition=text), producer_id=number, sequence=0)
        stamped = stamp_batch(batch, base_offset=Offset(log.next_offset), timestamp_ms=log.time_ms, unsynced=0)
        log.next_offset += 1
        log.batches.append(stamped)

    log.append(*(put(flight_key("UA", n), flight("UA", n, f"N{n % 3}" if n % 4 else None)) for n in range(6)))
    define(2, BUILDING.text)
    log.append(put(flight_key("UA", 5), flight("UA", 5, "N9")), delete(flight_key("UA", 1)))
    first = len(log.batches)
    log.append(put(flight_key("AA", 5), flight("AA", 5, "N\0ul")))
    define(3, SERVED.text)
    return b"".join(log.batches[:first]), b"".join(log.batches[first:])


def made(first: bytes, second: bytes, folder: Path) -> tuple[Rows, Rows]:
    """The rows with two keys of the build done, and at the end."""
    index = open_index(folder)
    index.apply(first)
    index.build_some(2)
    index.close()
    middle = rows_of(folder)
    return middle, ended(second, folder)


def ended(second: bytes, folder: Path) -> Rows:
    index = open_index(folder)
    index.apply(second)
    index.close()
    return rows_of(folder)


def test_the_same_batches_make_the_same_rows(tmp_path: Path) -> None:
    fixture = frozen_rows(FIXTURE)
    first, second = (bytes.fromhex(fixture[name]) for name in ("first", "second"))
    assert made(first, second, tmp_path / "index") == (fixture["middle"], fixture["end"])


def test_a_build_that_was_under_way_is_ended(tmp_path: Path) -> None:
    """From the rows as they were stored, written by plain calls of LMDB."""
    fixture, folder = frozen_rows(FIXTURE), tmp_path / "index"
    index = open_index(folder)
    index.apply(bytes.fromhex(fixture["first"]))  # so that there is a database of entries
    index.close()
    env, databases = open_environment(folder, map_bytes=1 << 24)
    with env.begin(write=True) as txn:
        for name, rows in fixture["middle"].items():
            txn.drop(getattr(databases, name), delete=False)
            for key, row in rows:
                txn.put(bytes.fromhex(key), bytes.fromhex(row), db=getattr(databases, name))
    env.close()
    change_marker(folder, lambda fields: fields.pop("summary"))
    assert ended(bytes.fromhex(fixture["second"]), folder) == fixture["end"]


if __name__ == "__main__":
    before, behind = halves()
    with tempfile.TemporaryDirectory() as scratch:
        middle, end = made(before, behind, Path(scratch) / "index")
    record = {
        "format": INDEX_FORMAT_VERSION,
        "first": before.hex(),
        "second": behind.hex(),
        "middle": middle,
        "end": end,
    }
    FIXTURE.write_text(json.dumps(record, indent=1) + "\n", encoding="ascii")
