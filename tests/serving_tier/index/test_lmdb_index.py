from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import lmdb
import pytest
from kit.deadlines import patience_s
from kit.index.index_contract import IndexContract, Opened
from kit.log.stored_log import PARTITION, TABLE, StoredLog, add, put

from log_tier.model.errors import DiskFull, FolderInUse, LimitExceeded, ShuttingDown
from log_tier.model.identifiers import NOTHING, Offset, PartitionId
from serving_tier.fold.entry import value_of
from serving_tier.fold.verdicts import Verdict
from serving_tier.index.index import Index, IndexLimits
from serving_tier.index.lmdb.lmdb_index import LmdbIndex


def open_at(path: Path, **how: object) -> LmdbIndex:
    return LmdbIndex.open(path, partition=PartitionId(TABLE, PARTITION), **how)  # type: ignore[arg-type]


class TestLmdbIndex(IndexContract):
    @pytest.fixture
    def opened(self, tmp_path: Path) -> Iterator[Opened]:
        held: list[LmdbIndex] = []

        def open_index(limits: IndexLimits | None = None) -> Index:
            for index in held:
                index.close(clean=False)
            held.append(open_at(tmp_path / "index", limits=limits or IndexLimits()))
            return held[-1]

        yield open_index
        for index in held:
            index.close()

    @pytest.mark.parametrize("clean", [True, False])
    def test_what_was_applied_is_there_after_reopening(self, opened: Opened, clean: bool) -> None:
        log, index = StoredLog(), opened()
        index.apply(log.append(add(b"n", b"1"), put(b"a", b"x"), producer_id=4, sequence=6))
        before = (
            index.digest(),
            index.applied,
            index.log_time_ms,
            index.producer(4),
            index.outcomes(Offset(0), Offset(9)),
        )
        index.close(clean=clean)
        again = opened()
        assert before == (
            again.digest(),
            again.applied,
            again.log_time_ms,
            again.producer(4),
            again.outcomes(Offset(0), Offset(9)),
        )
        again.apply(b"".join(log.batches) + log.append(add(b"n", b"1")))
        assert again.get_value(b"n") == b"2"

    def test_the_newest_folds_outcomes_need_no_read(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Every writer that waits for a verdict asks for it right after the fold. Other folds' are read."""
        log, index = StoredLog(), open_at(tmp_path / "index")
        index.apply(log.append(add(b"n", b"1")))
        index.apply(log.append(add(b"n", b"1"), add(b"n", b"x"), producer_id=7))
        reads: list[object] = []
        inner = index._begin

        def begin(*how: object, **more: object) -> object:
            reads.append(how)
            return inner(*how, **more)

        monkeypatch.setattr(index, "_begin", begin)
        newest = index.outcomes(Offset(1), Offset(2))
        assert {at: (each.verdict, each.result) for at, each in newest.items()} == {
            1: (Verdict.ACCEPTED, b"2"),
            2: (Verdict.NOT_A_NUMBER, None),
        }
        assert reads == []
        assert {1: newest[Offset(1)], 2: newest[Offset(2)]}.items() < index.outcomes(Offset(0), Offset(2)).items()
        index.apply(log.append(add(b"n", b"1"), add(b"n", b"x"), producer_id=7))
        again = index.outcomes(Offset(3), Offset(4))
        assert again == {at + 2: each._replace(duplicate_of=at) for at, each in newest.items()}
        assert len(reads) == 2
        index.close()

    def test_what_an_apply_trims_it_has_forgotten(self, tmp_path: Path) -> None:
        log, index = StoredLog(), open_at(tmp_path / "index", limits=IndexLimits(results=2, verdicts=1))
        index.apply(log.append(*(add(b"n", b"1") for _ in range(4))))
        assert list(index.outcomes(Offset(0), Offset(3))) == [2, 3]
        index.apply(log.append(add(b"n", b"x"), add(b"n", b"x")))
        assert (list(index.outcomes(Offset(4), Offset(5))), index.verdicts_from) == ([5], 5)
        index.close()

    def test_stored_forms(self, tmp_path: Path) -> None:
        """For an endpoint that writes bytes on: as they lie there, expired ones too, and no more than it can hold."""
        log, index = StoredLog(), open_at(tmp_path / "index")
        index.apply(log.append(*(put(b"k%d" % number, b"v" * 100) for number in range(300))))
        keys = [b"k%d" % number for number in range(300)]
        stored = index.stored_many([*keys, b"absent"], bytes_max=301 * 108)
        assert stored is not None
        assert [None if each is None else value_of(each) for each in stored] == [b"v" * 100] * 300 + [None]
        assert index.stored(b"k7") == stored[7]
        assert index.stored(b"absent") is None
        with pytest.raises(LimitExceeded, match="ask for fewer"):
            index.stored_many(keys, bytes_max=299 * 108)
        index.close()
        with pytest.raises(ShuttingDown):
            index.stored(b"k7")
        with pytest.raises(ShuttingDown):
            index.stored_many(keys, bytes_max=1)

    def test_a_closed_index_says_so(self, tmp_path: Path) -> None:
        index = open_at(tmp_path / "index")
        index.close()
        for read in (
            lambda: index.get(b"a"),
            lambda: index.scan(b"", None),
            lambda: index.apply(b""),
            index.statistics,
        ):
            with pytest.raises(ShuttingDown, match="closed"):
                read()

    def test_a_folder_that_is_open_is_not_opened_again(self, tmp_path: Path) -> None:
        index = open_at(tmp_path / "index")
        with pytest.raises(FolderInUse, match="close that index first"):
            open_at(tmp_path / "index")
        assert index.applied == NOTHING
        index.close()

    def test_an_index_that_could_not_be_synced_is_not_called_clean(self, tmp_path: Path) -> None:
        index = open_at(tmp_path / "index")
        env = index._env

        class FailingDisk:
            begin, info, stat = env.begin, env.info, env.stat

            def sync(self, force: bool) -> None:
                assert force
                raise lmdb.Error(f"mdb_env_sync: {os.strerror(errno.EIO)}")

            def close(self) -> None:
                env.close()

        index._env = FailingDisk()
        with pytest.raises(DiskFull, match="cannot be written"):
            index.close()
        assert json.loads((tmp_path / "index" / "index.json").read_bytes())["clean"] is False

    def test_a_full_map_applies_nothing_and_names_the_setting(self, tmp_path: Path) -> None:
        index = open_at(tmp_path / "index", map_bytes=1 << 20)
        log = StoredLog()
        index.apply(log.append(put(b"a", b"1")))
        too_much = log.append(*[put(b"%d" % n, bytes(1000)) for n in range(2000)])
        before = index.digest()
        for _ in range(2):
            with pytest.raises(DiskFull, match="limit of 1048576 bytes: raise `map_bytes`"):
                index.apply(too_much)
            assert (index.applied, index.digest()) == (0, before)
        index.close()
        roomy = open_at(tmp_path / "index", map_bytes=1 << 24)
        assert roomy.apply(too_much).records == 2000
        roomy.close()

    def test_a_full_disk_applies_nothing_and_the_same_chunk_can_come_again(self, tmp_path: Path) -> None:
        """The process may write 1 MiB files at most, as if the disk ended there, until the limit is lifted."""
        script = """
import resource, signal, sys
from pathlib import Path
from kit.log.stored_log import StoredLog, put
from test_lmdb_index import open_at
from log_tier.model.errors import DiskFull

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
index, log = open_at(Path(sys.argv[1])), StoredLog()
index.apply(log.append(put(b"a", b"1")))
before = index.digest()
chunk = log.append(*[put(b"%d" % n, bytes(1000)) for n in range(2000)])
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, resource.RLIM_INFINITY))
for _ in range(2):
    try:
        index.apply(chunk)
    except DiskFull as error:
        assert sys.argv[1] in str(error) and "make room" in str(error), error
    else:
        raise AssertionError("it fitted")
    assert (index.applied, index.digest(), index.get_value(b"a")) == (0, before, b"1")
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
assert index.apply(chunk).applied == 2000
index.close()
assert open_at(Path(sys.argv[1])).count() == 2001
"""
        ran = subprocess.run(
            [sys.executable, "-c", script, str(tmp_path / "index")],
            cwd=Path(__file__).parent,
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
            capture_output=True,
            text=True,
            timeout=patience_s(60),
            check=False,
        )
        assert ran.returncode == 0, ran.stderr

    def test_a_killed_process_leaves_a_whole_prefix(self, tmp_path: Path) -> None:
        """Killed at any time, the index holds the fold of some first chunks: data and applied offset agree."""
        script = """
import sys
from pathlib import Path
from kit.log.stored_log import StoredLog, add, put
from test_lmdb_index import open_at

index, log = open_at(Path(sys.argv[1])), StoredLog()
for n in range(100_000):
    index.apply(log.append(add(b"n", b"1"), put(b"%d" % n, bytes(300))))
    if n % 50 == 0:
        sys.stdout.write(f"{n}\\n")
        sys.stdout.flush()
"""
        process = subprocess.Popen(
            [sys.executable, "-c", script, str(tmp_path / "index")],
            cwd=Path(__file__).parent,
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
            stdout=subprocess.PIPE,
        )
        with process:
            assert process.stdout is not None
            heard = 0
            while heard < 200:
                line = process.stdout.readline()
                assert line, "the process ended by itself"
                heard = int(line)
            process.kill()
        index = open_at(tmp_path / "index")
        assert index.applied >= 2 * heard + 1
        assert index.get_value(b"n") == b"%d" % ((index.applied + 1) // 2)
        assert index.count() == (index.applied + 1) // 2 + 1
        index.close()
