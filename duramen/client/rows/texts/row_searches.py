"""Searching in the texts of rows: `search` of a table of rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Generic, TypeVar

from duramen.client.model.consistency import Level
from duramen.client.rows.opened_rows import OpenedRows
from duramen.client.rows.row_codec import RowCodec
from log_tier.model.errors import InvalidRequest
from log_tier.model.tokens import Token
from log_tier.rows.definition import TableDefinition
from log_tier.rows.text_index import TextIndex
from router.data.requests import Highlight, ScanResult, TextSearch

__all__ = ["Match", "RowSearches", "text_named"]

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Match(Generic[R]):
    """A row that a search found."""

    row: R
    score: float
    """BM25's, of the rows of one partition: it sorts the rows of one answer, and means nothing more."""
    highlights: Mapping[str, Highlight]
    """By field: a piece of its text, and where the query's words are in it."""
    version: int
    """The offset of the row's last write, for `if_version`."""


class RowSearches(OpenedRows[R]):
    """The searching half of a table of rows."""

    async def search(
        self,
        query: str,
        *,
        index: str | None = None,
        limit: int = 10,
        after: str | Token | None = None,
        level: Level = "session",
        timeout: float | None = None,
    ) -> list[Match[R]]:
        """The rows whose texts match a query, the best first: `search("delayed AND newark", limit=10)`.

        A query has words, which match whole words without regard to case; `"gate change"` is a phrase and
        `"gate change"~2` one with up to two words between; `remark:fog` asks one field; AND, OR, NOT, + and - and
        parentheses join them, and words alone are joined by OR; `fog^2` counts double. It has at most 1,000 characters
        and 64 words. Ranges, wildcards and regular expressions are refused.

        `index` names the text index, and may be left out where the table has one. `limit` is 1 to 1,000. A row is found
        as it was at one offset of its partition, at which the index has each row: with `after`, or in a session, that
        is an offset which includes those writes. A replica's index follows its rows by some 10 ms.

        Scores count words within a partition: rows of two partitions are compared by scores that are not quite the
        same measure, the less so the fewer rows there are. Cost: one request to each node; each partition looks for
        `limit` rows.

        Raises `IndexBuilding` while the index is built, at a replica too, which builds its own from its rows;
        `ReplicaBehind`; `InvalidRequest` for a query that is none, and where there is no such index or the server lacks
        the extra `text`; `LimitExceeded` for a query or an answer that is too large; and what `find` does.
        """
        if type(limit) is not int or limit < 1:
            raise InvalidRequest(f"limit is a whole number, at least 1, not {limit!r}")
        if not isinstance(query, str):
            raise InvalidRequest(f"a query is a str, not {type(query).__name__}")
        codec, timeout = await self._opened(timeout)
        codec, text = await self._text(codec, index, timeout)
        search = TextSearch(text.name, query, text.number)
        page = await self._found_in.search_page(search, limit, after=after, level=level, timeout=timeout)
        return (await self._decoded(codec, partial(_matches, page), timeout))[1]

    async def _text(self, codec: RowCodec[R], name: str | None, timeout: float | None) -> tuple[RowCodec[R], TextIndex]:
        """The text index. Where the table has none such as far as is known, one look at its definition decides."""
        try:
            return codec, text_named(codec.definition, name)
        except InvalidRequest:
            renewed = await self.renewed_codec(timeout)
            return renewed, text_named(renewed.definition, name)


def text_named(definition: TableDefinition, name: str | None) -> TextIndex:
    """The text index of that name; None: the only one. Raises `InvalidRequest`."""
    found = [each for each in definition.texts if name in (None, each.name)]
    if len(found) == 1:
        return found[0]
    there = ", ".join(each.name for each in definition.texts)
    if not there:
        raise InvalidRequest('the table has no text index: create_index("words", ["remark"], kind="text") makes one')
    asked = "index= names one of several" if name is None else f"there is no text index {ascii(name)[:60]}"
    raise InvalidRequest(f"{asked}: {there}")


def _matches(page: ScanResult, codec: RowCodec[R]) -> list[Match[R]]:
    return [
        Match(codec.decode(value), score, {each.field: each for each in pieces}, version)
        for value, score, version, pieces in zip(page.values, page.scores, page.versions, page.highlights, strict=True)
    ]
