"""A text index of one replica: an index on disk, in front of it what changed since, in memory.

    put(changes)   ──▶ the newest layer, in memory      searchable when it returns
    settle()       ──▶ that layer goes to disk          meanwhile `put` fills another one
    search(query)  ──▶ all layers, the newest first     a row that a newer layer covers is passed over

Three kinds of threads: one puts, one settles, any number search. What searches see is one value, replaced at once.
"""

from __future__ import annotations

import heapq
import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any, Final, NamedTuple

import tantivy

from log_tier.model.errors import InvalidRequest
from log_tier.rows.text_index import ReadsTexts, TextIndex
from serving_tier.folders import discard
from serving_tier.text.text_damage import TextDamaged, naming_damage
from serving_tier.text.text_layer import DiskLayer, LayerHit, MemoryLayer, hits_of
from serving_tier.text.text_page import TextHit, TextPage, TextPiece, TextPoint, TextRow
from serving_tier.text.text_query import check_query

__all__ = ["MEMORY_ROWS_MAX", "TextStore"]

MEMORY_ROWS_MAX: Final = 20_000
"""Of the layer in memory; more changes at once go to disk."""

_MEMORY_BYTES_MAX: Final = 16 << 20

_SNIPPET_CHARS: Final = 160


class _Shown(NamedTuple):
    """What searches see."""

    point: TextPoint
    memory: tuple[tuple[Any, MemoryLayer, int], ...]
    """Searcher, layer and number of its last write; the newest first."""
    disk: Any
    read: ReadsTexts


