"""Ctrl-C in the thread of a read: wherever it comes, the index can be closed."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from kit.flight_rows import FLIGHTS, flight, flight_key
from kit.log.stored_log import PARTITION, TABLE, StoredLog, put

from log_tier.model.identifiers import PartitionId
from log_tier.rows.table_index import TableIndex
from serving_tier.index.lmdb.lmdb_index import LmdbIndex

BY_DELAY = TableIndex(1, "by_delay", ("dep_delay",))
INDEXED = replace(FLIGHTS, indexes=(BY_DELAY,))

READS: dict[str, Callable[[LmdbIndex], object]] = {
    "get_value": lambda index: index.get_value(flight_key("UA", 1)),
    "stored": lambda index: index.stored(flight_key("UA", 1)),
    "get_many": lambda index: index.get_many([flight_key("UA", 1)]),
    "scan": lambda index: index.scan(b"", None),
    "scan in reverse": lambda index: index.scan(b"", None, reverse=True),
    "find": lambda index: index.find(BY_DELAY, b"", None),
}


def is_interrupted_at_call(step: int, read: Callable[[], object]) -> bool:
    """Interrupt a read where CPython looks for signals the `step`th time; False if it does so less often.

    It looks behind a call of a function in C, and where one in Python begins.
    """
    looks = 0

    def at_each(frame: FrameType, event: str, function: Any) -> None:
        nonlocal looks
        if event in ("call", "c_return") and function is not sys.setprofile:
            looks += 1
            if looks == step:
                raise KeyboardInterrupt

    sys.setprofile(at_each)
    try:
        read()
    except KeyboardInterrupt:
        return True
    finally:
        sys.setprofile(None)
    return False


@pytest.mark.parametrize("name", READS)
def test_an_interrupt_behind_any_call_leaves_no_pin(tmp_path: Path, name: str) -> None:
    index = LmdbIndex.open(tmp_path / "index", partition=PartitionId(TABLE, PARTITION), definition=INDEXED)
    rows = [put(flight_key("UA", number), flight("UA", number, dep_delay=1.0)) for number in range(3)]
    index.apply(StoredLog().append(*rows))
    expected = READS[name](index)
    steps = 1
    while is_interrupted_at_call(steps, lambda: READS[name](index)):
        assert not index.pins, f"interrupted at look {steps}"
        assert READS[name](index) == expected
        steps += 1
    assert steps > 4
    index.close()
