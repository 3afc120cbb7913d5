"""A server that is killed while others write and load: every acknowledged write is at its place afterwards.

`make test` runs a short version; with `DURAMEN_CAMPAIGN=1` it runs at full length.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from kit.client.server_process import ServerProcess, run_duramen
from kit.deadlines import patience_s, wait_until
from kit.warm.warm_process import WarmProcess

from duramen.blocking import Database, Table
from log_tier.model.partitioner import partition_of

FULL = os.environ.get("DURAMEN_CAMPAIGN") == "1"


KILLS_PUTS = 50 if FULL else 3


KILLS_LOAD = 60 if FULL else 3


# A kill comes when this many writes were acknowledged, or rows loaded: from "in the first sync" to "well under way".
ACKNOWLEDGED_MAX = 400


ROWS = 40_000


NewServer = Callable[[Path], ServerProcess]


WRITER = """
import sys, duramen
database = duramen.connect(sys.argv[1], timeout=30)
table = database.table("t")
number = 0
while True:
    key = b"%s-%d" % (sys.argv[2].encode(), number)
    try:
        done = table.put(key, key)
    except duramen.DuramenError as error:
        print("error", error.code, key.decode(), flush=True)
    else:
        print(done.partition, done.offset, key.decode(), flush=True)
    number += 1
"""


@pytest.mark.campaign
@pytest.mark.timeout(3600 if FULL else 600)
def test_kill_9_while_others_put(new_server: NewServer, tmp_path: Path) -> None:
    """Writers in processes of their own; after each kill every acknowledged write is at its offset in the log."""
    server = new_server(tmp_path / "data")
    with server.connect() as database:
        database.create_table("t", partitions=3)
    acknowledged: dict[tuple[int, int], bytes] = {}
    chance = random.Random(20131231)
    for kill in range(KILLS_PUTS):
        before = len(acknowledged)
        writers = [Writer(server.target, f"{kill}-{number}") for number in range(2)]
        try:
            enough = chance.randint(2, ACKNOWLEDGED_MAX)
            wait_until(partial(acknowledgements_reach, writers, enough), what=f"{enough} writes are acknowledged")
            server.kill9()
        finally:
            for writer in writers:
                writer.stop()
        for line in (line for writer in writers for line in writer.lines):
            partition, offset, key = line.split()
            if partition != "error":
                assert (int(partition), int(offset)) not in acknowledged, f"offset {offset} was given away twice"
                acknowledged[int(partition), int(offset)] = key.encode()
        assert len(acknowledged) > before
        server.restart()
        assert server.announcement["recovery"]["damages"] == []
        with server.connect() as database:
            check_log(database, "t", acknowledged)


class Writer:
    """A process that puts for as long as it lives; its acknowledgements, line by line."""

    def __init__(self, target: str, name: str) -> None:
        self.lines: list[str] = []
        self._process = WarmProcess(
            [sys.executable, "-c", WRITER, target, name], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.lines.append(line)

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()
        self._reader.join()
        assert self._process.stdout is not None
        self._process.stdout.close()
        if self.lines and not self.lines[-1].endswith("\n"):
            self.lines.pop()


def check_log(database: Database, name: str, acknowledged: dict[tuple[int, int], bytes]) -> None:
    """Every acknowledged write is in the change feed at its place, once, and its key has that version."""
    table = database.table(name)
    ends: dict[int, int] = {part.partition: part.latest for part in table.describe().partitions}
    found: dict[tuple[int, int], bytes] = {}
    changes = table.watch(start="earliest")
    missing = set(acknowledged)
    assert all(offset <= ends[partition] for partition, offset in missing)
    while missing:
        change = next(changes)
        place = (change.partition, change.offset)
        assert place not in found
        found[place] = change.key
        missing.discard(place)
    changes.close()
    assert {place: found[place] for place in acknowledged} == acknowledged
    versions = {key: offset for (_, offset), key in acknowledged.items()}
    for key in random.Random(1).sample(sorted(versions), min(200, len(versions))):
        entry = table.get_entry(key, level="strong")
        assert entry is not None
        assert (entry.value, entry.version) == (key, versions[key])


@pytest.mark.campaign
@pytest.mark.timeout(3600 if FULL else 600)
def test_kill_9_during_load(new_server: NewServer, tmp_path: Path) -> None:
    """The server is killed while `duramen load` runs, which waits for it or is run again: each row is there once."""
    server = new_server(tmp_path / "data")
    chance = random.Random(336776)
    interrupted = 0
    for kill in range(KILLS_LOAD):
        name = f"t{kill}"
        path = tmp_path / f"{name}.csv"
        path.write_text("id,n\n" + "".join(f"{name}-{number:06},{number}\n" for number in range(ROWS)))
        with server.connect() as database:
            database.create_table(name, partitions=3)
        arguments = ["load", name, str(path), "-k", "id", "--json", "--at", server.target]
        load = WarmProcess[bytes]([sys.executable, "-m", "duramen", *arguments], stdout=subprocess.PIPE)
        try:
            enough = chance.randint(1, ROWS * 3 // 4)
            with server.connect() as database:
                wait_until(partial(records_reach, database, name, enough), what=f"{enough} rows are loaded")
            interrupted += load.poll() is None
            server.restart()
            output, _ = load.communicate(timeout=patience_s(120))
        finally:
            if load.poll() is None:
                load.kill()
                load.communicate()
        if load.returncode:
            output = run_duramen(*arguments).stdout.encode()
        summary = json.loads(output)
        assert summary["written"] + summary["skipped"] == ROWS
        with server.connect() as database:
            table = database.table(name)
            found = list(table.scan(after=summary["token"]))
            assert [key for key, _ in found] == [b"%s-%06d" % (name.encode(), number) for number in range(ROWS)]
            # Each row took effect once: what a retry wrote again is void and no change.
            taken = [0] * 3
            for key, _ in found:
                taken[partition_of(key, 3)] += 1
            assert [part.keys for part in table.describe().partitions] == taken
            assert count_changes(table) == ROWS
        path.unlink()
        with server.connect() as database:
            database.drop_table(name)
    assert interrupted >= KILLS_LOAD // 2, f"only {interrupted} of {KILLS_LOAD} kills came before the load had ended"


def acknowledgements_reach(writers: list[Writer], count: int) -> bool:
    return sum(len(writer.lines) for writer in writers) >= count


def records_reach(database: Database, name: str, count: int) -> bool:
    return sum(part.latest + 1 for part in database.describe_table(name).partitions) >= count


def count_changes(table: Table) -> int:
    """Changes from the beginning up to one that was put last as a mark in every partition."""
    marks: dict[int, bytes] = {}
    for number in range(1000):
        key = b"mark%d" % number
        marks.setdefault(partition_of(key, 3), key)
    for key in marks.values():
        table.put(key, b"")
    left, count = set(marks.values()), 0
    changes = table.watch(start="earliest")
    while left:
        change = next(changes)
        if change.key in left:
            left.discard(change.key)
        else:
            count += 1
    changes.close()
    return count
