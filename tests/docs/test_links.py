"""Every page names what exists: links, their fragments, files in backquotes, and every page is in the index."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from kit.pages.markdown import TOP, anchors_of, blocks_of, links_of

DOCS = TOP / "docs"

PAGES = sorted(
    path
    for pattern in ("*.md", "docs/*.md", "docs/decisions/*.md", "deploy/**/*.md", "bench/*.md")
    for path in TOP.glob(pattern)
)
PACKAGES = ("log_tier", "serving_tier", "router", "spark_bulk", "duramen", "tests", "deploy", "bench", "examples")


def name_of(path: Path) -> str:
    return str(path.relative_to(TOP))


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    for link in links_of(page):
        if re.match(r"[a-z]+:", link):
            continue
        file, _, anchor = link.partition("#")
        target = (page.parent / file).resolve() if file else page
        assert target.exists(), f"{name_of(page)} links to {link}, which is not there"
        if anchor and target.suffix == ".md":
            assert anchor in numbered(target), f"{name_of(page)} links to {link}: that page has no such heading"


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_a_link_that_is_called_by_a_file_leads_to_that_file(page: Path) -> None:
    """A file that was renamed keeps its old name in no link."""
    for said, target in re.findall(r"\[(\w+\.(?:py|md))\]\(([^)#]+)", page.read_text(encoding="utf-8")):
        assert said == Path(target).name, f"{name_of(page)} calls {target} {said}"


def numbered(page: Path) -> set[str]:
    """A page's anchors; the second of one name ends with -1."""
    return anchors_of(page) | {f"{anchor}-1" for anchor in anchors_of(page)}


@pytest.mark.parametrize("page", [page for page in PAGES if page.name != "CHANGELOG.md"], ids=name_of)
def test_files_that_a_page_names_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for block in blocks_of(page):
        text = text.replace(block.text, "")
    for name in re.findall(rf"`((?:{'|'.join(PACKAGES)})/[\w./-]*)`", text):
        assert (TOP / name).exists(), f"{name_of(page)} names `{name}`, which is not there"


def test_the_index_has_every_page() -> None:
    indexed = {(DOCS / link.partition("#")[0]).resolve() for link in links_of(DOCS / "README.md")}
    missing = [path.name for path in DOCS.glob("*.md") if path.name != "README.md" and path not in indexed]
    assert not missing, f"docs/README.md does not name {missing}"


def test_the_list_of_decisions_is_complete() -> None:
    folder = DOCS / "decisions"
    listed = [link for link in links_of(folder / "README.md") if link.startswith("0")]
    assert listed == sorted(path.name for path in folder.glob("0*.md"))
