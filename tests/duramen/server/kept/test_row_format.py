"""A row of `_duramen_history`: there and back, of another version, and of a hostile one."""

from __future__ import annotations

import json
import zlib
from array import array

import pytest

from duramen.server.console.history_ring import STATES, HistoryRow, ServerSample
from duramen.server.kept.row_format import (
    ROW_PARTITIONS_MAX,
    first_key_at,
    key_behind,
    parse_row,
    row_key,
    row_value,
)
from log_tier.model.errors import UnknownFormat

NOW_MS = 1_764_104_400_123

# Of version 1, as the first release of it wrote: it stays readable.
OLD = bytes.fromhex(
    "789c5d8e516ac3301044ef32dfdb22079262517a9120841c6f5351613bab75c018dfbd524a12dabf9979f076575c611b42569e7c863d98"
    "9259ae2cb02bf2329cfcd4b69598d7dd9e709979661fce5ca7614e89d0c7fced3f85d9778b7299df08c2a15f605566de081aba54c171fd"
    "8db018a567c9204c41346a1c87ca0ded1c2185aca534c6d04b73ebe75b25e3eaa3418be0888ebfe2d0e37ecb6df4b4bfe793c4493ffefb"
    "9ba7bd7d88ff58d358a8dbdcf6031f745aa2"
)


def history_row() -> HistoryRow:
    names = (("orders", 0), ("orders", 2), ("<script>", 1))
    return HistoryRow(
        7.5,
        names,
        array("q", (100, -1, 9)),
        array("q", (90, -1, 9)),
        bytes((1, 0, 6)),
        ServerSample(0.25, None, 7, True),
    )


def test_a_row_is_read_as_it_was_written() -> None:
    row = history_row()
    key, value = row_key("node/n1", NOW_MS), row_value(row, 60)
    kept = parse_row(key, value)
    assert kept.time_ms == NOW_MS
    assert kept.at(7.5) == row


def test_a_row_of_the_first_release_is_read() -> None:
    assert parse_row(row_key("node/n1", NOW_MS), OLD).at(7.5) == history_row()


def test_keys_of_a_series_are_between_its_bounds() -> None:
    key = row_key("node/n1", NOW_MS)
    assert first_key_at("node/n1", 0) < key < key_behind("node/n1")
    assert first_key_at("node/n1", NOW_MS) == key < first_key_at("node/n1", NOW_MS + 1)
    for other in ("node/n", "node/n10", "node/n2", "router/router"):
        assert not first_key_at("node/n1", 0) <= row_key(other, NOW_MS) < key_behind("node/n1")


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"no zlib",
        zlib.compress(b"[]"),
        zlib.compress(b"{}"),
        zlib.compress(b'{"v":2}'),
        zlib.compress(b'{"v":1,"server":{},"tables":[]}'),
        zlib.compress(b"[" * 100_000),
        zlib.compress(b" " * (64 << 20)),
        row_value(history_row(), 60)[:-9],
        zlib.compress(
            json.dumps(
                {
                    "v": 1,
                    "server": dict.fromkeys(("sync_p99_s", "queue_age_s", "disk_free_bytes", "ready")),
                    "tables": [{"table": "t", "partitions": [0], "last": [1 << 70], "lag": [0], "state": ["ready"]}],
                }
            ).encode()
        ),
    ],
)
def test_what_is_no_row_is_refused(value: bytes) -> None:
    with pytest.raises(UnknownFormat):
        parse_row(row_key("node/n1", NOW_MS), value)


def test_a_state_of_a_later_version_is_unknown() -> None:
    value = zlib.compress(zlib.decompress(row_value(history_row(), 60)).replace(b'"behind"', b'"dreaming"'))
    kept = parse_row(row_key("node/n1", NOW_MS), value)
    assert STATES[kept.states[0]] == "unknown"


def test_a_row_has_bounded_bytes() -> None:
    count = ROW_PARTITIONS_MAX + 5
    names = tuple(("orders", number) for number in range(count))
    offsets = array("q", (number * 7_919 % 100_003 for number in range(count)))
    row = HistoryRow(0.0, names, offsets, offsets, bytes(count), ServerSample())
    value = row_value(row, 18_000)
    assert len(value) < 200_000
    assert len(parse_row(row_key("node/n1", 0), value).names) == ROW_PARTITIONS_MAX


def test_two_hundred_partitions_take_few_bytes() -> None:
    names = tuple(("orders", number) for number in range(200))
    offsets = array("q", (10_000_000 + number * 7_919 % 100_003 for number in range(200)))
    assert len(row_value(HistoryRow(0.0, names, offsets, offsets, bytes(200), ServerSample()), 60)) < 1_400
