"""The stored format of version 1, frozen: what was written once is written so for ever, and is read so.

`fixtures/index_v1.json` holds two batches and every row that they made. It was recorded once
(`python test_index_format.py` in this folder makes a new one, for a new format version).
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import lmdb
from kit.log.stored_log import PARTITION, TABLE, Said, StoredLog, add, delete, noop, put

from log_tier.model.identifiers import Offset, PartitionId
from log_tier.model.record import Condition, Expiry, Operation
from serving_tier.index.lmdb.environment import Databases, open_environment
from serving_tier.index.lmdb.format import INDEX_FORMAT_VERSION
from serving_tier.index.lmdb.lmdb_index import LmdbIndex
from serving_tier.index.memory_index import MemoryIndex

FIXTURE = Path(__file__).parent / "fixtures" / "index_v1.json"

Rows = dict[str, list[list[str]]]


def rows_of(folder: Path) -> Rows:
    """Every row of every database, in hex."""
    with lmdb.open(str(folder), max_dbs=8, readonly=True, lock=False) as env:
        found = {}
        for name in Databases._fields:
            database = env.open_db(name.encode(), create=False)
            with env.begin(database) as txn:
                found[name] = [[key.hex(), row.hex()] for key, row in txn.cursor()]
    return found


def applied_rows(chunk: bytes, folder: Path) -> Rows:
    index = LmdbIndex.open(folder, partition=PartitionId(TABLE, PARTITION))
    index.apply(chunk)
    index.close()
    return rows_of(folder)


def chunk_with_everything() -> bytes:
    log = StoredLog()
    log.next_offset = 256
    records = [put(b"plain", b"value"), add(b"count", b"41"), put(b"plain", b"x", condition=Condition.ABSENT)]
    log.append(*records, producer_id=0xABCD, sequence=77)
    log.append(*records, producer_id=0xABCD, sequence=77)
    log.append(
        put(b"mortal", b"soon", expiry=Expiry.TTL, expiry_ms=5000),
        delete(b"nothing"),
        Said(Operation.APPEND, b"plain", b"!", condition=Condition.VERSION, version=256),
        put(b"other", b"9", grouped=True),
        later_ms=1,
    )
    log.append(noop(), later_ms=100, producer_id=1, sequence=0)
    return b"".join(log.batches)


def frozen() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(FIXTURE.read_text(encoding="ascii"))
    return found


def test_the_same_batches_make_the_same_rows(tmp_path: Path) -> None:
    fixture = frozen()
    assert fixture["format"] == INDEX_FORMAT_VERSION
    assert applied_rows(bytes.fromhex(fixture["chunk"]), tmp_path / "index") == fixture["rows"]


def test_the_rows_are_read_as_they_were_meant(tmp_path: Path) -> None:
    """The rows are written by plain LMDB calls, and the index opens what they say."""
    fixture = frozen()
    folder = tmp_path / "index"
    LmdbIndex.open(folder, partition=PartitionId(TABLE, PARTITION)).close()
    env, databases = open_environment(folder, map_bytes=1 << 24)
    with env.begin(write=True) as txn:
        for name, rows in fixture["rows"].items():
            for key, row in rows:
                txn.put(bytes.fromhex(key), bytes.fromhex(row), db=getattr(databases, name))
    env.close()
    index = LmdbIndex.open(folder, partition=PartitionId(TABLE, PARTITION))
    model = MemoryIndex()
    model.apply(bytes.fromhex(fixture["chunk"]))
    assert (index.applied, index.log_time_ms) == (model.applied, model.log_time_ms) == (266, 1_000_101)
    assert index.scan(b"", None) == model.scan(b"", None)
    assert index.digest() == model.digest() == fixture["digest"]
    assert index.outcomes(Offset(0), Offset(300)) == model.outcomes(Offset(0), Offset(300)) != {}
    assert index.producer(0xABCD) == model.producer(0xABCD) == (77, 256, 3)
    assert index.next_expiry_ms() == model.next_expiry_ms() == 1_005_001
    index.close()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        chunk, model = chunk_with_everything(), MemoryIndex()
        model.apply(chunk)
        rows = applied_rows(chunk, Path(scratch) / "index")
    record = {"format": INDEX_FORMAT_VERSION, "chunk": chunk.hex(), "digest": model.digest(), "rows": rows}
    FIXTURE.write_text(json.dumps(record, indent=1) + "\n", encoding="ascii")
