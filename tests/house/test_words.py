"""Words that mean nothing to a reader from another project name neither files nor identifiers; the glossary has better.

Prose of the product and the documentation has none of those that English does not need. The others may be used where
they are plain English.
"""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
PACKAGES = ("log_tier", "serving_tier", "router", "duramen", "spark_bulk")
FOLDERS = (
    *PACKAGES,
    "tests",
    "bench",
    "examples",
    "scripts",
    "docs",
)

INSTEAD = {
    "beside": "standby, next to",
    "careful": "fallback",
    "door": "endpoint",
    "doors": "endpoints",
    "fleet": "membership",
    "front": "LocalData",
    "lane": "consumer, connection",
    "lanes": "consumers, connections",
    "moment": "offset, pinned read, transient",
    "moments": "offsets, pinned reads",
    "news": "change, event",
    "outbox": "send queue, reply queue",
    "rooms": "packages",
    "standing": "status, identity",
    "standings": "statuses",
    "talk": "connection commands",
    "told": "reported, notified, answered",
    "twin": "proxy, second copy",
    "whoever": "the name of who does it",
}
"""What this house once said, and what the field says."""

NEEDLESS = {"beside", "door", "doors", "fleet", "lane", "lanes", "outbox", "told", "twin", "whoever"}
"""Words that prose does not use either: a docstring, a comment, a message, a page."""

PLAIN: set[tuple[str, str]] = set()
"""File and name in which a word is plain English."""


@cache
def words_of(name: str) -> list[str]:
    """`_newLane_s` has the words new, lane, s."""
    parts = re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)
    return [part.lower() for part in parts]


def has_a_house_word(name: str) -> bool:
    return not INSTEAD.keys().isdisjoint(words_of(name))


def identifiers(text: str) -> Iterator[tuple[int, str]]:
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.NAME:
            yield token.start[0], token.string


def house_words(path: Path, text: str) -> Iterator[str]:
    """Every use of a word in the path or in an identifier of one module, with what to say instead."""
    for word in words_of(str(path)):
        if word in INSTEAD:
            yield f"{path}: {word} ({INSTEAD[word]})"
    # What looks like a name may be prose; only a file that has one of these words is taken apart, which takes long.
    if path.suffix == ".py" and any(map(has_a_house_word, set(re.findall(r"[^\W\d]\w*", text)))):
        for line, name in identifiers(text):
            for word in words_of(name):
                if word in INSTEAD and (str(path), name) not in PLAIN:
                    yield f"{path}:{line}: {name} has the word {word} ({INSTEAD[word]})"


def test_a_word_is_found_in_every_kind_of_name() -> None:
    text = "class ShortLane: ...\nMOMENTS_MAX = 1\n_told_s = 'a lane, a door'\nplane = misfortune = doorway = 0\n"
    found = list(house_words(Path("tests/test_front.py"), text))
    assert [each.split(" (")[0] for each in found] == [
        "tests/test_front.py: front",
        "tests/test_front.py:1: ShortLane has the word lane",
        "tests/test_front.py:2: MOMENTS_MAX has the word moments",
        "tests/test_front.py:3: _told_s has the word told",
    ]


def prose_words(path: Path, text: str) -> Iterator[str]:
    """Every line of a file with a word that prose does not need."""
    for number, line in enumerate(text.splitlines(), start=1):
        for word in sorted(NEEDLESS & set(re.findall(r"[a-z]+", line.lower()))):
            yield f"{path}:{number}: {word} ({INSTEAD[word]})"


def test_a_word_is_found_in_prose() -> None:
    text = '"""Whoever is told."""\nx = 1  # beside it\nraise Error("the Door is shut")\n# a doorway\n'
    assert [each.split(" (")[0] for each in prose_words(Path("a.py"), text)] == [
        "a.py:1: told",
        "a.py:1: whoever",
        "a.py:2: beside",
        "a.py:3: door",
    ]


def test_prose_is_in_the_fields_words() -> None:
    found: list[str] = []
    # Decisions are records of their day, and stay as they were written.
    pages = [*TOP.glob("*.md"), *(TOP / "docs").glob("*.md"), *(TOP / "protos").rglob("*.proto")]
    code = [path for package in PACKAGES for path in (TOP / package).rglob("*.py") if "_pb2" not in path.name]
    for path in sorted([*pages, *code]):
        found += prose_words(path.relative_to(TOP), path.read_text(encoding="utf-8"))
    assert found == []


def test_names_are_the_fields() -> None:
    found: list[str] = []
    for folder in FOLDERS:
        for path in sorted((TOP / folder).rglob("*")):
            if path.is_file() and path.suffix in (".py", ".md", ".txt", ".proto") and "_pb2" not in path.name:
                found += house_words(path.relative_to(TOP), path.read_text(encoding="utf-8"))
    assert found == []
