"""The table "Other versions" of `docs/FORMATS.md`, row by row: how each document is read that another version wrote."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path
from typing import Final

import pytest
from kit.storage.versioned_documents import documents

from log_tier.model.errors import DuramenError

ROOT: Final = Path(__file__).resolve().parents[2]
PAGE: Final = ROOT / "docs" / "FORMATS.md"


def rows() -> dict[str, list[str]]:
    """The table's cells, by the first column."""
    section = PAGE.read_text(encoding="utf-8").split("## Other versions")[1].split("\n## ")[0]
    lines = [line.strip("| ").split(" | ") for line in section.splitlines() if line.startswith("|")]
    return {name: [cell.strip() for cell in cells] for name, *cells in lines[2:]}


ROWS: Final = rows()


def outcome(name: str, data: bytes | None, folder: Path) -> str:
    """What the reader makes of `data`, in the words of the table."""
    if data is None:
        return "–"
    document = documents()[name]
    good = document.read(document.good, folder / "good")
    assert good != "nothing"
    try:
        found = document.read(data, folder / "other")
    except DuramenError as error:
        return f"`{type(error).__name__}`"
    return "passed over" if found == "nothing" else "ignored" if found == good else "read"


def test_the_table_has_every_document() -> None:
    assert list(ROWS) == list(documents())


@pytest.mark.parametrize("name", ROWS)
def test_a_field_that_is_not_known(name: str, tmp_path: Path) -> None:
    assert outcome(name, documents()[name].unknown, tmp_path) == ROWS[name][0]


@pytest.mark.parametrize("name", ROWS)
def test_a_newer_format_version(name: str, tmp_path: Path) -> None:
    assert outcome(name, documents()[name].newer, tmp_path) == ROWS[name][1]


@pytest.mark.parametrize("name", ROWS)
def test_a_field_that_is_missing(name: str, tmp_path: Path) -> None:
    document = documents()[name]
    cell, _, optional = ROWS[name][2].partition("; default: ")
    if document.without is None:
        assert cell == "–"
        return
    assert outcome(name, document.without(document.required), tmp_path / "required") == cell
    for each in re.findall(r"`([a-z_]+)`", optional):
        assert outcome(name, document.without(each), tmp_path / each) in ("ignored", "read"), each


@pytest.mark.parametrize("name", ROWS)
def test_damage(name: str, tmp_path: Path) -> None:
    assert outcome(name, documents()[name].damaged, tmp_path) == ROWS[name][3]


# Numbers that are called a version and are no format of something that another process reads later.
NO_FORMATS: Final = {
    "log_tier/kafka/records/header.py": {"HAS_VERSION"},
    "log_tier/model/batch_header.py": {"_UNPLACED_VERSION"},  # the earlier version that is read
    "serving_tier/index/lmdb/pages.py": {"_VERSION"},  # LMDB's own
    "serving_tier/text/text_layer.py": {"_FORMAT_VERSION"},  # an index with another one is built again
    "router/endpoints/resp/data/freshness_page.py": {"PAGE_VERSION"},  # of a server and its own reader processes
}


def formats() -> tuple[set[str], set[str]]:
    """The modules that have a format version, and the names of the kinds of documents."""
    modules: set[str] = set()
    kinds: set[str] = set()
    for package in ("log_tier", "serving_tier", "router", "spark_bulk", "duramen"):
        for path in (ROOT / package).rglob("*.py"):
            module = str(path.relative_to(ROOT))
            if re.search(r"SealedKind\(|VERSION|KIND|FORMAT", text := path.read_text(encoding="utf-8")) is None:
                continue
            tree = ast.parse(text)
            calls = (each.func for each in ast.walk(tree) if isinstance(each, ast.Call))
            if any(isinstance(called, ast.Name) and called.id == "SealedKind" for called in calls):
                modules.add(module)
            for each in tree.body:
                if not isinstance(each, (ast.Assign, ast.AnnAssign)) or not isinstance(each.value, ast.Constant):
                    continue
                target = each.targets[0] if isinstance(each, ast.Assign) else each.target
                name = target.id if isinstance(target, ast.Name) else ""
                if re.fullmatch(r"_?([A-Z]+_)*VERSION", name) and type(each.value.value) is int:
                    modules |= {module} if name not in NO_FORMATS.get(module, ()) else set()
                if re.fullmatch(r"_?([A-Z]+_)*(KIND|FORMAT)", name) and str(each.value.value).startswith("duramen"):
                    kinds.add(str(each.value.value))
    return modules, kinds


def test_a_document_that_is_not_in_the_table_is_found() -> None:
    modules, kinds = formats()
    assert modules == {document.module for document in documents().values()} - {""}
    goods = [document.good for document in documents().values()]
    assert kinds == {kind for kind in kinds if any(f'"format": "{kind}"'.encode() in good for good in goods)}


# Each document as the first Duramen with this table wrote it. Lines are added for new format versions, none is changed:
# what was written once is read for ever.
WRITTEN: Final = ROOT / "tests" / "docs" / "fixtures" / "documents-1.json"


@pytest.mark.parametrize("name", ROWS)
def test_what_was_written_once_is_read(name: str, tmp_path: Path) -> None:
    written = bytes.fromhex(json.loads(WRITTEN.read_text())[name])
    assert documents()[name].read(written, tmp_path) not in ("nothing", None)
