"""A reply refuses a part where a problem is anywhere in it."""

from __future__ import annotations

from duramen.testing.machine.simulated_grpc import refuses_part
from log_tier.proto import log_pb2, problem_pb2
from router.proto import keyvalue_pb2

PROBLEM = problem_pb2.Problem(code="log_stopped")


def test_what_is_answered_as_a_whole() -> None:
    assert not refuses_part(keyvalue_pb2.WriteReply())
    assert not refuses_part(keyvalue_pb2.WriteReply(results=[keyvalue_pb2.WriteResult(base_offset=7)]))
    assert not refuses_part(log_pb2.AppendManyReply())


def test_one_problem_among_many_results() -> None:
    results = [keyvalue_pb2.WriteResult(base_offset=7), keyvalue_pb2.WriteResult(problem=PROBLEM)]
    assert refuses_part(keyvalue_pb2.WriteReply(results=results))
    assert refuses_part(PROBLEM)
