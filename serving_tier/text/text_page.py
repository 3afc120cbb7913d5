"""What a text index is asked for and answers, for who need not have tantivy."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Executor
from typing import NamedTuple, Protocol

from log_tier.model.batch import Batch
from log_tier.model.errors import DuramenError, IndexDamaged
from log_tier.model.identifiers import Offset, PartitionId
from log_tier.rows.text_index import TextIndex
from serving_tier.index.lmdb.lmdb_index import LmdbIndex

__all__ = [
    "FollowedReplica",
    "FollowsText",
    "TextHit",
    "TextPage",
    "TextPiece",
    "TextPoint",
    "TextRow",
    "TextThreads",
]


class TextRow(NamedTuple):
    """A row of a text index."""

    value: bytes
    """The row as it is stored."""
    version: int
    expires_at_ms: int
    """0: never."""


class TextPoint(NamedTuple):
    """The state that a text index shows."""

    applied: Offset
    log_time_ms: int
    """By which expiries are judged, in ms since 1970."""


class TextPiece(NamedTuple):
    """A piece of a field's text in which words of the query are."""

    field: str
    text: str
    spans: tuple[tuple[int, int], ...]
    """Where those words are in `text`: first character, and the one behind the last."""


class TextHit(NamedTuple):
    """A row that was found."""

    score: float
    key: bytes
    row: TextRow
    highlights: tuple[TextPiece, ...]


class TextPage(NamedTuple):
    """What a search found, the best first; rows of equal scores by key."""

    point: TextPoint
    hits: list[TextHit]


class TextThreads(NamedTuple):
    """The threads of the text indexes of a node."""

    puts: Executor
    """What searches wait for."""
    disk: Executor
    """What takes long: builds, and commits to disk."""
    searches: Executor


class FollowedReplica(Protocol):
    """What a text index needs of its replica."""

    @property
    def id(self) -> PartitionId: ...

    @property
    def name(self) -> object: ...

    def damaged(self, error: IndexDamaged) -> None: ...


class FollowsText(Protocol):
    """A text index that follows a replica: `serving_tier.text.text_follower`."""

    @property
    def form(self) -> TextIndex: ...

    @property
    def index(self) -> LmdbIndex: ...

    def start(self) -> None: ...

    def heard(self, batches: Sequence[Batch]) -> None: ...

    async def wait_applied(self, offset: Offset, *, timeout: float | None) -> None: ...

    async def search(self, query: str, limit: int, *, timeout: float) -> TextPage: ...

    async def close(self, reason: DuramenError, *, keep: bool = True) -> None: ...
