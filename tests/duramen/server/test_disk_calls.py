"""Every disk call of a real server fails once: of the log, the indexes, the snapshots, LMDB's own. The answer is a
typed error that names the file, the server goes on or has ended with a reason, and nothing acknowledged is lost.

The calls are those that a healthy life makes; a kind of call on a kind of file is one point. `make test` runs some
points, the same each time; `DURAMEN_CAMPAIGN=1` runs all, with the first call and with a later one.
"""

from __future__ import annotations

import errno
import itertools
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from kit.disk_calls.call_faults import SHORT, CallFault, CallPoint, DiskCalls
from kit.disk_calls.served_life import ServedLife

pytestmark = [pytest.mark.embedded_log_only, pytest.mark.campaign]

CAMPAIGN = os.environ.get("DURAMEN_CAMPAIGN") == "1"
PARTS = 8 if CAMPAIGN else 1
ONE_OF = 1 if CAMPAIGN else 80
"""A short run takes one point of so many."""

ERRORS = (errno.EIO, errno.ENOSPC, errno.EACCES)


@pytest.fixture(scope="module")
def points(tmp_path_factory: pytest.TempPathFactory) -> Counter[tuple[str, str]]:
    """How often a healthy life makes each call on each kind of file."""
    life = life_of(tmp_path_factory.mktemp("healthy"), None)
    life.live()
    made = life.calls.points()
    life.look()
    assert life.troubles() == []
    assert life.refused == []
    assert life.kept.keys() == {"flights", "then"}
    return made


def life_of(folder: Path, fault: CallFault | None) -> ServedLife:
    return ServedLife(folder, DiskCalls(folder / "data", folder / "calls", fault))


def faults(points: Counter[tuple[str, str]]) -> Iterator[CallFault]:
    """One fault for each point, two in the campaign; the errors take turns."""
    for number, (call, kind) in enumerate(sorted(points, key=lambda point: (point[1], point[0]))):
        errors = (*ERRORS, SHORT) if call in ("write", "pwrite") else ERRORS
        yield CallFault(CallPoint(call, kind, 0), errors[number % len(errors)])
        later = points[call, kind] // 3  # of both runs of the server: each of them makes so many, mostly
        if CAMPAIGN and later:
            yield CallFault(CallPoint(call, kind, later), errors[(number + 1) % len(errors)])


def test_the_calls_that_fail_are_those_of_every_part(points: Counter[tuple[str, str]]) -> None:
    calls = {call for call, _ in points}
    assert calls == {
        "open",
        "write",
        "pwrite",
        "sync",
        "syncdir",
        "rename",
        "link",
        "unlink",
        "truncate",
        "mkdir",
        "mmap",
    }
    folders = {kind.split("/")[0] for _, kind in points}
    assert folders == {"log", "index", "snapshots", "snapshot-work", "point-in-time"}
    assert {("pwrite", "index/TABLE/N/data.mdb"), ("mmap", "index/TABLE/N/data.mdb")} <= points.keys(), "LMDB's own"
    assert len(points) > 200


@pytest.mark.parametrize("part", range(PARTS))
def test_every_call_fails_once(points: Counter[tuple[str, str]], tmp_path: Path, part: int) -> None:
    troubles: dict[str, list[str]] = {}
    met = 0
    for number, fault in enumerate(itertools.islice(faults(points), part, None, PARTS)):
        if number % ONE_OF:
            continue
        life = life_of(tmp_path / str(number), fault)
        life.data.parent.mkdir()
        life.live()
        met += bool(life.calls.failed())
        life.look()
        if found := life.troubles():
            troubles[str(fault)] = [*found, *life.refused, life.errors[-3000:]]
    assert not troubles, troubles
    assert met > 0
