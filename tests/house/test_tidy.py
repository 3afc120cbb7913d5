"""The house rules that a reader relies on, kept by the suite: sizes, reading orders, import cycles, subpackages."""

from __future__ import annotations

import ast
import os
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[2]
PACKAGES = ("log_tier", "serving_tier", "router", "spark_bulk", "duramen")
BESIDES = ("tests", "bench", "examples")
"""Folders of code that is no product. Their files are short as well."""

FILE_LINES_MAX = 400
"""A longer file hides two nouns."""
FUNCTION_LINES_MAX = 60
"""A longer function does not fit on a screen. Counted is its body without its docstring: a command's signature is the
table of its options, with the help of each."""
LOOSE_FILES_MAX = 15
"""A folder with more modules has subpackages that nobody has named yet."""

Module = str

# What is still to be mended. An entry that no longer applies fails the suite, so the lists only get shorter.
LONG_FILES: set[str] = set()
LONG_FUNCTIONS: set[str] = set()
FULL_FOLDERS: set[str] = set()
CIRCLES: set[Module] = set()
"""Packages whose modules still import each other in a circle."""
WITHOUT_ROWS = (
    "its signatures name types of rows, whose modules are a third of all that a client would import; a client of "
    "bytes, as most commands of the command line are, must not import them"
)
TYPE_CHECKING_ALLOWED = {
    "duramen/aio.py": WITHOUT_ROWS,
    "duramen/blocking/__init__.py": WITHOUT_ROWS,
    "duramen/blocking/database.py": WITHOUT_ROWS,
    "duramen/cli/data/table_text.py": WITHOUT_ROWS,
    "duramen/client/database.py": WITHOUT_ROWS,
    "duramen/client/lookup.py": WITHOUT_ROWS,
    "log_tier/rows/finding/found_range.py": WITHOUT_ROWS,
    "router/data/seam.py": WITHOUT_ROWS,
    "router/remote/grpc_connection.py": WITHOUT_ROWS,
    "duramen/__init__.py": "`connect` and `open` return a `Database`; importing `duramen` must not import the client "
    "and asyncio with it, and a type checker takes no other word for a name that a module does not have when it runs",
    "duramen/pytest_plugin.py": "every run of pytest imports it where Duramen is installed, and must not import the "
    "kit and gRPC with it; its fixtures return types of the kit",
}
"""Files with imports that exist for type checkers only, each with its reason. Everywhere else a module imports what it
names: a function that must not cost its imports at the start is in a module that is imported when it is called."""

SHARED_NAMES: dict[str, str] = {
    "AnyTable": "the blocking and the async client are one interface",
    "AtomicBatch": "the blocking and the async client are one interface",
    "Database": "the blocking and the async client are one interface",
    "Table": "the blocking and the async client are one interface, and a command's argument is named after its metavar",
    "AtomicRows": "the blocking and the async client are one interface",
    "RowTable": "the blocking and the async client are one interface",
    "RowWriter": "the blocking and the async client are one interface",
    "TableWriter": "the blocking and the async client are one interface",
    "TypedTable": "the blocking and the async client are one interface",
    "Level": "a client's consistency level, and the command line's option that takes one",
}
"""Public types that have one name in several modules, each with its reason."""


def _is_generated(path: Path) -> bool:
    return "_pb2" in path.name


@cache
def product_files() -> tuple[Path, ...]:
    """All hand-written modules of the product, relative to the repository."""
    found = (path for package in PACKAGES for path in (TOP / package).rglob("*.py"))
    return tuple(sorted(path.relative_to(TOP) for path in found if not _is_generated(path)))


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse((TOP / path).read_text(encoding="utf-8"), str(path))


def module_of(path: Path) -> Module:
    parts = path.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def modules() -> dict[Module, Path]:
    return {module_of(path): path for path in product_files()}


def imports_of(path: Path) -> Iterator[Module]:
    """Every product module that a file imports, wherever the import is, TYPE_CHECKING included."""
    known = modules()
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                if whole in known:
                    yield whole
                elif node.module in known:
                    yield node.module


