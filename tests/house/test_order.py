"""What has ended is taken in the order in which it was begun, so that one seed is one run.

`asyncio.wait` returns sets, whose order is that of addresses: another one in each process.
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
