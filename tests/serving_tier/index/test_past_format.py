"""The stored format of a history, frozen.

`fixtures/past_v3.json` holds batches, and every row of the databases of a history that they make. `python
test_past_format.py` in this folder makes one for a new format version.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import lmdb
from kit.index.frozen_rows import frozen_rows
from kit.index.marker import change_marker
from kit.log.stored_log import PARTITION, TABLE, StoredLog, delete, put

from log_tier.model.identifiers import Offset, PartitionId
from log_tier.model.kept_history import KeptHistory
from log_tier.model.record import Expiry
from log_tier.rows.definition import TableDefinition
from serving_tier.index.index import PastPoint
from serving_tier.index.lmdb.environment import Databases, open_environment
from serving_tier.index.lmdb.format import INDEX_FORMAT_VERSION
from serving_tier.index.lmdb.lmdb_index import LmdbIndex

FIXTURE = Path(__file__).parent / "fixtures" / f"past_v{INDEX_FORMAT_VERSION}.json"
PLACE = PartitionId(TABLE, PARTITION)
KEPT = TableDefinition(keeps=KeptHistory(age_ms=3_600_000))

Rows = dict[str, list[list[str]]]


def open_index(folder: Path) -> LmdbIndex:
    return LmdbIndex.open(folder, partition=PLACE, definition=KEPT)


def made(chunk: bytes, folder: Path) -> Rows:
    """Every row of the databases of a history, in hex."""
    index = open_index(folder)
    index.apply(chunk)
    index.close()
    with lmdb.open(str(folder), max_dbs=len(Databases._fields), readonly=True, lock=False) as env:
        found: Rows = {}
        for name in Databases._fields[8:]:
            database = env.open_db(name.encode(), create=False)
            with env.begin(database) as txn:
                found[name] = [[key.hex(), row.hex()] for key, row in txn.cursor()]
    return found


def all_kinds() -> bytes:
    log = StoredLog()
    log.append(put(b"a", b"1"), put(b"b", b"2", expiry=Expiry.TTL, expiry_ms=5), put(b"a", b"3"))
    log.append(delete(b"a"), later_ms=10)
    log.append(put(b"c", b"4", expiry=Expiry.TTL, expiry_ms=5), put(b"a", b"5"))
    log.append(put(b"d", b"6"), later_ms=20)
    return b"".join(log.batches)


def test_the_same_batches_make_the_same_rows(tmp_path: Path) -> None:
    fixture = frozen_rows(FIXTURE)
    assert made(bytes.fromhex(fixture["chunk"]), tmp_path / "index") == fixture["rows"]
    assert all(fixture["rows"].values()), "there is a row of each kind"


def test_the_rows_are_read_as_they_were_meant(tmp_path: Path) -> None:
    """From the rows as they were stored, written by plain calls of LMDB."""
    fixture, folder = frozen_rows(FIXTURE), tmp_path / "index"
    index = open_index(folder)
    index.apply(bytes.fromhex(fixture["chunk"]))
    index.close()
    env, databases = open_environment(folder, map_bytes=1 << 24)
    with env.begin(write=True) as txn:
        for name, rows in fixture["rows"].items():
            txn.drop(getattr(databases, name), delete=False)
            for key, row in rows:
                txn.put(bytes.fromhex(key), bytes.fromhex(row), db=getattr(databases, name))
    env.close()
    change_marker(folder, lambda fields: fields.pop("summary"))
    index = open_index(folder)
    values = [index.get_past([b"a", b"b", b"c"], PastPoint(Offset(at))).values for at in range(-1, 7)]
    index.close()
    assert values == [
        [None, None, None],
        [b"1", None, None],
        [b"1", b"2", None],
        [b"3", b"2", None],
        [None, None, None],
        [None, None, b"4"],
        [b"5", None, b"4"],
        [b"5", None, None],
    ]


if __name__ == "__main__":
    chunk = all_kinds()
    with tempfile.TemporaryDirectory() as scratch:
        record = {"format": INDEX_FORMAT_VERSION, "chunk": chunk.hex(), "rows": made(chunk, Path(scratch) / "index")}
    FIXTURE.write_text(json.dumps(record, indent=1) + "\n", encoding="ascii")
