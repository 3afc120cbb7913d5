"""A partition goes through the product as one value: `PartitionId`, and not a table and a number beside each other."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from house.test_tidy import product_files, tree_of

TABLES: Final = {"TableId", "TableRef", "TableEntry", "Topic"}
"""What names a table in a signature."""

ALLOWED: Final = {
    "log_tier/model/tokens.py Token.of": "part of the Python API, whose callers have no PartitionId",
    "router/data/gather/seen_offsets.py SeenOffsets.saw": "a session keeps a list for each table, by number",
    "router/data/gather/seen_offsets.py NoSession.saw": "as above",
    "duramen/client/model/session.py Session.saw": "as above",
}
"""Functions that may take both, and why. An entry that no longer applies fails the suite."""


def _functions(tree: ast.AST, owner: str = "") -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield owner + node.name, node
        named = node.name + "." if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) else ""
        yield from _functions(node, owner + named)


def _types(function: ast.FunctionDef | ast.AsyncFunctionDef) -> set[str]:
    """What its parameters are, alternatives by themselves."""
    arguments = function.args
    parameters = (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)
    said = [ast.unparse(each.annotation) for each in parameters if each.annotation is not None]
    return {one.strip() for each in said for one in each.split("|")}


def takes_both(tree: ast.AST) -> list[str]:
    """The functions that take a table and a partition's number as two arguments."""
    return [
        name for name, function in _functions(tree) if "Partition" in (types := _types(function)) and types & TABLES
    ]


def test_a_partition_is_one_value() -> None:
    found = {f"{path} {name}" for path in product_files() for name in takes_both(tree_of(Path(path)))}
    assert sorted(found) == sorted(ALLOWED)


def test_the_rule_sees_what_it_forbids() -> None:
    code = """
class Log:
    def read(self, table: TableId, partition: Partition) -> None: ...
    def host(self, topic: Topic, partition: PartitionId) -> None: ...
    async def list(self, *, of: TableEntry | None, number: Partition | None = None) -> None: ...
def known(partition: Partition) -> None: ...
"""
    assert takes_both(ast.parse(code)) == ["Log.read", "Log.list"]