def circles(graph: dict[Module, set[Module]]) -> list[list[Module]]:
    """Strongly connected components of more than one node (Tarjan, 1972). O(nodes + arrows)."""
    numbers: dict[Module, int] = {}
    lowest: dict[Module, int] = {}
    stack: list[Module] = []
    found: list[list[Module]] = []

    def visit(node: Module) -> None:
        numbers[node] = lowest[node] = len(numbers)
        stack.append(node)
        for target in graph.get(node, ()):
            if target not in numbers:
                visit(target)
                lowest[node] = min(lowest[node], lowest[target])
            elif target in stack:
                lowest[node] = min(lowest[node], numbers[target])
        if lowest[node] == numbers[node]:
            circle = []
            while True:
                circle.append(stack.pop())
                if circle[-1] == node:
                    break
            if len(circle) > 1:
                found.append(sorted(circle))

    for node in sorted(graph):
        if node not in numbers:
            visit(node)
    return found


@cache
def all_files() -> tuple[Path, ...]:
    """The product's modules, and those of the tests, the benchmark and the examples."""
    found = (path.relative_to(TOP) for folder in BESIDES for path in (TOP / folder).rglob("*.py"))
    return (*product_files(), *sorted(found))


def test_files_are_short() -> None:
    long = {
        str(path): lines
        for path in all_files()
        if (lines := len((TOP / path).read_text(encoding="utf-8").splitlines())) > FILE_LINES_MAX
    }
    assert set(long) == LONG_FILES, f"files of more than {FILE_LINES_MAX} lines hide two nouns: {long}"


def test_no_two_test_modules_share_a_name() -> None:
    names = Counter(path.name for path in (TOP / "tests").rglob("test_*.py"))
    shared = sorted(name for name, count in names.items() if count > 1)
    assert not shared, f"pytest collects one module of each name, tests are in no packages: {shared}"


def _body_lines(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    body = node.body[1:] if ast.get_docstring(node) is not None else node.body
    return (node.end_lineno or 0) - body[0].lineno + 1 if body else 0


def test_functions_fit_on_a_screen() -> None:
    long = {
        f"{path} {node.name}": lines
        for path in product_files()
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (lines := _body_lines(node)) > FUNCTION_LINES_MAX
    }
    assert set(long) == LONG_FUNCTIONS, f"functions of more than {FUNCTION_LINES_MAX} lines: {long}"


def test_an_assertion_says_what_it_asserts() -> None:
    silent = [
        f"{path}:{node.lineno}"
        for path in product_files()
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Assert) and node.msg is None
    ]
    assert not silent, f"an assertion that fails in production is read without its code: {silent}"


def test_users_of_every_package_get_its_types() -> None:
    assert [package for package in PACKAGES if not (TOP / package / "py.typed").exists()] == []


def test_no_folder_overflows() -> None:
    loose = Counter(path.parent for path in product_files() if path.name != "__init__.py")
    full = {str(folder): count for folder, count in loose.items() if count > LOOSE_FILES_MAX}
    assert set(full) == FULL_FOLDERS, f"more than {LOOSE_FILES_MAX} modules in one folder: {full}"


def types_of(tree: ast.Module) -> Iterator[str]:
    """The public types that a module defines: its classes and its aliases, named LikeThis."""
    for node in tree.body:
        match node:
            case ast.ClassDef(name=name):
                defined = [name]
            case ast.Assign(targets=targets):
                defined = [target.id for target in targets if isinstance(target, ast.Name)]
            case ast.AnnAssign(target=ast.Name(id=name)):
                defined = [name]
            case _:
                defined = []
        yield from (name for name in defined if re.match(r"[A-Z]\w*[a-z]", name))


def test_a_type_is_found() -> None:
    text = "class Job: ...\nStep = int | str\nWord: TypeAlias = bytes\nLIMIT = 3\n_Own = int\nT = TypeVar('T')"
    assert list(types_of(ast.parse(text))) == ["Job", "Step", "Word"]


def test_one_name_is_one_type() -> None:
    """Two types of one name are one thing defined twice, or two things of which one has a better name."""
    places: dict[str, list[str]] = {}
    for path in product_files():
        for name in types_of(tree_of(path)):
            places.setdefault(name, []).append(str(path))
    shared = {name: paths for name, paths in places.items() if len(paths) > 1}
    assert set(shared) == set(SHARED_NAMES), f"types of one name: {shared}"


def _packages(found: list[list[Module]]) -> set[Module]:
    """The innermost package that holds a whole circle, for each circle."""
    return {os.path.commonpath([each.replace(".", "/") for each in circle]).replace("/", ".") for circle in found}


