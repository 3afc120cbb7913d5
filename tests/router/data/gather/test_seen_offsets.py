"""What a server reads after that remembers nothing."""

from __future__ import annotations

from log_tier.model.identifiers import NOTHING, Offset, Partition, TableId
from log_tier.model.table_ref import TableRef
from router.data.gather.seen_offsets import NoSession


def test_without_a_session_no_partition_has_to_contain_anything() -> None:
    table, session = TableRef(TableId("AAAAAAAAAAAAAAAAAAAAAA"), "flights", 3), NoSession()
    session.saw(table, Partition(1), Offset(9))
    assert list(session.offsets(table)) == [NOTHING] * 3
