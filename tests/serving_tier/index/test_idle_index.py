"""An index whose file is closed while nobody uses it: the same answers, few descriptors, and nothing is lost."""

from __future__ import annotations

import errno
import json
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import lmdb
import pytest
from kit.index.marker import change_marker
from kit.log.stored_log import PARTITION, TABLE, StoredLog, put

from log_tier.model.errors import IndexDamaged, InvalidKey, LimitExceeded, Overloaded, ShuttingDown
from log_tier.model.identifiers import NOTHING, Offset, PartitionId
from serving_tier.index.lmdb import environment as lmdb_environment
from serving_tier.index.lmdb import index_file
from serving_tier.index.lmdb.folder import read_boot_id
from serving_tier.index.lmdb.lmdb_index import LmdbIndex
from serving_tier.index.lmdb.open_environments import OpenEnvironments
from serving_tier.index.pins import PIN


def resting(folder: Path, environments: OpenEnvironments, *, boot: str = "") -> LmdbIndex:
    index = LmdbIndex.at_rest(
        folder,
        partition=PartitionId(TABLE, PARTITION),
        environments=environments,
        boot_id=(lambda: boot) if boot else read_boot_id,
    )
    assert index is not None, "the folder does not say what it holds"
    return index


def opened(folder: Path, environments: OpenEnvironments) -> LmdbIndex:
    return LmdbIndex.open(folder, partition=PartitionId(TABLE, PARTITION), environments=environments)


def is_open(index: LmdbIndex) -> bool:
    return index._env is not None


def test_a_new_index_has_no_file_until_it_is_used(tmp_path: Path) -> None:
    environments = OpenEnvironments(2)
    index = resting(tmp_path / "index", environments)
    assert (index.applied, index.count(), index.next_expiry_ms()) == (NOTHING, 0, None)
    assert index.producer(7) is None
    index.close()
    assert not (tmp_path / "index").exists()
    index, log = resting(tmp_path / "index", environments), StoredLog()
    assert index.get_value(b"a") is None
    index.apply(log.append(put(b"a", b"1")))
    assert index.get_value(b"a") == b"1"
    index.close()
    assert len(environments) == 0


def test_what_was_put_to_rest_answers_as_before(tmp_path: Path) -> None:
    environments = OpenEnvironments(2)
    index, log = opened(tmp_path / "index", environments), StoredLog()
    for number in range(50):
        index.apply(log.append(put(b"k%d" % number, b"%d" % number)))
    before = index.applied, index.count(), index.next_expiry_ms(), index.statistics(), index.digest()
    assert index.rest()
    assert not is_open(index)
    assert (index.applied, index.count(), index.next_expiry_ms(), index.statistics()) == before[:4]
    assert not is_open(index), "that much is known without the file"
    assert index.get_value(b"k7") == b"7"
    assert is_open(index)
    assert index.digest() == before[4]
    assert index.rest()
    index.apply(log.append(put(b"k7", b"again")))
    assert index.get_value(b"k7") == b"again"
    index.close()


def test_the_file_stays_open_under_readers_and_writers(tmp_path: Path) -> None:
    index, log = opened(tmp_path / "index", OpenEnvironments(1)), StoredLog()
    index.apply(log.append(put(b"a", b"1")))
    pinned = index.pinned()
    assert not index.rest()
    assert pinned.applied == 0
    pinned.close()
    assert index.rest()
    assert index.get_value(b"a") == b"1"
    with index.pins.held():
        begin = index._begin
        assert not index.rest(), "somebody has fetched `begin` and is about to call it"
        with begin() as txn:
            assert txn.id() > 0
    assert index.rest()
    assert index.get_value(b"a") == b"1"
    check_pins(index)
    index.close()


def check_pins(index: LmdbIndex) -> None:
    """Nothing uses the index now, so no pin may be left: one would keep its file open for ever."""
    assert (len(index.pins), len(index.readers)) == (0, 0)


def test_whatever_a_read_comes_to_it_gives_its_pin_back(tmp_path: Path) -> None:
    index, log = opened(tmp_path / "index", OpenEnvironments(1)), StoredLog()
    index.apply(log.append(put(b"a", b"1"), put(b"b", b"2")))
    index.get(b"a")
    index.get(b"none")
    index.get_value(b"a")
    index.get_value(b"none")
    index.stored(b"a")
    index.stored_many([b"a", b"b"], bytes_max=100)
    index.stored_many([b"a"], bytes_max=100, transaction=-1)
    index.get_many([b"a"])
    index.scan(b"", None)
    index.outcomes(Offset(0), Offset(1))
    index.judgements(Offset(0), Offset(1))
    index.judge([])
    index.digest()
    index.statistics()
    index.identity()
    index.transaction()
    with index.pinned() as pinned:
        assert len(index.readers) == 1
        assert dict(pinned.pairs()).keys() == {b"a", b"b"}
    check_pins(index)
    with pytest.raises(LimitExceeded):
        index.stored_many([b"a", b"b"], bytes_max=9)
    for read in (index.get, index.get_value, index.stored):
        with pytest.raises(InvalidKey):
            read(b"")
    with pytest.raises(InvalidKey):
        index.get_many([b""])
    check_pins(index)
    index.close()
    for refused in (index.pinned, index.transaction, lambda: index.get(b"a"), lambda: index.get_value(b"a")):
        with pytest.raises(ShuttingDown):
            refused()
    with pytest.raises(ShuttingDown):
        index.apply(log.append(put(b"a", b"1")))
    check_pins(index)


