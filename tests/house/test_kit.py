"""The rules of the test kit: one way to wait, one home for a helper that two files need, types that are checked."""

from __future__ import annotations

import ast
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
TESTS = TOP / "tests"
DEADLINES = "tests/kit/deadlines.py"

WAITING = {"until", "until_true", "wait_until", "eventually", "wait_for"}
"""Names of functions that look again until a condition holds: they are in the kit alone."""

FAILING = {"raises", "warns", "fail"}
"""What fails a test by itself, of pytest's own. Waiting for a condition is no assertion: it says when to look, and a
condition that holds from the start, or for another reason, is met as well.
"""

COPIED_LINES_MIN = 3
"""A body of two lines says nothing that could become wrong in one of its copies."""

Helper = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


@cache
def python_files() -> tuple[Path, ...]:
    return tuple(sorted(TESTS.rglob("*.py")))


def _is_fixture(node: Helper) -> bool:
    """Fixtures of one name override each other by folder, and those of one body may differ in scope."""
    return any("fixture" in ast.unparse(each) for each in node.decorator_list)


def helpers() -> Iterator[tuple[str, Helper]]:
    """Module-level functions and classes that are neither tests nor fixtures, with the file of each."""
    for path in python_files():
        for node in tree_of(path).body:
            if isinstance(node, Helper) and not node.name.startswith(("test_", "Test")) and not _is_fixture(node):
                yield str(path.relative_to(TOP)), node


def test_only_the_kit_waits() -> None:
    """Its deadlines grow with the load of the machine; a loop with a deadline of its own fails on a busy one."""
    waiting = [f"{file} {node.name}" for file, node in helpers() if node.name in WAITING and file != DEADLINES]
    assert not waiting, f"import these from kit.deadlines: {waiting}"


def _fixed_timeouts(tree: ast.AST) -> Iterator[int]:
    """The lines with an `asyncio.timeout` of a fixed number of seconds; below one second it is what is tested."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and _name_of(node.func) == "asyncio.timeout":
            for seconds in node.args:
                if (isinstance(seconds, ast.Name) and seconds.id.isupper()) or (
                    isinstance(seconds, ast.Constant) and isinstance(seconds.value, (int, float)) and seconds.value >= 1
                ):
                    yield node.lineno


def _name_of(function: ast.expr) -> str:
    """`a.b.c` of what is called so; of a method of another call the last part alone. Far cheaper than `ast.unparse`."""
    parts: list[str] = []
    while isinstance(function, ast.Attribute):
        parts.append(function.attr)
        function = function.value
    parts.append(function.id if isinstance(function, ast.Name) else "")
    return ".".join(reversed(parts))


def test_a_fixed_timeout_is_found() -> None:
    text = """
asyncio.timeout(5)
asyncio.timeout(DEADLINE_S)
asyncio.timeout(0.5)
asyncio.timeout(patience_s(5))
asyncio.timeout_at(5)
"""
    assert list(_fixed_timeouts(ast.parse(text))) == [2, 3]


def test_deadlines_grow_with_the_load() -> None:
    """`asyncio.timeout` of a fixed number of seconds fails on a busy machine."""
    fixed = [f"{path.relative_to(TOP)}:{line}" for path in python_files() for line in _fixed_timeouts(tree_of(path))]
    assert not fixed, f"use kit.deadlines.within: {fixed}"


def _fixed_deadlines(tree: ast.AST) -> Iterator[int]:
    """The lines in which a process is waited for, a fixed number of seconds."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and _name_of(node.func).startswith(("subprocess.", "process.communicate")):
            for keyword in node.keywords:
                value = keyword.value
                if keyword.arg == "timeout" and (
                    isinstance(value, ast.Constant) or (isinstance(value, ast.Name) and value.id.isupper())
                ):
                    yield node.lineno


def test_a_fixed_deadline_of_a_process_is_found() -> None:
    text = """
subprocess.run(command, timeout=60)
subprocess.run(command, timeout=DEADLINE_S)
subprocess.run(command, timeout=patience_s(60))
process.communicate(timeout=5)
table.get(b"k", timeout=5)
"""
    assert list(_fixed_deadlines(ast.parse(text))) == [2, 3, 5]


