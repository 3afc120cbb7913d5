"""Nothing is done in the order of a set, so that one seed is one run.

The order of a set is that of hashes and addresses: another one in each process. `asyncio.wait` returns sets, too.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("duramen", "log_tier", "router", "serving_tier", "spark_bulk")


def sets_taken(tree: ast.AST) -> Iterator[int]:
    """The lines at which what `asyncio.wait` returns is used."""
    bare = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Await) or id(node) in bare or not isinstance(node.value, ast.Call):
            continue
        if ast.unparse(node.value.func) == "asyncio.wait":
            yield node.lineno


def is_set(node: ast.AST) -> bool:
    """Is an expression a set, by its form alone?"""
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Sub, ast.BitOr, ast.BitAnd, ast.BitXor)):
        return any(is_set(side) or is_keys(side) for side in (node.left, node.right))
    made = isinstance(node, ast.Call) and ast.unparse(node.func) in ("set", "frozenset")
    return made or isinstance(node, (ast.Set, ast.SetComp))


def is_keys(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "keys"


def sets_gone_through(tree: ast.AST) -> Iterator[int]:
    """The lines of loops over a set that is made there."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.For, ast.AsyncFor)) and is_set(node.iter):
            yield node.lineno


def test_no_loop_goes_through_a_set() -> None:
    found = {
        f"{path.relative_to(ROOT)}:{line}"
        for package in (*PACKAGES, "tests/simulation")
        for path in (ROOT / package).rglob("*.py")
        for line in sets_gone_through(ast.parse(path.read_text()))
    }
    assert not found, f"sort it, or go through what it was made of: {sorted(found)}"


def test_what_goes_through_a_set() -> None:
    source = """
for each in {one, *others}: each.close()
for each in ours.keys() - theirs: each.close()
for each in set(ours): each.close()
for each in sorted(set(ours)): each.close()
for each in ours.keys(): each.close()
for each in ours - 1: each.close()
"""
    assert list(sets_gone_through(ast.parse(source))) == [2, 3, 4]


def test_what_has_ended_is_taken_in_order() -> None:
    found = {
        f"{path.relative_to(ROOT)}:{line}"
        for package in PACKAGES
        for path in (ROOT / package).rglob("*.py")
        for line in sets_taken(ast.parse(path.read_text()))
    }
    assert not found, f"go through what was begun, and ask each whether it is done: {sorted(found)}"


def test_what_takes_a_set() -> None:
    source = """
async def some(tasks):
    await asyncio.wait(tasks)
    done, left = await asyncio.wait(tasks)
    for each in (await asyncio.wait(tasks))[0]:
        each.result()
"""
    assert list(sets_taken(ast.parse(source))) == [4, 5]
