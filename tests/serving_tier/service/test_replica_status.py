"""What changed since the last report: compared with a follower that keeps what it gets."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from log_tier.model.errors import DiskFull
from log_tier.model.identifiers import Offset, Partition, PartitionId, TableId
from log_tier.model.log import Topic
from serving_tier.node.hosting import PendingReplica
from serving_tier.service.replica_status import ReplicaStatus, changes_between, status_of_pending

_NAMES = st.tuples(st.sampled_from([TableId("A" * 22), TableId("B" * 21 + "A")]), st.integers(0, 2).map(Partition))
_STATUSES = st.builds(
    ReplicaStatus,
    applied=st.integers(0, 2).map(Offset),
    latest=st.integers(0, 2).map(Offset),
    lag_ms=st.integers(0, 1),
    state=st.sampled_from(["ready", "behind"]),
    reason=st.just(""),
    bytes=st.integers(0, 1),
    keys=st.just(0),
    source=st.just("log"),
    void=st.integers(0, 1),
)


@given(st.lists(st.dictionaries(_NAMES, _STATUSES, max_size=5), max_size=8))
def test_a_follower_of_the_changes_knows_everything(pinned_reads: list[dict[PartitionId, ReplicaStatus]]) -> None:
    known: dict[PartitionId, ReplicaStatus] = {}
    before: dict[PartitionId, ReplicaStatus] = {}
    for after in pinned_reads:
        changed, gone = changes_between(before, after)
        assert not set(changed) & set(gone)
        assert all(name not in known or known[name] != after[name] for name in changed), "nothing is reported twice"
        known.update({name: after[name] for name in changed})
        for name in gone:
            del known[name]
        assert known == after
        before = after


def test_what_is_not_open_says_why() -> None:
    topic = Topic(TableId("A" * 22), "flights", 1)
    pending = PendingReplica(topic, topic.partition(0), "copying from n1", 5, 20)
    assert status_of_pending(pending, None)[3:5] == ("bootstrapping", "copying from n1 5 of 20")
    pending.trouble = "no store answers"
    assert status_of_pending(pending, None).reason == "copying from n1 5 of 20; before: no store answers"
    assert status_of_pending(None, DiskFull("no room"))[3:5] == ("stopped", "no room")
