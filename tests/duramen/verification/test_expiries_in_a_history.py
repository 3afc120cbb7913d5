"""The checker's model of keys that expire: by the log's time, and by no other clock. A log is written down by hand."""

from __future__ import annotations

import pytest

from duramen.verification.checker import check_history
from duramen.verification.history import BuiltPart, Call, History, LogRecord
from duramen.verification.model import PartitionModel


def record(
    offset: int,
    time_ms: int,
    operation: str,
    key: str,
    value: str = "",
    expiry: str = "",
    expires_ms: int = 0,
    **more: str,
) -> LogRecord:
    is_void = operation in ("noop", "barrier")
    return LogRecord(
        0,
        offset,
        operation,
        key,
        value,
        batch=offset,
        time_ms=time_ms,
        expiry=expiry,
        expires_ms=expires_ms,
        void=is_void,
        condition=more.get("condition", ""),
    )


LOG = [
    record(0, 1000, "put", "a", "1", "ttl", 100),  # until 1100
    record(1, 1050, "put", "b", "1", "at", 1200),
    record(2, 1060, "add", "n", "5", "ttl", 50),  # until 1110
    record(3, 1099, "append", "a", "2"),  # an update keeps the expiry
    record(4, 1100, "noop", ""),  # the log's time reaches it
    record(5, 1090, "put", "a", "3", condition="absent"),  # a timestamp that fell: the log's time does not
    record(6, 1110, "add", "n", "7"),  # begins anew, and stays
    record(7, 1150, "put", "b", "2", "keep"),
    record(8, 1160, "put", "c", "1", "at", 1160),  # has expired as it is written
    record(9, 1199, "put", "c", "2", condition="absent"),
    record(10, 1200, "put", "a", "4"),
]


def test_what_is_read_at_every_offset() -> None:
    model = PartitionModel(LOG)
    assert [model.keys_at(offset, "") for offset in range(11)] == [
        {"a": "1"},
        {"a": "1", "b": "1"},
        {"a": "1", "b": "1", "n": "5"},
        {"a": "12", "b": "1", "n": "5"},
        {"b": "1", "n": "5"},
        {"a": "3", "b": "1", "n": "5"},
        {"a": "3", "b": "1", "n": "7"},
        {"a": "3", "b": "2", "n": "7"},
        {"a": "3", "b": "2", "n": "7"},
        {"a": "3", "b": "2", "n": "7", "c": "2"},
        {"a": "4", "n": "7", "c": "2"},
    ]
    assert [model.time_at(offset) for offset in (-1, 0, 4, 5, 10)] == [0, 1000, 1100, 1100, 1200]
    assert (model.verdicts[3].result, model.verdicts[6].result) == ("2", "7")
    assert not any(verdict.rejected for verdict in model.verdicts.values())
    assert model.keys_at(3, "", now_ms=1100) == {"b": "1", "n": "5"}, "what was restored expires where it was restored"


def test_a_version_that_follows_judges_by_the_same_time() -> None:
    built = BuiltPart(0, {"a": [0, "old"], "x": [0, "1"], "y": [0, "2"]}, {"x": 2000, "y": 1110})
    said = '{"v": 1, "version": 2, "job": 9, "url": "file:///built"}'
    log = [*LOG[:4], record(4, 1100, "barrier", "", said), record(5, 1110, "put", "d", "1")]
    model = PartitionModel(log, {"file:///built": built})
    assert model.keys_at(4, "") == {"a": "old2", "b": "1", "n": "5", "x": "1", "y": "2"}
    assert model.keys_at(5, "") == {"a": "old2", "b": "1", "d": "1", "x": "1"}


@pytest.mark.parametrize(
    ("applied", "value", "wrong"), [(3, "12", False), (3, None, True), (4, None, False), (4, "12", True)]
)
def test_a_read_that_is_early_or_late_is_named(applied: int, value: str | None, wrong: bool) -> None:
    entry = ["a", value, -1 if value is None else 3]
    read = Call(11, 7, "read", 1, 2, 0, {"keys": ["a"]}, "ok", {"applied": applied, "entries": [entry]})
    writes = [
        Call(number, 1, "write", 0, 1, 0, {"operations": [_asked(each)]}, "unknown")
        for number, each in enumerate(LOG)
        if not each.void
    ]
    found = list(check_history(History(1, [*writes, read], LOG)))
    assert [each.invariant for each in found] == (["I4"] if wrong else [])


def _asked(each: LogRecord) -> dict[str, object]:
    return {"operation": each.operation, "key": each.key, "value": each.value}
