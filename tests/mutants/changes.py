"""Which changes there are of a source file, and the file with one of them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

__all__ = ["Mutant", "mutants_of"]

_COMPARISONS: Final[dict[type[ast.cmpop], str]] = {
    ast.Lt: "<=",
    ast.LtE: "<",
    ast.Gt: ">=",
    ast.GtE: ">",
    ast.Eq: "!=",
    ast.NotEq: "==",
    ast.Is: "is not",
    ast.IsNot: "is",
    ast.In: "not in",
    ast.NotIn: "in",
}
_OPERATORS: Final[dict[type[ast.operator], str]] = {ast.Add: "-", ast.Sub: "+", ast.Mult: "+", ast.FloorDiv: "*"}
_UNSEEN: Final = ("_logger", "logger", "logging", "warnings")
"""Calls of these say something to people."""


class Mutant(NamedTuple):
    """One change."""

    path: Path
    line: int
    start: int
    end: int
    """Where in the file's bytes the text is that is replaced."""
    before: str
    after: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.change}"

    @property
    def change(self) -> str:
        """What becomes of what, without its place."""
        return f"{' '.join(self.before.split())} -> {' '.join(self.after.split())}"

    def changed(self, source: str) -> str:
        """The file with the change."""
        data = source.encode()
        return (data[: self.start] + self.after.encode() + data[self.end :]).decode()


def mutants_of(root: Path, path: Path) -> Iterator[Mutant]:
    """The mutants of one file, in its order. Messages, annotations, assertions and constants are left alone."""
    text = (root / path).read_text()
    lines = [0]
    for line in text.encode().split(b"\n"):
        lines.append(lines[-1] + len(line) + 1)

    def place(node: ast.expr | ast.stmt) -> tuple[int, int]:
        return lines[node.lineno - 1] + node.col_offset, lines[(node.end_lineno or 1) - 1] + (node.end_col_offset or 0)

    def changed(node: ast.expr | ast.stmt, after: str) -> Mutant:
        start, end = place(node)
        return Mutant(path, node.lineno, start, end, text.encode()[start:end].decode(), after)

    def source(node: ast.AST) -> str:
        return ast.unparse(node)

    def walk(node: ast.AST) -> Iterator[Mutant]:
        if isinstance(node, ast.Assert | ast.Raise | ast.AnnAssign | ast.JoinedStr | ast.Import | ast.ImportFrom):
            return
        if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in _COMPARISONS:
            turned = _COMPARISONS[type(node.ops[0])]
            yield changed(node, f"({source(node.left)} {turned} {source(node.comparators[0])})")
        elif isinstance(node, ast.BoolOp):
            other = " or " if isinstance(node.op, ast.And) else " and "
            yield changed(node, f"({other.join(f'({source(each)})' for each in node.values)})")
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            yield changed(node, f"bool({source(node.operand)})")
        elif isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS and not _is_text(node):
            yield changed(node, f"({source(node.left)} {_OPERATORS[type(node.op)]} {source(node.right)})")
        elif isinstance(node, ast.Constant) and type(node.value) is int:
            yield changed(node, str(node.value + 1))
        elif isinstance(node, ast.Constant) and type(node.value) is bool:
            yield changed(node, str(not node.value))
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("min", "max"):
            yield changed(node.func, "min" if node.func.id == "max" else "max")
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            if _is_seen(node.value):
                yield changed(node, "pass")
            else:
                return
        elif isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add | ast.Sub):
            sign = "-=" if isinstance(node.op, ast.Add) else "+="
            yield changed(node, f"{source(node.target)} {sign} {source(node.value)}")
        for field, value in ast.iter_fields(node):
            if field in ("annotation", "returns", "decorator_list", "type_params"):
                continue
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST):
                    yield from walk(child)

    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield from walk(node)


def _is_text(node: ast.BinOp) -> bool:
    return any(isinstance(each, ast.JoinedStr) for each in (node.left, node.right))


def _is_seen(call: ast.Call) -> bool:
    root: ast.expr = call.func
    while isinstance(root, ast.Attribute):
        root = root.value
    return not (isinstance(root, ast.Name) and root.id in _UNSEEN)
