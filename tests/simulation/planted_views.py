"""Bugs to plant in what is looked at: a view that is too old, a generation that is not compared."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import lmdb

from log_tier.embedded.commit import journal_format
from log_tier.embedded.commit.journal_format import FileHeader
from router.endpoints.resp.data.key_views import Overlay
from serving_tier.fold.entry import columns_of_entries
from serving_tier.index.index import FOUND_BYTES_MAX, Found
from serving_tier.index.lmdb.format import STATE, State
from serving_tier.index.lmdb.lmdb_reads import LmdbReads
from serving_tier.index.scan import stored_within
from simulation.planted import Patches

__all__ = ["VIEWS_IN_DATABASE", "VIEWS_IN_LOG", "VIEWS_IN_RESP"]


def _generation_is_not_compared() -> Patches:
    read = journal_format._read_frame

    def careless(data: bytes, at: int, header: FileHeader) -> Any:
        if header.version < journal_format.VERSION or at + journal_format._FRAME.size > len(data):
            return read(data, at, header)
        generation = journal_format._FRAME.unpack_from(data, at)[2]
        return read(data, at, header._replace(generation=generation))

    return [(journal_format, "_read_frame", careless)]


def _same_view_for_a_whole_round() -> Patches:
    get = Overlay.get

    def of_the_round(self: Overlay, key: bytes) -> Any:
        """What was not there when the round began is not there for any of its commands."""
        return self._look(key) if self.found.get(key) is None else get(self, key)

    return [(Overlay, "get", of_the_round)]


def _transaction_used_again() -> Patches:
    kept: dict[int, Any] = {}

    def get_many(self: LmdbReads, keys: Sequence[bytes], *, bytes_max: int = FOUND_BYTES_MAX) -> Found:
        """What the reader has applied is read anew, and the entries by the transaction of the read before."""
        with self._reading() as txn:
            state = State.unpack(txn.get(STATE, db=self._meta))
        before, now = kept.get(id(self)), self._begin(self._data)
        kept[id(self)] = now
        try:
            found = stored_within((before or now).get, keys, bytes_max, 8)
        except lmdb.Error:  # of an index that was closed since
            found = stored_within(now.get, keys, bytes_max, 8)
        return Found(state.applied, *columns_of_entries(found, state.log_time_ms))

    return [(LmdbReads, "get_many", get_many)]


VIEWS_IN_LOG: Final[dict[str, Callable[[], Patches]]] = {
    "the generation of a journal's frame is not compared": _generation_is_not_compared,
}
VIEWS_IN_DATABASE: Final[dict[str, Callable[[], Patches]]] = {
    "a read uses the transaction of the read before it": _transaction_used_again,
}
VIEWS_IN_RESP: Final[dict[str, Callable[[], Patches]]] = {
    "the commands of a round are judged by one view": _same_view_for_a_whole_round,
}
