"""A close of several steps does all of them, also where one fails or its caller is cancelled."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = ("log_tier", "serving_tier", "router", "duramen", "spark_bulk")
CLOSES = ("close", "aclose", "stop", "_close")
CARRIED_THROUGH = {
    "serving_tier/replica/applier.py: Applier.stop": "Node.close awaits it by to_the_end",
    "serving_tier/replica/replica.py: Replica._close": "Replica.close awaits it by to_the_end",
    "serving_tier/replica/standby.py: StandbyVersions.close": "Replica.close awaits it by to_the_end",
    "serving_tier/node/node.py: Node._close": "Node.close awaits it by to_the_end",
    "serving_tier/text/node_texts.py: NodeTexts._close": "NodeTexts.close awaits it by to_the_end",
    "serving_tier/text/text_follower.py: TextFollower.close": "ReplicaTexts has a task for it, which nobody cancels",
    "log_tier/kafka/reading/fetcher.py: Fetcher.close": "every consumer is closed before the first one is awaited",
    "duramen/client/transport/deferred.py: DeferredConnection.close": "the attempt that is awaited has been cancelled",
    "duramen/server/wiring/audit_writer.py: AuditWriter.close": "what is behind the wait needs its caller's time",
    "duramen/verification/cluster.py: StartedCluster.close": "its reader ends with the process",
}
"""Closes that no caller can cancel in the middle, or of which nothing is left to do then."""


def _skippable(function: ast.AsyncFunctionDef) -> bool:
    """Does a statement follow one that waits and that no `finally` guards?"""
    return any(_skips(body) for body in _bodies(function))


def _bodies(node: ast.AST) -> Iterator[list[ast.stmt]]:
    """The blocks of a function that no `finally` guards, in a `try` the last one alone."""
    if isinstance(node, (ast.For, ast.AsyncFor, ast.While)):
        yield [*node.body, *node.body]  # its next turn follows
    elif isinstance(node, ast.Try) and node.finalbody:
        yield node.finalbody
    elif isinstance(node, (ast.AsyncFunctionDef, ast.If, ast.Try, ast.With, ast.AsyncWith)):
        yield node.body
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.stmt, ast.ExceptHandler)) and not isinstance(child, (ast.FunctionDef, ast.ClassDef)):
            yield from _bodies(child)


def _skips(body: list[ast.stmt]) -> bool:
    return any(_waits(each) and not isinstance(following, ast.Return) for each, following in pairwise(body))


def _waits(statement: ast.stmt) -> bool:
    guarded = isinstance(statement, ast.Try) and statement.finalbody
    ends = isinstance(statement, ast.If) and isinstance(statement.body[-1], ast.Return)
    return not guarded and not ends and any(isinstance(each, ast.Await) for each in ast.walk(statement))


def _found(source: str, path: str) -> list[str]:
    return [
        f"{path}: {kind.name}.{each.name}"
        for kind in ast.walk(ast.parse(source))
        if isinstance(kind, ast.ClassDef)
        for each in kind.body
        if isinstance(each, ast.AsyncFunctionDef) and each.name in CLOSES and _skippable(each)
    ]


def test_no_step_of_a_close_is_skipped() -> None:
    found = {
        name
        for package in PACKAGES
        for path in sorted((ROOT / package).rglob("*.py"))
        if "testing" not in path.parts  # a simulated process ends with its loop
        for name in _found(path.read_text(), str(path.relative_to(ROOT)))
    }
    assert found - CARRIED_THROUGH.keys() == set(), "use every_step or to_the_end (log_tier/concurrency/tasks.py)"
    assert CARRIED_THROUGH.keys() - found == set(), "these need no reason any more"


def test_the_rule_sees_a_step_that_is_skipped() -> None:
    def named(body: str) -> list[str]:
        lines = "".join(f"        {line}\n" for line in body.splitlines())
        return _found(f"class A:\n    async def close(self):\n{lines}", "a.py")

    assert named("await self.one.close()\nawait self.other.close()") == ["a.py: A.close"]
    assert named("await self.one.close()\nself.other.close()") == ["a.py: A.close"]
    assert named("for each in self.all:\n    await each.close()") == ["a.py: A.close"]
    assert named("try:\n    pass\nfinally:\n    await self.one()\n    self.other()") == ["a.py: A.close"]
    assert named("self.one.close()\nawait self.other.close()") == []
    assert named("try:\n    await self.one.close()\nfinally:\n    self.other.close()") == []
    assert named("await every_step(self.one.close, self.other.close)") == []