def test_a_process_has_longer_on_a_busy_machine() -> None:
    fixed = [f"{path.relative_to(TOP)}:{line}" for path in python_files() for line in _fixed_deadlines(tree_of(path))]
    assert not fixed, f"use kit.deadlines.patience_s: {fixed}"


def test_a_class_has_its_name_alone() -> None:
    places: defaultdict[str, list[str]] = defaultdict(list)
    for file, node in helpers():
        if isinstance(node, ast.ClassDef):
            places[node.name].append(file)
    shared = {name: files for name, files in places.items() if len(files) > 1}
    assert not shared, f"several classes of one name: move one to the kit, or name what is different: {shared}"


def test_no_helper_is_a_copy() -> None:
    places: defaultdict[str, list[str]] = defaultdict(list)
    for file, node in helpers():
        body = node.body[1:] if ast.get_docstring(node) is not None else node.body
        if body and (body[-1].end_lineno or 0) - body[0].lineno + 1 >= COPIED_LINES_MIN:
            places["\n".join(map(ast.dump, body))].append(f"{file} {node.name}")
    copied = [sorted(each) for each in places.values() if len(each) > 1]
    assert not copied, f"the same helper several times: move it to the kit: {copied}"


def _shows_its_assertion(test: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Does the test assert, or call something whose name says that it does?"""
    for node in ast.walk(test):
        if isinstance(node, ast.Assert):
            return True
        if isinstance(node, ast.Call) and isinstance(node.func, (ast.Name, ast.Attribute)):
            name = node.func.id if isinstance(node.func, ast.Name) else node.func.attr
            if name in FAILING or name == "check" or name.startswith("check_"):
                return True
    return False


def test_a_wait_is_no_assertion() -> None:
    text = """
async def test_waits():
    await until(lambda: member.alive)
    await follower.until(lambda: member.alive)
async def test_asserts():
    await until(lambda: member.alive)
    assert member.reason == ""
def test_asks():
    check_reason(member)
def test_refuses():
    with pytest.raises(Disconnected):
        member.ask()
"""
    tests = [each for each in ast.parse(text).body if isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef))]
    assert [each.name for each in tests if not _shows_its_assertion(each)] == ["test_waits"]


def test_a_test_shows_what_it_asserts() -> None:
    """A reader sees it in the test itself, or in the name of the helper: `check_…`."""
    silent = [
        f"{path.relative_to(TOP)}:{node.lineno} {node.name}"
        for path in python_files()
        for node in ast.walk(tree_of(path))
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        and node.name.startswith("test_")
        and not _shows_its_assertion(node)
    ]
    assert not silent, f"assert in the test, or call the helper check_…: {silent}"


def _borrowed(tree: ast.AST) -> Iterator[str]:
    """The test modules that a module imports."""
    for node in ast.walk(tree):
        modules = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        modules += [each.name for each in node.names] if isinstance(node, ast.Import) else []
        yield from (name for name in modules if name.split(".")[0].startswith("test_") or name == "conftest")


def test_an_import_of_a_test_is_found() -> None:
    text = "import test_a.b, kit.test_b\nfrom test_c import d\nfrom conftest import e\nfrom . import test_f\n"
    assert list(_borrowed(ast.parse(text))) == ["test_a.b", "test_c", "conftest"]


def test_nothing_is_imported_from_a_test() -> None:
    """What another file needs is in the kit: a test module's name is found only from its own folder."""
    borrowed = [f"{path.relative_to(TOP)} {name}" for path in python_files() for name in _borrowed(tree_of(path))]
    assert not borrowed, f"imports from tests: {borrowed}"


def test_types_are_checked_everywhere() -> None:
    settings = tomllib.loads((TOP / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["mypy"]
    assert settings["strict"] is True
    with_python = {path.name for path in TOP.iterdir() if not path.name.startswith(".") and any(path.rglob("*.py"))}
    unchecked = with_python - {each.split("/")[0] for each in settings["files"]} - {"build", "dist"}
    assert not unchecked, f"mypy leaves out {sorted(unchecked)}"
