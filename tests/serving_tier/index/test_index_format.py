"""The stored format, frozen: what was written once is written so until the next version, and is read so for ever.

`fixtures/index_v3.json` holds a run of batches and every row that they made, `index_v1.json` and `index_v2.json` the
same rows as earlier versions wrote them. They were recorded once (`python test_index_format.py` in this folder makes
one for a new format version).
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import lmdb
import pytest
from kit.index.marker import change_marker
from kit.log.stored_log import PARTITION, TABLE, Said, StoredLog, add, delete, noop, put

from log_tier.model.errors import UnknownFormat
from log_tier.model.identifiers import Offset, PartitionId
from log_tier.model.record import Condition, Expiry, Operation
from serving_tier.fold.index_builds import IndexBuilds
from serving_tier.index.lmdb.environment import Databases, open_environment
from serving_tier.index.lmdb.format import INDEX_FORMAT_VERSION, READABLE_VERSIONS, unpack_definition
from serving_tier.index.lmdb.lmdb_index import LmdbIndex
from serving_tier.index.memory_index import MemoryIndex

FIXTURES = Path(__file__).parent / "fixtures"

Rows = dict[str, list[list[str]]]


def rows_of(folder: Path) -> Rows:
    """Every row of every database, in hex."""
    with lmdb.open(str(folder), max_dbs=8, readonly=True, lock=False) as env:
        found = {}
        for name in Databases._fields[:7]:  # the others are of ordered indexes, and of a history
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


def frozen(version: int = INDEX_FORMAT_VERSION) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((FIXTURES / f"index_v{version}.json").read_text(encoding="ascii"))
    assert found["format"] == version
    return found


def written(fixture: dict[str, Any], folder: Path) -> None:
    """An index folder with a fixture's rows, which are written by plain LMDB calls, as its version left it."""
    LmdbIndex.open(folder, partition=PartitionId(TABLE, PARTITION)).close()
    env, databases = open_environment(folder, map_bytes=1 << 24)
    with env.begin(write=True) as txn:
        for name, rows in fixture["rows"].items():
            for key, row in rows:
                txn.put(bytes.fromhex(key), bytes.fromhex(row), db=getattr(databases, name))
    env.close()

    def as_then(fields: dict[str, Any]) -> None:
        del fields["summary"]
        fields["version"] = fixture["format"]

    change_marker(folder, as_then)


def test_the_same_batches_make_the_same_rows(tmp_path: Path) -> None:
    fixture = frozen()
    assert applied_rows(bytes.fromhex(fixture["chunk"]), tmp_path / "index") == fixture["rows"]


@pytest.mark.parametrize("version", READABLE_VERSIONS)
def test_the_rows_are_read_as_they_were_meant(tmp_path: Path, version: int) -> None:
    fixture = frozen(version)
    folder = tmp_path / "index"
    written(fixture, folder)
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


@pytest.mark.parametrize(
    "row", [b'{"a":' * 100_000, b"[" * 100_000, b'{"building":{},"dropped":[1e999]}'], ids=["object", "list", "number"]
)
def test_a_row_of_meta_that_cannot_be_parsed_is_damage(row: bytes) -> None:
    """Who reads the rows of `meta` names `ValueError`, and what a definition is refused by, as damage."""
    with pytest.raises((ValueError, UnknownFormat)):
        unpack_definition(row)
    with pytest.raises(ValueError, match=r"cannot be read"):
        IndexBuilds.unpack(row)


def test_an_index_of_version_1_knows_its_last_batch_from_its_next_fold_on(tmp_path: Path) -> None:
    folder = tmp_path / "index"
    written(frozen(1), folder)
    index = LmdbIndex.open(folder, partition=PartitionId(TABLE, PARTITION))
    assert index.last_batch is None
    log = StoredLog()
    log.next_offset = 267
    index.apply(log.append(put(b"k", b"v"), put(b"l", b"w"), producer_id=9, sequence=4))
    last = index.last_batch
    assert last is not None
    assert last[:5] == (267, 2, log.time_ms, 9, 4)
    index.close()
    rows = rows_of(folder)
    assert rows["meta"][0][1].startswith("03000000"), "an earlier version leaves it alone"
    assert json.loads((folder / "index.json").read_bytes())["version"] == 3
    index = LmdbIndex.open(folder, partition=PartitionId(TABLE, PARTITION))
    assert index.last_batch == last
    index.close()


@pytest.mark.parametrize("version", [1, 2])
def test_an_index_of_an_earlier_version_counts_from_its_next_fold_on(tmp_path: Path, version: int) -> None:
    folder = tmp_path / "index"
    written(frozen(version), folder)
    index = LmdbIndex.open(folder, partition=PartitionId(TABLE, PARTITION))
    assert index.tally() == (267, 266, ())
    log = StoredLog()
    log.next_offset = 267
    batch = log.append(put(b"k", b"v"), put(b"l", b"w"), producer_id=9, sequence=4)
    index.apply(batch)
    counted = index.tally()
    assert (counted.since, counted.applied) == (267, 268)
    (period,) = counted.periods
    assert (period.minute, *period.numbers[:3]) == (log.time_ms // 60_000, 267, 268, 2)
    index.close()
    index = LmdbIndex.open(folder, partition=PartitionId(TABLE, PARTITION))
    assert index.tally() == counted
    index.close()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        chunk, model = chunk_with_everything(), MemoryIndex()
        model.apply(chunk)
        rows = applied_rows(chunk, Path(scratch) / "index")
    record = {"format": INDEX_FORMAT_VERSION, "chunk": chunk.hex(), "digest": model.digest(), "rows": rows}
    (FIXTURES / f"index_v{INDEX_FORMAT_VERSION}.json").write_text(json.dumps(record, indent=1) + "\n", encoding="ascii")
