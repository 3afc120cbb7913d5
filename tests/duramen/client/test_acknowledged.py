"""What a client was acknowledged, as text: whatever way its writes took, and nothing of what was refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import duramen
from duramen.client.model.acknowledged_json import acknowledged_to_json, parse_acknowledged
from log_tier.model.errors import ConditionFailed, InvalidRequest


@pytest.mark.embedded_log_only
def test_every_acknowledged_record_counts_once(tmp_path: Path) -> None:
    with duramen.open(tmp_path) as database:
        table = database.create_table("orders", partitions=2)
        for number in range(30):
            table.put(b"k%d" % number, b"v")
        table.put_many([(b"m%d" % number, b"v") for number in range(10)])
        with table.writer("a stream") as writer:
            writer.put_rows([(b"w%d" % number, b"v") for number in range(20)])
        with pytest.raises(InvalidRequest):
            table.put(b"", b"v")
        with pytest.raises(ConditionFailed):
            table.put(b"k0", b"v", if_absent=True)
        text = database.acknowledged()
        runs = parse_acknowledged(text)
        # A write that its condition rejected is in the log all the same.
        assert sum(run.records for run in runs) == 61
        described = database.describe_table("orders")
        assert sum(part.latest + 1 for part in described.partitions) == 61
        assert acknowledged_to_json(runs) == text


@pytest.mark.parametrize(
    "text", ["", "{}", "[]", '{"format":"duramen-acknowledged","version":2,"runs":[]}', "\x00", "[" * 100_000]
)
def test_what_is_no_such_text_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequest, match="acknowledged"):
        parse_acknowledged(text)


@pytest.mark.parametrize(("field", "value"), [("partition", -1), ("records", 1 << 70), ("table", "x"), ("checksum", 5)])
def test_a_field_that_is_wrong_is_refused(field: str, value: object) -> None:
    row = {
        "table": "A" * 22, "partition": 0, "producer": "0" * 16, "minute": 1, "first": 0, "last": 0, "sequence": 0,
        "records": 1, "checksum": "0" * 16,
    }  # fmt: skip
    document = {"format": "duramen-acknowledged", "version": 1, "runs": [row]}
    assert len(parse_acknowledged(json.dumps(document))) == 1
    with pytest.raises(InvalidRequest):
        parse_acknowledged(json.dumps({**document, "runs": [row | {field: value}]}))
