"""Where the time of a call went, from what the data plane and the log noted."""

from __future__ import annotations

from typing import Literal

import pytest

from log_tier.measures.long_work import LongCommit, LongRequest, RequestKind
from log_tier.model.identifiers import Offset, PartitionId, TableId, partition_id
from log_tier.slow_calls.slow_call import CallKind, PartName
from log_tier.slow_calls.time_spent import time_spent

READING: tuple[CallKind, ...] = ("read", "scan")
HERE = partition_id(TableId("flights"), 0)
ELSEWHERE = partition_id(TableId("flights"), 1)


def request(
    kind: RequestKind, began_s: float, ended_s: float, *, place: PartitionId = HERE, waited_s: float = 0.0
) -> LongRequest:
    return LongRequest(kind, began_s, ended_s, [place], waited_s, Offset(7))


def parts(
    kind: CallKind,
    began_s: float,
    ended_s: float,
    requests: list[LongRequest],
    commits: list[LongCommit] | None,
) -> dict[PartName, float | None]:
    spent = time_spent(kind, [HERE], began_s, ended_s, requests, commits).parts
    return {name: each if each is None else round(each, 6) for name, each in spent.items()}


def test_a_lone_write_is_its_sync() -> None:
    assert parts("write", 10.0, 10.5, [request("write", 10.01, 10.49)], [LongCommit(10.02, 10.48)]) == {
        "queued": pytest.approx(0.02),
        "synced": pytest.approx(0.46),
        "rest": pytest.approx(0.02),
    }


def test_a_gathered_write_waits_for_the_request_before_it() -> None:
    before = request("write", 10.0, 10.3)
    own = request("write", 10.3, 10.6)
    commits = [LongCommit(10.0, 10.3), LongCommit(10.3, 10.6)]
    assert parts("write", 10.1, 10.6, [before, own], commits) == {"queued": 0.2, "synced": 0.3, "rest": 0.0}


def test_a_short_commit_behind_a_long_one_was_queued() -> None:
    own = request("write", 10.0, 10.25)
    assert parts("write", 10.0, 10.25, [own], [LongCommit(9.0, 10.24)]) == {
        "queued": pytest.approx(0.24),
        "rest": pytest.approx(0.01),
    }


def test_without_a_long_request_a_write_is_divided_by_the_commits() -> None:
    """As in a server of the log alone, and where a commit held up the event loop and its clock."""
    assert parts("write", 10.0, 10.5, [], [LongCommit(10.1, 10.4)]) == {
        "queued": pytest.approx(0.1),
        "synced": pytest.approx(0.3),
        "rest": pytest.approx(0.1),
    }
    assert parts("write", 10.0, 10.5, [], []) == {"rest": 0.5}


def test_a_verdict_is_waited_for() -> None:
    found = parts(
        "write",
        10.0,
        11.0,
        [request("write", 10.0, 10.1, waited_s=0.02), request("outcomes", 10.1, 11.0, waited_s=0.9)],
        [LongCommit(10.0, 10.08)],
    )
    assert found == {"synced": pytest.approx(0.08), "waited": pytest.approx(0.92), "rest": pytest.approx(0.0)}


def test_a_read_waits_and_reads() -> None:
    found = parts("read", 10.0, 11.0, [request("read", 10.1, 10.9, waited_s=0.7)], None)
    assert found == {
        "queued": pytest.approx(0.1),
        "waited": pytest.approx(0.7),
        "read": pytest.approx(0.1),
        "rest": pytest.approx(0.1),
    }


def test_a_part_is_no_longer_than_its_call() -> None:
    """Waits are measured by the clock of a loop, in whole milliseconds."""
    found = parts("read", 10.0, 10.0084, [request("read", 10.0, 10.0084, waited_s=0.009)], None)
    assert found == {"waited": pytest.approx(0.0084), "rest": 0.0}


def test_a_wait_is_nothing_else() -> None:
    assert parts("wait", 10.0, 10.5, [request("read", 10.0, 10.5, waited_s=0.1)], None) == {"waited": 0.5}


def test_of_two_reads_each_has_its_own() -> None:
    long, short = request("read", 10.0, 11.0, waited_s=1.0), request("read", 10.5, 11.0, waited_s=0.5)
    assert parts("read", 10.0, 11.0, [long, short], None)["waited"] == 1.0
    assert parts("read", 10.5, 11.0, [long, short], None)["waited"] == 0.5


@pytest.mark.parametrize("kind", ["write", "read"])
def test_what_is_not_known_is_null_and_so_is_no_rest(kind: Literal["write", "read"]) -> None:
    unknown = {"write": {"queued": None, "synced": None}, "read": {"waited": None, "read": None}}[kind]
    assert parts(kind, 10.0, 11.0, [], None) == unknown
    other = request(kind, 10.0, 10.9, place=ELSEWHERE)
    assert parts(kind, 10.0, 11.0, [other], None) == unknown, "another partition's request explains nothing"
    late = request(kind, 10.0, 11.5)
    assert parts(kind, 10.0, 11.0, [late], None) == unknown, "nor does one that ended later"


def test_where_no_other_server_carries_requests_a_short_one_explains_nothing() -> None:
    for kind in READING:
        spent = time_spent(kind, [HERE], 10.0, 11.0, [], [], is_alone=True)
        assert spent.parts == {"rest": 1.0}
    assert time_spent("other", [HERE], 10.0, 11.0, [], [], is_alone=True).parts == {}


def test_a_log_elsewhere_hides_its_parts() -> None:
    found = parts("write", 10.0, 11.0, [request("write", 10.0, 11.0, waited_s=0.3)], None)
    assert found == {"queued": None, "synced": None, "waited": 0.3}


def test_calls_without_a_request_have_no_parts() -> None:
    assert parts("other", 10.0, 11.0, [request("write", 10.0, 11.0)], []) == {}