class TextStore:
    """See the module. `open()` makes one; a folder that cannot be read is discarded."""

    def __init__(self, form: TextIndex, disk: DiskLayer) -> None:
        self.form = form
        self._disk = disk
        self._lock = threading.Lock()
        """Held while what is shown is replaced, never while anything is written."""
        self._shown: _Shown | None = None
        self._recent = MemoryLayer(form)
        self._settling: list[MemoryLayer] = []
        """On their way to disk; the oldest first."""
        self._settled: _Shown | None = None
        """The state that those bring to disk."""

    @classmethod
    def open(
        cls, form: TextIndex, folder: Path, identity: dict[str, Any], make_folder: Callable[[Path], None]
    ) -> TextStore:
        """Open the index in `folder`. Where it is damaged, or of something else, it is made anew, and has no point.
        Raises `DiskFailed`, `FolderReadOnly`, and `OSError` where none can be made.
        """
        with suppress(TextDamaged), naming_damage():
            make_folder(folder)
            return cls(form, DiskLayer(form, folder, identity))
        discard(folder)
        make_folder(folder)
        return cls(form, DiskLayer(form, folder, identity))

    @property
    def point(self) -> TextPoint | None:
        """What searches see; None: nothing, it is to be built."""
        return None if self._shown is None else self._shown.point

    @property
    def point_on_disk(self) -> TextPoint | None:
        """What the folder has; None: nothing of use."""
        return self._disk.point

    @property
    def rows_in_memory(self) -> int:
        """How many rows a settle would bring to disk."""
        return len(self._recent.rows)

    def is_sound(self) -> bool:
        """Can the folder be opened again?"""
        return self._disk.is_sound()

    @property
    def has_memory(self) -> bool:
        """Is anything in memory that is not on disk?"""
        return bool(self._recent.rows or self._settling)

    @property
    def is_full(self) -> bool:
        """Has the layer in memory as much as it should have?"""
        return len(self._recent.rows) >= MEMORY_ROWS_MAX or self._recent.bytes_held >= _MEMORY_BYTES_MAX

    def load(
        self,
        changes: Iterable[tuple[bytes, TextRow | None]],
        point: TextPoint,
        read: ReadsTexts,
        *,
        anew: bool,
        still: Callable[[], bool] = lambda: True,
    ) -> bool:
        """Bring changes to disk, in one commit, while nothing is in memory; False: `still` said no, and nothing was
        changed. `anew`: the changes are all rows. Some 50 µs for each, in 50 MB.
        """
        assert not self.has_memory, f"{len(self._recent.rows)} rows are in memory"
        with naming_damage():
            if not self._disk.write(changes, read, point, anew=anew, still=still):
                return False
        with self._lock:
            self._shown = _Shown(point, (), self._disk.searcher, read)
        return True

    def put(self, changes: Mapping[bytes, TextRow | None], point: TextPoint, read: ReadsTexts) -> None:
        """Make changes searchable, as the state at `point`."""
        layer = self._recent
        searcher = layer.write(changes.items(), read) if changes else None
        with self._lock:
            shown = self._shown
            assert shown is not None, "the index was not built"
            memory = shown.memory
            if searcher is not None:
                older = memory[1:] if memory and memory[0][1] is layer else memory
                memory = ((searcher, layer, layer.writes), *older)
            self._shown = _Shown(point, memory, shown.disk, read)

    def begin_settling(self) -> None:
        """Have the next `settle` bring to disk what was put until now. The thread that puts calls it between puts."""
        self._recent.close()
        self._settling.append(self._recent)
        self._recent = MemoryLayer(self.form)
        self._settled = self._shown

    def settle(self) -> None:
        """Bring to disk what was put until `begin_settling`. `put` may go on meanwhile, a second `settle` may not.
        Where it fails, all of it stays searchable, and the next one brings it.
        """
        layers, shown = tuple(self._settling), self._settled
        assert shown is not None, "nothing was put"
        changes: dict[bytes, TextRow | None] = {}
        for layer in layers:
            changes.update(layer.rows)
        with naming_damage():
            self._disk.write(changes.items(), shown.read, shown.point)
        with self._lock:
            now = self._shown
            assert now is not None, "what was put is shown"
            memory = tuple(each for each in now.memory if each[1] not in layers)
            self._shown = now._replace(memory=memory, disk=self._disk.searcher)
        del self._settling[: len(layers)]

    def search(self, query: str, limit: int) -> TextPage:
        """The `limit` best rows. Raises `InvalidRequest`, `LimitExceeded` for a query that is not served, `TextDamaged`
        where a file cannot be read.
        """
        check_query(query, self.form.fields)
        shown = self._shown
        assert shown is not None, "the index was not built"
        parsed = self._parse(query)
        with naming_damage():
            return self._found(shown, parsed, limit)

    def _found(self, shown: _Shown, parsed: Any, limit: int) -> TextPage:
        found: list[tuple[LayerHit, Any, Any]] = []
        for place, searcher in enumerate([*(each[0] for each in shown.memory), shown.disk]):
            newer = shown.memory[:place]
            live = (
                hit
                for hit in hits_of(searcher, parsed, limit)
                if not any(layer.covers(hit.key, write) for _, layer, write in newer)
                and not 0 < hit.row.expires_at_ms <= shown.point.log_time_ms
            )
            found += [(hit, searcher, place) for hit in islice(live, limit)]
        best = heapq.nsmallest(limit, found, key=lambda each: (-each[0].score, each[0].key))
        snippets: dict[tuple[int, str], Any] = {}
        return TextPage(
            shown.point,
            [
                TextHit(hit.score, hit.key, hit.row, self._highlights(hit, searcher, place, parsed, shown, snippets))
                for hit, searcher, place in best
            ],
        )

    def _parse(self, query: str) -> Any:
        try:
            return self._disk.index.parse_query(query, list(self.form.fields))
        except ValueError as error:
            raise InvalidRequest(f"the query cannot be searched for: {str(error)[:200]}") from None

    def _highlights(
        self, hit: LayerHit, searcher: Any, place: int, query: Any, shown: _Shown, snippets: dict[tuple[int, str], Any]
    ) -> tuple[TextPiece, ...]:
        found = []
        for field, text in zip(self.form.fields, shown.read(hit.row.value, 0), strict=True):
            if text is None:
                continue
            generator = snippets.get((place, field))
            if generator is None:
                generator = tantivy.SnippetGenerator.create(searcher, query, self._disk.index.schema, field)
                generator.set_max_num_chars(_SNIPPET_CHARS)
                snippets[place, field] = generator
            document = tantivy.Document()
            document.add_text(field, text)
            snippet = generator.snippet_from_doc(document)
            if spans := [(each.start, each.end) for each in snippet.highlighted()]:
                found.append(_highlight(field, snippet.fragment(), spans))
        return tuple(found)

    def close(self) -> None:
        """Let go of what is in memory."""
        self._recent.close()


def _highlight(field: str, fragment: str, spans: list[tuple[int, int]]) -> TextPiece:
    """tantivy counts bytes."""
    raw = fragment.encode()
    return TextPiece(
        field, fragment, tuple((len(raw[:start].decode()), len(raw[:end].decode())) for start, end in spans)
    )
