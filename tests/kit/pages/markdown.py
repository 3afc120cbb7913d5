"""Code blocks and links of a Markdown page."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

__all__ = ["TOP", "Block", "anchors_of", "blocks_of", "links_of"]

TOP: Final = Path(__file__).resolve().parents[3]
"""The repository."""

_BLOCK = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


class Block(NamedTuple):
    """One fenced block."""

    language: str
    """What follows the fence; empty for a terminal's."""
    text: str
    heading: str
    """The nearest heading above it."""
    line: int
    """Of the block's first line of text, from 1."""

    @property
    def is_terminal(self) -> bool:
        """Whether it shows commands after `$ `."""
        return self.language == "" and self.text.startswith("$ ")


def blocks_of(page: Path) -> list[Block]:
    """Every fenced block of a page, in order."""
    text = page.read_text(encoding="utf-8")
    found = []
    for match in _BLOCK.finditer(text):
        headings = [line for line in text[: match.start()].splitlines() if line.startswith("#")]
        line = text[: match.start(2)].count("\n") + 1
        found.append(Block(match[1], match[2], headings[-1].lstrip("# ") if headings else "", line))
    return found


def links_of(page: Path) -> Iterator[str]:
    """The target of every link, without those inside code blocks."""
    yield from _LINK.findall(_BLOCK.sub("", page.read_text(encoding="utf-8")))


def anchors_of(page: Path) -> set[str]:
    """The fragments that a page's headings make, as the usual Markdown viewers do."""
    text = _BLOCK.sub("", page.read_text(encoding="utf-8"))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in _HEADING.findall(text)}