def test_closing_waits_for_reads_that_have_begun(tmp_path: Path) -> None:
    index, log = opened(tmp_path / "index", OpenEnvironments(1)), StoredLog()
    index.apply(log.append(put(b"a", b"1")))
    index.pins.acquire(PIN)
    closing = threading.Thread(target=index.close)
    closing.start()
    try:
        closing.join(0.02)
        assert is_open(index), "the file goes away under no read"
    finally:
        index.pins.release()
        closing.join()
    assert not is_open(index)


@pytest.mark.parametrize("long", [False, True])
def test_a_file_that_is_still_read_stays_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, long: bool) -> None:
    """LMDB ends the process where an environment is closed under a transaction of another thread."""
    monkeypatch.setattr(time, "sleep", lambda _: None)
    index, log = opened(tmp_path / "index", OpenEnvironments(1)), StoredLog()
    index.apply(log.append(put(b"a", b"1")))
    pins = index.readers if long else index.pins
    pins.acquire(PIN)
    for _ in range(2):
        with pytest.raises(Overloaded, match="1 transaction"):
            index.close()
        assert is_open(index)
    with pytest.raises(ShuttingDown):
        index.get_value(b"a")
    pins.release()
    index.close()
    assert not is_open(index)
    index = resting(tmp_path / "index", OpenEnvironments(1), boot="another")
    assert index.get_value(b"a") == b"1", "and was closed cleanly"
    index.close()


