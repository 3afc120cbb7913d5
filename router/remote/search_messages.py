"""Searches as messages: what is asked for, and what was found."""

from __future__ import annotations

from collections.abc import Sequence

from log_tier.model.errors import UnknownFormat
from router.data.requests import Highlight, ScanResult, TextSearch
from router.proto import keyvalue_pb2 as kv

__all__ = ["found_from", "highlight_messages", "search_from", "search_message"]


def search_message(search: TextSearch | None) -> kv.TextSearch | None:
    """Encode what is searched for; the client calls this."""
    if search is None:
        return None
    return kv.TextSearch(index=search.index_name, query=search.query, number=search.number)


def search_from(message: kv.ScanRequest) -> TextSearch | None:
    """Decode it; the server calls this."""
    if not message.HasField("search"):
        return None
    asked = message.search
    return TextSearch(asked.index, asked.query, asked.number)


def highlight_messages(result: ScanResult) -> list[kv.RowHighlights]:
    """Encode where the words are; the server calls this."""
    return [
        kv.RowHighlights(
            pieces=[
                kv.Highlight(field=each.field, text=each.text, spans=[place for span in each.spans for place in span])
                for each in row
            ]
        )
        for row in result.highlights
    ]


def found_from(reply: kv.ScanReply) -> tuple[Sequence[float], Sequence[Sequence[Highlight]]]:
    """Decode scores and places; the client calls this. Raises `UnknownFormat` for columns of different lengths."""
    if not {len(reply.scores), len(reply.highlights)} <= {len(reply.keys)} and (reply.scores or reply.highlights):
        raise UnknownFormat(
            f"a server's reply has {len(reply.keys)} rows, {len(reply.scores)} scores and {len(reply.highlights)} "
            "highlights: update this process and the server"
        )
    return tuple(reply.scores), tuple(tuple(map(_highlight, row.pieces)) for row in reply.highlights)


def _highlight(piece: kv.Highlight) -> Highlight:
    spans = iter(piece.spans)
    return Highlight(piece.field, piece.text, tuple(zip(spans, spans, strict=False)))
