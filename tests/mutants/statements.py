"""The lines whose execution means that a changed expression may have run."""

from __future__ import annotations

import ast
from collections.abc import Sequence

__all__ = ["lines_of_statement"]


def lines_of_statement(source: str, line: int) -> Sequence[int]:
    """The lines of the innermost statement at `line`: all of a simple one, the header of a compound one.

    What runs when a module is imported is reached by no test of its own. For the header of a function, where defaults
    are, these are the function's lines; for a statement of a class, those of the class.
    """
    owner: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef | None = None
    found: ast.stmt | None = None
    block: Sequence[ast.AST] = ast.parse(source).body
    while True:
        inner = next((each for each in block if _covers(each, line)), None)
        if inner is None:
            break
        if isinstance(found, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            owner = found
        if isinstance(inner, ast.stmt):
            found = inner
        block = [each for each in ast.iter_child_nodes(inner) if isinstance(each, _BLOCKS)]
    assert found is not None, f"a mutant at line {line}, where no statement is"
    if isinstance(found, ast.FunctionDef | ast.AsyncFunctionDef) and line < found.body[0].lineno:
        return range(found.body[0].lineno, _end(found) + 1)
    if isinstance(owner, ast.ClassDef):
        return range(owner.body[0].lineno, _end(owner) + 1)
    return range(found.lineno, _header_end(found) + 1)


_BLOCKS = (ast.stmt, ast.excepthandler, ast.match_case)


def _covers(node: ast.AST, line: int) -> bool:
    if isinstance(node, ast.match_case):
        return node.pattern.lineno <= line <= _end(node.body[-1])
    return isinstance(node, ast.stmt | ast.excepthandler) and node.lineno <= line <= (node.end_lineno or node.lineno)


def _end(node: ast.stmt) -> int:
    return node.end_lineno or node.lineno


def _header_end(node: ast.stmt) -> int:
    body: Sequence[ast.stmt] = getattr(node, "body", ())
    cases: Sequence[ast.match_case] = getattr(node, "cases", ())
    if body:
        return max(node.lineno, body[0].lineno - 1)
    if cases:
        return max(node.lineno, cases[0].pattern.lineno - 1)
    return _end(node)
