"""An index that this process writes, read by another one."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import lmdb
import pytest
from kit.log.stored_log import PARTITION, TABLE, StoredLog, put

from log_tier.model.errors import IndexDamaged
from log_tier.model.identifiers import Offset, Partition, PartitionId
from serving_tier.index.lmdb.lmdb_index import LmdbIndex
from serving_tier.index.lmdb.shared_reader import IndexReader

# Each line on the standard input is evaluated; `r` is the reader.
PROGRAM = """
import sys, json
from pathlib import Path
from serving_tier.index.lmdb.shared_reader import IndexReader
from log_tier.model.identifiers import PartitionId
r = IndexReader.open(Path(sys.argv[1]), partition=PartitionId(sys.argv[2], int(sys.argv[3])))
for line in sys.stdin:
    print(json.dumps(eval(line)), flush=True)
"""


class Elsewhere:
    """A reader in another process."""

    def __init__(self, path: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, str(path), TABLE, str(PARTITION)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def ask(self, expression: str) -> Any:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(expression.encode() + b"\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def close(self) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def index(tmp_path: Path) -> Iterator[LmdbIndex]:
    opened = LmdbIndex.open(tmp_path / "index", partition=PartitionId(TABLE, PARTITION))
    yield opened
    opened.close()


@pytest.fixture
def elsewhere(index: LmdbIndex) -> Iterator[Elsewhere]:
    reader = Elsewhere(index.path)
    yield reader
    reader.close()


def test_it_sees_each_commit_with_its_offset(index: LmdbIndex, elsewhere: Elsewhere) -> None:
    assert elsewhere.ask("[r.applied, r.stored(b'k') is None, r.log_time_ms]") == [-1, True, 0]
    log = StoredLog()
    for offset in range(3):
        index.apply(log.append(put(b"k", b"v%d" % offset)))
        assert elsewhere.ask("[r.applied, r.get_value(b'k').decode()]") == [offset, f"v{offset}"]
        assert elsewhere.ask("[r.stored_at(b'k')[0], r.stored_at(b'k')[1][8:].decode()]") == [offset, f"v{offset}"]
    assert elsewhere.ask("[r.stored_at(b'absent')[0], r.stored_at(b'absent')[1]]") == [2, None]
    assert elsewhere.ask("[e and e[8:].decode() for e in r.stored_many([b'k', b'x'], bytes_max=99)]") == ["v2", None]
    assert elsewhere.ask("r.log_time_ms") == index.log_time_ms


def test_many_keys_are_read_at_one_offset(index: LmdbIndex, elsewhere: Elsewhere) -> None:
    log = StoredLog()
    for number in range(20):
        index.apply(log.append(put(b"a", b"%d" % number), put(b"b", b"%d" % number)))
        first, second = elsewhere.ask("[value.decode() for value in r.get_many([b'a', b'b']).values]")
        assert first == second == str(number)


def test_a_reader_that_is_killed_in_a_read_holds_nothing(index: LmdbIndex, elsewhere: Elsewhere) -> None:
    index.apply(StoredLog().append(put(b"k", b"v")))
    elsewhere.ask("[globals().update(pinned=r.pinned()), 1]")
    elsewhere.process.send_signal(signal.SIGKILL)
    elsewhere.process.wait()
    assert "pid" in index._env.readers()
    held = len(index._env.readers().splitlines())
    index.forget_dead_readers()
    assert len(index._env.readers().splitlines()) < held


def test_it_takes_no_part_in_the_folder(index: LmdbIndex, elsewhere: Elsewhere) -> None:
    before = sorted(path.name for path in index.path.iterdir())
    marker = (index.path / "index.json").read_bytes()
    assert elsewhere.ask("[r.close(), r.close(), 1]") == [None, None, 1]
    assert sorted(path.name for path in index.path.iterdir()) == before
    assert (index.path / "index.json").read_bytes() == marker
    index.apply(StoredLog().append(put(b"k", b"v")))
    assert index.get_value(b"k") == b"v"


def test_what_is_no_index_is_refused(tmp_path: Path) -> None:
    with pytest.raises(IndexDamaged, match="holds no index"):
        IndexReader.open(tmp_path, partition=PartitionId(TABLE, PARTITION))
    (tmp_path / "data.mdb").write_bytes(b"something else" * 1000)
    with pytest.raises(IndexDamaged):
        IndexReader.open(tmp_path, partition=PartitionId(TABLE, PARTITION))


def test_a_file_that_was_cut_is_refused(tmp_path: Path) -> None:
    """Its server has it at rest and may not have looked at it; a read behind its end kills the process."""
    folder = tmp_path / "index"
    index = LmdbIndex.open(folder, partition=PartitionId(TABLE, PARTITION))
    log = StoredLog()
    for number in range(50):
        index.apply(log.append(put(b"k%d" % number, bytes(1000))))
    index.close()
    os.truncate(folder / "data.mdb", 16384)
    with pytest.raises(IndexDamaged, match="its pages end"):
        IndexReader.open(folder, partition=PartitionId(TABLE, PARTITION))


def test_another_partitions_index_is_refused(tmp_path: Path) -> None:
    LmdbIndex.open(tmp_path / "index", partition=PartitionId(TABLE, Partition(4))).close()
    with pytest.raises(IndexDamaged, match="is the index of"):
        IndexReader.open(tmp_path / "index", partition=PartitionId(TABLE, PARTITION))
    reader = IndexReader.open(tmp_path / "index", partition=PartitionId(TABLE, Partition(4)))
    assert reader.applied == Offset(-1)
    reader.close()


def test_a_row_that_is_too_short_is_damage(tmp_path: Path) -> None:
    """LMDB's files have no checksums: a row may have lost its end, and the structure around it is whole."""
    index = LmdbIndex.open(tmp_path / "index", partition=PartitionId(TABLE, PARTITION))
    index.apply(StoredLog().append(put(b"a", b"1")))
    index.close()
    with lmdb.open(str(tmp_path / "index"), max_dbs=20) as env, env.begin(write=True) as txn:
        txn.put(b"short", b"1234567", db=env.open_db(b"data", txn=txn))
    reader = IndexReader.open(tmp_path / "index", partition=PartitionId(TABLE, PARTITION))
    reads: list[Callable[[], object]] = [
        lambda: reader.get(b"short"),
        lambda: reader.get_value(b"short"),
        lambda: reader.get_many([b"a", b"short"]),
        lambda: reader.scan(b"", None),
        reader.digest,
    ]
    try:
        assert reader.get_value(b"a") == b"1"
        for read in reads:
            with pytest.raises(IndexDamaged, match="a row that cannot be read"):
                read()
    finally:
        reader.close()
