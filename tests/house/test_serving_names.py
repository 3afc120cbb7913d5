"""Every name of the serving side's disk is spelled in `serving_tier/names.py`, and nowhere else in the product."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from house.test_tidy import product_files, tree_of

from serving_tier import names

NAMES = "serving_tier/names.py"
PACKAGES = ("serving_tier", "router", "spark_bulk", "duramen")

WHOLE = {
    names.DATA_FILE,
    names.MARKER_FILE,
    names.MANIFEST_FILE,
    names.VERSION_FILE,
    names.NODE_FILE,
    names.NODE_LOCK,
    names.SNAPSHOT_WORK_FOLDER,
    names.POINT_IN_TIME_FOLDER,
}
"""Nobody says one of these and means anything else."""
SUFFIXES = (".incoming", ".replaced", ".rebuild", ".old", ".v")
"""A folder's name ends so, or goes on with a number."""
WORDS = {*names.NODE_FOLDERS, *names.UP_FOLDERS}
"""Common words: they are names where a path is built of them."""

EXEMPT = {
    "spark_bulk/build/partition_build.py",  # `index` below a task's own temporary folder, which Spark removes
    "spark_bulk/repush.py",  # the same
}


def spelled(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Where a name of the disk is spelled out: its line, and the name."""
    documents = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documents:
            if node.value in WHOLE or node.value.endswith(SUFFIXES):
                yield node.lineno, node.value
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
            right = node.right
            if isinstance(right, ast.Constant) and right.value in WORDS:
                yield node.lineno, right.value
        elif isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, ast.Constant):
            target = node.target if isinstance(node, ast.AnnAssign) else node.targets[0]
            if isinstance(target, ast.Name) and target.id.endswith("_FOLDER") and node.value.value in WORDS:
                yield node.lineno, node.value.value


def test_no_name_is_spelled_in_another_file() -> None:
    files = [path for path in product_files() if path.parts[0] in PACKAGES and str(path) != NAMES]
    assert len(files) > 300
    found = {str(path): names for path in files if (names := list(spelled(tree_of(path))))}
    assert set(found) == EXEMPT, f"use `serving_tier.names`, and take off the list what spells none any more: {found}"


@pytest.mark.parametrize(
    "code",
    ['x = path / "index"', 'y = "data.mdb"', 'z = folder.with_name(folder.name + ".incoming")', 'f"{name}.rebuild"'],
)
def test_it_sees_what_is_spelled(code: str) -> None:
    assert list(spelled(ast.parse(code)))


def test_what_is_built_can_be_parsed(tmp_path: Path) -> None:
    folder = tmp_path / "3"
    version = names.version_folder(folder, 12)
    assert (version.name, version.parent) == ("3.v12", tmp_path)
    assert names.is_version_of(version.name, "3")
    others = [names.rebuild_folder, names.old_folder, names.incoming_folder, names.replaced_folder, names.new_file]
    for other in (folder, *(build(folder) for build in others)):
        assert not names.is_version_of(other.name, "3"), other
    assert len({build(folder) for build in others}) == len(others)
    assert not names.is_version_of("3.v12", "13")
