"""One index of tantivy, on disk or in memory: a layer of a text index."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import tantivy

from log_tier.model.identifiers import Offset
from log_tier.rows.text_index import ReadsTexts, TextIndex
from serving_tier.text.text_damage import TextDamaged, naming_damage
from serving_tier.text.text_page import TextPoint, TextRow
from serving_tier.text.text_rows import (
    EXPIRY,
    KEY,
    POINT,
    POINT_TERM,
    document_of,
    key_term,
    row_of,
    schema_of,
)

__all__ = ["DiskLayer", "LayerHit", "MemoryLayer", "hits_of"]

# The least that tantivy takes. It writes a segment when so much is full, so a build of any size has this memory.
_WRITER_BYTES: Final = 15_000_000
_BUILDER_BYTES: Final = 50_000_000

# How often a build asks whether it should go on: some 20 ms.
_ASKED_EACH: Final = 500

_FORMAT_VERSION: Final = 1


class LayerHit(NamedTuple):
    """A row that a layer has found."""

    score: float
    key: bytes
    row: TextRow


class MemoryLayer:
    """The rows that changed last. One thread writes; any number search what `write` returned."""

    def __init__(self, form: TextIndex) -> None:
        self._fields = form.fields
        self.index = tantivy.Index(schema_of(form))
        self._writer: Any = None
        self.rows: dict[bytes, TextRow | None] = {}
        """Every key that it covers; None: the row is gone."""
        self.first: dict[bytes, int] = {}
        """From which write on it covers a key."""
        self.writes = 0
        self.bytes_held = 0

    def write(self, changes: Iterable[tuple[bytes, TextRow | None]], read: ReadsTexts) -> Any:
        """Take changes; return a searcher that sees them. Some 5 ms, and 50 µs for each."""
        writer = self._writer = self._writer or self.index.writer(_WRITER_BYTES, 1)
        self.writes += 1
        for key, row in changes:
            if self.rows.get(key) is not None:
                writer.delete_documents_by_term(KEY, key_term(key))
            self.rows[key] = row
            self.first.setdefault(key, self.writes)
            self.bytes_held += len(key)
            if row is not None:
                self.bytes_held += len(row.value)
                writer.add_document(document_of(key, row, self._fields, read(row.value, 0)))
        writer.commit()
        self.index.reload()
        return self.index.searcher()

    def covers(self, key: bytes, write: int) -> bool:
        """Whether it had the key after that write."""
        return self.first.get(key, write + 1) <= write

    def close(self) -> None:
        """Write no more; what was returned can be searched."""
        self._writer = None


class DiskLayer:
    """The rows that are on disk, in a folder that is theirs. One thread writes. Raises `ValueError` and `OSError`, as
    tantivy does, for a folder that is damaged.
    """

    def __init__(self, form: TextIndex, folder: Path, identity: dict[str, Any]) -> None:
        """Open the index in `folder`, or make one. `identity`: what it is of; one of something else has no point."""
        self._folder, self._given = folder, identity
        self._form, self._identity = form, {"v": _FORMAT_VERSION, "fields": list(form.fields), **identity}
        self.index = tantivy.Index(schema_of(form), path=str(folder))
        self.searcher = self.index.searcher()
        self.point = self._read_point()
        """Where it is; None: nowhere, it is to be built."""

    def _read_point(self) -> TextPoint | None:
        term = tantivy.Query.term_query(self.index.schema, POINT, POINT_TERM)
        hits = self.searcher.search(term, 2, count=False).hits
        if len(hits) != 1:
            return None
        found = json.loads(self.searcher.doc(hits[0][1]).get_all(POINT)[1])
        point = TextPoint(Offset(found.pop("applied")), found.pop("log_time_ms"))
        return point if found == self._identity else None

    def write(
        self,
        changes: Iterable[tuple[bytes, TextRow | None]],
        read: ReadsTexts,
        point: TextPoint,
        *,
        anew: bool = False,
        still: Callable[[], bool] = lambda: True,
    ) -> bool:
        """Take changes and say where the index is then, in one commit. False: `still` said no, and nothing is changed.
        `anew`: the changes are all rows.
        """
        writer = self.index.writer(_BUILDER_BYTES if anew else _WRITER_BYTES, 1)
        done = False
        try:
            if anew:
                writer.delete_all_documents()
            for taken, (key, row) in enumerate(changes, 1):
                if not anew:
                    writer.delete_documents_by_term(KEY, key_term(key))
                if row is not None:
                    writer.add_document(document_of(key, row, self._form.fields, read(row.value, 0)))
                if not taken % _ASKED_EACH and not still():
                    return False
            if not anew:
                self._remove_expired(writer, point)
                writer.delete_documents_by_term(POINT, POINT_TERM)
            writer.add_document(self._point_document(point))
            writer.commit()
            done = True
        finally:
            if not done:
                writer.rollback()
            writer.wait_merging_threads()
        self.index.reload()
        self.searcher, self.point = self.index.searcher(), point
        return True

    def is_sound(self) -> bool:
        """Does the folder hold what was written last?"""
        try:
            with naming_damage():
                return DiskLayer(self._form, self._folder, self._given).point == self.point
        except TextDamaged:
            return False

    def _remove_expired(self, writer: Any, point: TextPoint) -> None:
        if point.log_time_ms > 0:
            query = tantivy.Query.range_query(
                self.index.schema, EXPIRY, tantivy.FieldType.Unsigned, 1, point.log_time_ms
            )
            writer.delete_documents_by_query(query)

    def _point_document(self, point: TextPoint) -> Any:
        document = tantivy.Document()
        document.add_text(POINT, POINT_TERM)
        document.add_text(POINT, json.dumps({**self._identity, **point._asdict()}))
        return document


def hits_of(searcher: Any, query: Any, first: int) -> Iterator[LayerHit]:
    """The rows that a searcher finds, the best first; some 8 µs each. `first`: how many are wanted, probably."""
    size, offset = first + 1, 0
    while True:
        hits = searcher.search(query, size, count=False, offset=offset).hits
        for score, address in hits:
            found = row_of(searcher.doc(address))
            if found is not None:
                yield LayerHit(score, *found)
        if len(hits) < size:
            return
        offset += size
        size *= 4
