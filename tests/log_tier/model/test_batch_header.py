"""The head of a batch: where it ends, and how a run of batches is cut."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from kit.log.sample_batches import plain_batch

from log_tier.model.batch_header import (
    BATCH_BYTES_MAX,
    HEADER_BYTES,
    NOWHERE,
    check_stored,
    check_stored_at,
    read_header,
    split_batches,
    stamp_batch,
)
from log_tier.model.errors import BatchRefused
from log_tier.model.identifiers import Offset


def stored(count: int) -> list[bytes]:
    return [
        stamp_batch(plain_batch(f"key{n}"), base_offset=Offset(n), timestamp_ms=7, unsynced=n) for n in range(count)
    ]


def test_a_run_of_batches_is_cut_where_each_ends() -> None:
    batches = stored(5)
    assert list(split_batches(b"".join(batches))) == batches
    assert list(split_batches(b"")) == []
    assert next(split_batches(batches[0])) is batches[0], "a single batch is not copied"


@pytest.mark.parametrize("missing", [1, 20, HEADER_BYTES + 3])
def test_a_run_that_is_cut_short_is_refused(missing: int) -> None:
    with pytest.raises(BatchRefused):
        list(split_batches(b"".join(stored(3))[:-missing]))


def test_a_stored_batch_is_checked_in_place() -> None:
    batches = stored(3)
    run = b"".join(batches)
    header = check_stored_at(run, len(batches[0]))
    assert header == check_stored(batches[1])
    assert (header.base_offset, header.unsynced, header.last_offset) == (1, 1, 1)
    size = len(batches[0])
    with pytest.raises(BatchRefused, match=f"has {size} bytes, here are {size + 1}"):
        check_stored(batches[0] + b"x")
    with pytest.raises(BatchRefused):
        check_stored_at(run, 1)
    with pytest.raises(BatchRefused):
        check_stored_at(run, len(run) - 10)


@pytest.mark.parametrize("length", [0, HEADER_BYTES - 1, BATCH_BYTES_MAX + 1, 2**32 - 1])
def test_lengths_that_cannot_be(length: int) -> None:
    batch = bytearray(stored(1)[0])
    batch[8:12] = length.to_bytes(4, "little")
    with pytest.raises(BatchRefused, match="claims"):
        read_header(bytes(batch))


def test_an_unstamped_batch_is_no_stored_one() -> None:
    with pytest.raises(BatchRefused, match="stamp"):
        check_stored(plain_batch("a"), NOWHERE)


def test_everybody_who_reads_stored_batches_says_whose_they_should_be() -> None:
    """Without a place the stamp cannot be checked, so only who knows of no table may leave it out."""
    root = Path(__file__).parents[3]
    at = {"decode_batch": 1, "check_stored": 1, "check_stored_at": 2, "cut_batch": 2, "cut_run": 2}
    calls = 0
    without: set[tuple[str, str]] = set()
    for package in ("log_tier", "serving_tier", "router", "spark_bulk", "duramen"):
        for path in (root / package).rglob("*.py"):
            file = str(path.relative_to(root))
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in at:
                    calls += 1
                    named = any(keyword.arg == "place" for keyword in node.keywords)
                    if len(node.args) <= at[node.func.id] and not named:
                        without.add((file, node.func.id))
                elif isinstance(node, ast.Call) and any(
                    isinstance(each, ast.Name) and each.id in at for each in node.args
                ):
                    without.add((file, "passed on"))
    assert calls >= 10, "the product's files were not found"
    # An index in memory is for tests and has no name; Kafka's engine decodes what it has stamped itself, a recorded
    # call what its client is about to send, and the gate, the audit, the slow log and the judge of what fits a table
    # what a client has sent and no log has stamped.
    assert without == {
        ("log_tier/access/demand_parts.py", "decode_batch"),
        ("log_tier/access/demands.py", "decode_batch"),
        ("log_tier/slow_calls/call_subject.py", "decode_batch"),
        ("duramen/testing/recording/recorded_ways.py", "decode_batch"),
        ("serving_tier/index/memory_index.py", "passed on"),
        ("log_tier/kafka/writing/batch_cuts.py", "decode_batch"),
        ("router/data/misfits.py", "decode_batch"),
    }
