"""The checker's model of a table that is cleared, swapped and rolled back. Pure: a log is written down by hand."""

from __future__ import annotations

import json
from pathlib import Path

from duramen.verification.checker import check_history
from duramen.verification.history import BuiltPart, Call, History, LogRecord, read_history, write_history
from duramen.verification.model import PartitionModel


def put(offset: int, key: str, value: str) -> LogRecord:
    return LogRecord(0, offset, "put", key, value, batch=offset)


def barrier(offset: int, version: int, job: int, url: str = "", producer: int = 0) -> LogRecord:
    said = json.dumps({"v": 1, "version": version, "job": job, **({"url": url} if url else {})})
    return LogRecord(0, offset, "barrier", "", said, batch=offset, producer=producer, sequence=0, void=True)


LOG = [
    put(0, "a", "1"),
    LogRecord(0, 1, "add", "n", "5", batch=1),
    put(2, "b", "2"),  # behind the base of version 2, which is empty at 1
    LogRecord(0, 3, "put", "a", "9", condition="absent", batch=3, void=True),  # rejected by version 1: in no version
    barrier(4, 2, 30, "empty:1/30", producer=7),
    LogRecord(0, 5, "add", "n", "3", batch=5),
    barrier(6, 2, 30, "empty:1/30", producer=7),  # its second copy
    barrier(7, 1, 40),
    put(8, "c", "4"),
    barrier(9, 2, 20, "empty:1/30"),  # of a job that was overtaken
]


def test_what_is_read_at_every_offset() -> None:
    model = PartitionModel(LOG)
    held = [dict(sorted(model.keys_at(offset, "").items())) for offset in range(10)]
    first = {"a": "1", "b": "2", "n": "5"}
    assert held == [
        {"a": "1"},
        {"a": "1", "n": "5"},
        first,
        first,
        {"b": "2"},
        {"b": "2", "n": "3"},
        {"b": "2", "n": "3"},
        {"a": "1", "b": "2", "n": "8"},
        {"a": "1", "b": "2", "c": "4", "n": "8"},
        {"a": "1", "b": "2", "c": "4", "n": "8"},
    ]
    assert model.at("a", 3) == (0, "1")
    assert model.at("a", 5) == (-1, None)
    assert model.verdicts[5].result == "3", "by what the version that was live held"


def test_a_version_that_was_built_holds_what_the_table_held() -> None:
    model = PartitionModel([put(0, "a", "1"), barrier(1, 2, 30, "file:///built"), put(2, "b", "2")])
    assert model.keys_at(2, "") == {"a": "1", "b": "2"}


def test_a_version_with_a_content_of_its_own() -> None:
    """At its base it holds what was built; then what the live version accepted, before the barrier and behind it."""
    log = [
        put(0, "a", "1"),
        put(1, "b", "2"),
        put(2, "c", "3"),  # behind the base
        LogRecord(0, 3, "add", "n", "5", batch=3),
        barrier(4, 2, 30, "file:///built"),
        LogRecord(0, 5, "put", "a", "9", condition="present", batch=5, void=True),  # it has no a
        LogRecord(0, 6, "put", "x", "8", condition="version", version=1, batch=6),
        barrier(7, 1, 40),
    ]
    model = PartitionModel(log, {"file:///built": BuiltPart(1, {"b": [0, "old"], "n": [1, "7"], "x": [1, "new"]})})
    assert model.keys_at(3, "") == {"a": "1", "b": "2", "c": "3", "n": "5"}
    assert model.keys_at(4, "") == {"b": "old", "c": "3", "n": "12", "x": "new"}
    assert (model.at("x", 5), model.at("b", 5), model.at("c", 5)) == ((1, "new"), (0, "old"), (2, "3"))
    assert (model.verdicts[5].rejected, model.verdicts[6].rejected) == ("condition_failed", "")
    assert model.keys_at(7, "") == {"a": "1", "b": "2", "c": "3", "n": "5", "x": "8"}


def test_builds_are_written_and_read_again(tmp_path: Path) -> None:
    history = History(1, [], LOG, builds={"file:///built": [BuiltPart(1, {"b": [0, "old"]}, {"b": 7})]})
    write_history(history, tmp_path / "history")
    again = read_history((tmp_path / "history").read_text().splitlines())
    assert again == history


def test_a_read_of_the_version_before_is_named() -> None:
    read = Call(0, 0, "read", 1, 2, 0, {"keys": ["a"]}, "ok", {"applied": 5, "entries": [["a", "1", 0]]})
    history = History(1, [*writes(), read], LOG)
    (violation,) = check_history(history)
    assert violation.invariant == "I4"
    assert "read a = '1' of version 0 at 0@5; the log says None of version -1" in violation.what


def test_a_watch_shows_a_barrier_once() -> None:
    def watched(*offsets: int) -> History:
        changes = [[each, LOG[each].operation, LOG[each].key, LOG[each].value] for each in offsets]
        call = Call(0, 9, "watch", 1, 2, 0, {"from": 0, "session": False}, "ok", {"to": 9, "changes": changes})
        return History(1, [*writes(), call], LOG)

    assert check_history(watched(0, 1, 2, 4, 5, 7, 8, 9)) == []
    (twice,) = check_history(watched(0, 1, 2, 4, 5, 6, 7, 8, 9))
    assert (twice.invariant, "showed [6]" in twice.what) == ("I7", True), twice


def writes() -> list[Call]:
    """Somebody who wrote what is in the log."""
    return [
        Call(
            number,
            1,
            "write",
            0,
            0,
            0,
            {
                "operations": [
                    {"operation": each.operation, "key": each.key, "value": each.value, "condition": each.condition}
                ]
            },
            "unknown",
        )
        for number, each in enumerate(LOG, start=100)
        if each.operation != "barrier"
    ]
