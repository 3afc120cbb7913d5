"""What callers search texts for."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from functools import cache, partial
from pathlib import Path
from typing import Final

from fuzz.target import Target
from log_tier.model.identifiers import Offset
from log_tier.rows.text_index import TextIndex
from serving_tier.text.text_page import TextPoint, TextRow
from serving_tier.text.text_store import TextStore

__all__ = ["search_targets"]

_FORM: Final = TextIndex(1, "words", ("remark", "origin.name"))
_TEXTS: Final = ("Heavy fog, delayed", "überall 😀 fog", "snow and rain at newark", "wind")
_QUERIES: Final = (
    b"delayed AND newark",
    b'remark:fog OR "heavy fog" -snow',
    b'origin.name:(newark OR "new york") +wind',
    b"fog~1 wind^2 NOT rain",
)
_folders: list[tempfile.TemporaryDirectory[str]] = []


@cache
def _store() -> TextStore:
    """Of this process, with rows on disk and in memory; it goes with the process."""
    memory = Path("/dev/shm")
    folder = tempfile.TemporaryDirectory(prefix="duramen-fuzz-", dir=memory if memory.is_dir() else None)
    _folders.append(folder)
    made = _opened(Path(folder.name))
    rows = {b"%d" % at: TextRow(text.encode(), at, 0) for at, text in enumerate(_TEXTS)}
    assert made.load(iter(rows.items()), TextPoint(Offset(0), 0), _read, anew=True)
    made.close()
    made = _opened(Path(folder.name))
    assert made.load(iter(()), TextPoint(Offset(1), 0), _read, anew=False)
    made.put({b"new": TextRow(b"fog at newark", 9, 0)}, TextPoint(Offset(9), 0), _read)
    return made


def _opened(folder: Path) -> TextStore:
    return TextStore.open(_FORM, folder / "text", {"number": 1}, lambda path: path.mkdir(exist_ok=True))


def _read(value: bytes, _at: int) -> list[str | None]:
    return [value.decode(), "newark"]


def _search(data: bytes) -> None:
    _store().search(data.decode("utf-8", "replace"), 10)


def search_targets() -> Iterator[Target]:
    """The query of a search, through its check to the library that answers it."""
    yield Target("query of a search", partial(list[bytes], _QUERIES), _search)