def test_no_module_is_in_a_circle() -> None:
    graph = {module: set(imports_of(path)) - {module} for module, path in modules().items()}
    found = circles(graph)
    assert _packages(found) == CIRCLES, "modules that import each other, TYPE_CHECKING included:\n" + "\n".join(
        map(", ".join, found)
    )


def names_type_checking(tree: ast.Module) -> bool:
    """Is there a branch for type checkers: `if TYPE_CHECKING`, under whatever name it was imported?"""
    return any(
        (isinstance(node, ast.alias | ast.Attribute) and "TYPE_CHECKING" in ast.unparse(node))
        or (isinstance(node, ast.Name) and node.id == "TYPE_CHECKING")
        for node in ast.walk(tree)
    )


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("from typing import TYPE_CHECKING", True),
        ("from typing import TYPE_CHECKING as checked", True),
        ("import typing\nif typing.TYPE_CHECKING: import os", True),
        ("TYPE_CHECKING = False\nif TYPE_CHECKING: import os", True),
        ("from typing import Final", False),
    ],
)
def test_a_branch_for_type_checkers_is_found(source: str, found: bool) -> None:
    assert names_type_checking(ast.parse(source)) is found


def test_imports_are_those_of_the_running_program() -> None:
    found = {str(path) for path in product_files() if names_type_checking(tree_of(path))}
    assert found == set(TYPE_CHECKING_ALLOWED), "imports under TYPE_CHECKING: " + ", ".join(sorted(found))


def test_no_package_is_in_a_circle() -> None:
    """Subpackages import each other without a cycle. The top packages (`duramen`, `spark_bulk`) may import what lies
    below them.
    """
    graph: dict[Module, set[Module]] = {}
    for path in modules().values():
        package = module_of(path.parent / "__init__.py")
        for target in imports_of(path):
            other = module_of(modules()[target].parent / "__init__.py")
            if other != package and package not in PACKAGES and other not in PACKAGES:
                graph.setdefault(package, set()).add(other)
    found = circles(graph)
    assert _packages(found) == CIRCLES, "packages that import each other:\n" + "\n".join(map(", ".join, found))


def packages() -> list[Path]:
    """The `__init__.py` of every package but those of generated code, whose protos are their documentation."""
    return [path for path in product_files() if path.name == "__init__.py" and path.parent.name != "proto"]


def _unnamed(path: Path) -> Iterator[str]:
    """What is in a package's folder and not in its docstring."""
    essay = ast.get_docstring(tree_of(path)) or ""
    for child in sorted((TOP / path.parent).iterdir()):
        if child.suffix == ".py" and child.name not in ("__init__.py", "__main__.py") and not _is_generated(child):
            if not re.search(rf"`(?:[\w/]*/)?{re.escape(child.name)}`", essay):
                yield f"{path} does not name {child.name}"
        elif (child / "__init__.py").exists() and child.name != "proto" and not re.search(rf"`{child.name}/", essay):
            yield f"{path} does not name {child.name}/"


def test_an_essay_names_the_modules_of_its_package() -> None:
    """Every module and every subpackage of a package is named in the package's docstring, and nothing that is not
    there (`test_prose_names_files_that_exist`).
    """
    assert [each for path in packages() for each in _unnamed(path)] == []


def pointing_docstrings(tree: ast.Module) -> list[str]:
    """Functions and classes whose whole docstring says that another one has the answer."""
    return [
        node.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        if re.fullmatch(r"See `[\w.]+`\.", ast.get_docstring(node) or "")
    ]


def test_a_docstring_says_something() -> None:
    """An implementation of a Protocol has the Protocol's docstring, and none that points at it."""
    assert pointing_docstrings(ast.parse("class A:\n    def f(self):\n        'See `B`.'\n")) == ["f"]
    found = [f"{path} {name}" for path in product_files() for name in pointing_docstrings(tree_of(path))]
    assert not found, f"say it, or leave the docstring out: {found}"


def _stale_names(path: Path) -> Iterator[str]:
    """The files that a module's docstrings name in backquotes and that are neither next to it nor at that path in the
    repository.
    """
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            for name in re.findall(r"`([\w/]+\.py)`", ast.get_docstring(node) or ""):
                if not (TOP / path.parent / name).exists() and not (TOP / name).exists():
                    yield f"{path} names {name}"


def test_prose_names_files_that_exist() -> None:
    assert len(product_files()) > 400
    assert [each for path in product_files() for each in _stale_names(path)] == []