def test_closing_waits_for_no_read_that_waits_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A read that has its pin and wants to open the file meanwhile hears that the index is closed."""
    index, log = opened(tmp_path / "index", OpenEnvironments(1)), StoredLog()
    index.apply(log.append(put(b"a", b"1")))
    index.watch_use()
    index.pins.acquire(PIN)
    begin = index._begin
    with ThreadPoolExecutor(1) as thread:

        def meanwhile(_: float) -> None:
            assert isinstance(thread.submit(begin).exception(), ShuttingDown)
            index.pins.release()

        monkeypatch.setattr(time, "sleep", meanwhile)
        index.close()
    assert not is_open(index)


def test_the_least_recently_used_is_put_to_rest(tmp_path: Path) -> None:
    environments = OpenEnvironments(3)
    indexes, log = [opened(tmp_path / str(number), environments) for number in range(3)], StoredLog()
    for index in indexes:
        index.apply(log.append(put(b"a", b"1")))
    environments.shed(0)
    assert [index.watch_use() for index in indexes] == [True] * 3
    assert indexes[0].get_value(b"a") == b"1"
    assert indexes[2].get_value(b"a") == b"1"
    fourth = opened(tmp_path / "fourth", environments)
    assert [is_open(index) for index in indexes] == [True, False, True]
    assert len(environments) == 3
    for index in (*indexes, fourth):
        index.close()


def test_more_are_asked_for_than_are_open(tmp_path: Path) -> None:
    """Two threads that put indexes to rest at once, or a process without descriptors and with few open indexes."""
    environments = OpenEnvironments(3)
    indexes = [opened(tmp_path / str(number), environments) for number in range(2)]
    environments.shed(0)
    assert [index.watch_use() for index in indexes] == [True] * 2
    assert environments.shed(5) == 2
    assert environments.shed(5) == 0
    environments.make_room()
    assert [is_open(index) for index in indexes] == [False] * 2
    for index in indexes:
        index.close()


def test_readers_in_many_threads_meet_no_closed_file(tmp_path: Path) -> None:
    environments = OpenEnvironments(2)
    indexes = []
    for number in range(6):
        index, log = opened(tmp_path / str(number), environments), StoredLog()
        index.apply(log.append(put(b"a", b"%d" % number)))
        indexes.append(index)
    wrong: list[object] = []

    def read(first: int) -> None:
        try:
            for turn in range(400):
                number = (first + turn) % 6
                value = indexes[number].get_value(b"a")
                if value != b"%d" % number:
                    wrong.append((number, value))
                if turn % 50 == 0 and indexes[number].get_many([b"a"]).values[0] is None:
                    wrong.append(number)
        except BaseException as error:
            wrong.append(error)
            raise

    threads = [threading.Thread(target=read, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert len(environments) <= 6
    for index in indexes:
        index.close()


@pytest.mark.parametrize("end", ["clean", "killed at rest", "killed after a write"])
def test_the_next_process_knows_what_it_may_believe(tmp_path: Path, end: str) -> None:
    environments, folder = OpenEnvironments(2), tmp_path / "index"
    index, log = opened(folder, environments), StoredLog()
    index.apply(log.append(put(b"a", b"1")))
    if end == "clean":
        index.close()
    else:
        assert index.rest()
        if end == "killed after a write":
            index.apply(log.append(put(b"a", b"2")))
            del index  # a killed process closes nothing
    again = LmdbIndex.at_rest(folder, partition=PartitionId(TABLE, PARTITION), environments=environments)
    if end == "killed after a write":
        assert again is None, "the file has to be looked at"
        return
    assert again is not None
    assert not is_open(again)
    assert (again.applied, again.count()) == (Offset(0), 1)
    assert again.get_value(b"a") == b"1"
    again.close()
    other = LmdbIndex.at_rest(
        folder, partition=PartitionId(TABLE, PARTITION), environments=environments, boot_id=lambda: "later"
    )
    assert other is not None, "closed cleanly, it is trusted after a crash of the machine too"


def test_at_rest_and_not_clean_is_discarded_after_a_crash_of_the_machine(tmp_path: Path) -> None:
    environments, folder = OpenEnvironments(2), tmp_path / "index"
    index, log = opened(folder, environments), StoredLog()
    index.apply(log.append(put(b"a", b"1")))
    assert index.rest()
    with pytest.raises(IndexDamaged, match="was in use when the machine stopped"):
        resting(folder, environments, boot="another")
    index.close()


def test_a_clean_index_that_is_only_read_stays_clean(tmp_path: Path) -> None:
    environments, folder = OpenEnvironments(2), tmp_path / "index"
    index, log = opened(folder, environments), StoredLog()
    index.apply(log.append(put(b"a", b"1")))
    index.close()
    marker = (folder / "index.json").read_bytes()
    index = resting(folder, environments)
    assert index.get_value(b"a") == b"1"
    assert (folder / "index.json").read_bytes() == marker
    index.apply(log.append(put(b"a", b"2")))
    assert json.loads((folder / "index.json").read_bytes())["clean"] is False
    index.close()
    assert json.loads((folder / "index.json").read_bytes())["clean"] is True


def test_a_marker_of_an_earlier_version_has_the_file_opened(tmp_path: Path) -> None:
    environments, folder = OpenEnvironments(2), tmp_path / "index"
    index, log = opened(folder, environments), StoredLog()
    index.apply(log.append(put(b"a", b"1")))
    index.close()
    change_marker(folder, lambda fields: fields.pop("summary"))
    assert LmdbIndex.at_rest(folder, partition=PartitionId(TABLE, PARTITION), environments=environments) is None
    index = opened(folder, environments)
    assert index.get_value(b"a") == b"1"
    index.close()


@pytest.mark.parametrize("damage", ["another file", "no file", "a summary that lies", "no summary that can be read"])
def test_a_file_that_is_not_what_the_marker_says_is_refused(tmp_path: Path, damage: str) -> None:
    environments, folder = OpenEnvironments(2), tmp_path / "index"
    index, log = opened(folder, environments), StoredLog()
    index.apply(log.append(put(b"a", b"1")))
    index.close()
    if damage == "another file":
        (folder / "data.mdb").write_bytes(bytes(8192))
    elif damage == "no file":
        (folder / "data.mdb").unlink()
    else:
        state = [5, 5, 0] if damage == "a summary that lies" else "none"
        change_marker(folder, lambda fields: fields["summary"].update(state=state))
    with pytest.raises(IndexDamaged, match="discard"):
        resting(folder, environments).get_value(b"a")


def test_without_a_descriptor_others_are_put_to_rest_and_then_it_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    environments = OpenEnvironments(100)
    indexes, log = [opened(tmp_path / str(number), environments) for number in range(3)], StoredLog()
    for index in indexes:
        index.apply(log.append(put(b"a", b"1")))
    assert indexes[0].rest()
    real, refusals = lmdb_environment.open_environment, [1]

    def short(path: Path, **how: Any) -> object:
        if refusals[0]:
            refusals[0] -= 1
            raise Overloaded(os.strerror(errno.EMFILE), limit=3)
        return real(path, **how)

    monkeypatch.setattr(index_file, "open_environment", short)
    assert indexes[0].get_value(b"a") == b"1"
    assert [is_open(index) for index in indexes] == [True, False, False]
    assert indexes[0].rest()
    refusals[0] = 1
    with pytest.raises(Overloaded):
        indexes[0].get_value(b"a")
    assert indexes[0].get_value(b"a") == b"1", "and it goes on"
    for index in indexes:
        index.close()


def test_lmdb_says_in_words_that_there_is_no_descriptor(tmp_path: Path) -> None:
    from serving_tier.index.lmdb.environment import named_troubles

    with pytest.raises(Overloaded, match=r"files open"), named_troubles(tmp_path, 1):
        raise lmdb.Error(f"{tmp_path}: {os.strerror(errno.EMFILE)}")


def test_closed_is_closed(tmp_path: Path) -> None:
    environments = OpenEnvironments(2)
    index = opened(tmp_path / "index", environments)
    assert index.rest()
    index.close()
    index.close()
    assert index.rest()
    index.watch_use()
    with pytest.raises(ShuttingDown):
        index.get_value(b"a")
