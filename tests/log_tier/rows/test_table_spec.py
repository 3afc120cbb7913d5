"""A description of a table that cannot be is refused when it is made."""

from __future__ import annotations

from typing import Any

import pytest

from log_tier.model.errors import DuramenError, InvalidName, InvalidRequest, LimitExceeded
from log_tier.model.identifiers import PARTITIONS_MAX
from log_tier.rows.table_spec import TableSpec


@pytest.mark.parametrize(
    ("wanted", "kind"),
    [
        ({"name": ""}, InvalidName),
        ({"name": "a b"}, InvalidName),
        ({"name": "_duramen_catalog"}, InvalidName),
        ({"over": "no/topic"}, InvalidName),
        ({"partitions": 0}, LimitExceeded),
        ({"partitions": -1, "over": "orders"}, LimitExceeded),
        ({"partitions": PARTITIONS_MAX + 1}, LimitExceeded),
        ({"partitions": 1.5}, InvalidRequest),
        ({"replicas": -1}, InvalidRequest),
        ({"replicas": 1 << 32}, InvalidRequest),
        ({"replicas": "2"}, InvalidRequest),
        ({"partitioner": "modulo"}, InvalidRequest),
    ],
)
def test_a_table_that_cannot_be(wanted: dict[str, Any], kind: type[DuramenError]) -> None:
    with pytest.raises(kind):
        TableSpec(**{"name": "flights", "partitions": 8, **wanted})


@pytest.mark.parametrize("partitions", [1, PARTITIONS_MAX])
def test_the_smallest_and_the_largest(partitions: int) -> None:
    assert TableSpec("flights", partitions).placed_by == "slot"


def test_a_table_over_a_topic_of_others() -> None:
    assert TableSpec("orders", 0, over="orders-v1").placed_by == "murmur2"
    assert TableSpec("orders", 0, over="orders-v1", partitioner="slot").placed_by == "slot"
