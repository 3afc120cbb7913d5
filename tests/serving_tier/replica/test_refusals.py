"""What refusals say that callers compute with."""

from __future__ import annotations

from log_tier.model.identifiers import Offset, Partition
from serving_tier.replica.refusals import compacted_away


def test_a_copy_of_the_index_must_reach_the_end_of_what_is_compacted() -> None:
    """An index that has applied the last compacted offset goes on by the log; what it asks for first is one further."""
    error = compacted_away("replica n1", Partition(3), applied=Offset(40), compacted=Offset(50))
    assert error.fields == {"partition": 3, "asked": 41, "earliest": 49}
