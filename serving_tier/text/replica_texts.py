"""The text indexes of one replica: which ones there are follows the definition that its live index has folded."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from log_tier.concurrency.tasks import to_the_end
from log_tier.model.batch import Batch
from log_tier.model.errors import DuramenError, IndexBuilding, InvalidRequest, ShuttingDown
from log_tier.model.log import Log
from log_tier.rows.definition import TableDefinition
from log_tier.rows.text_index import TextIndex
from serving_tier.folders import clear_away
from serving_tier.index.lmdb.lmdb_index import LmdbIndex
from serving_tier.names import text_folder, text_number
from serving_tier.replica.replica import Replica
from serving_tier.text.text_page import FollowsText, TextThreads

__all__ = ["ReplicaTexts", "check_extra"]


def check_extra() -> None:
    """Raise `InvalidRequest` where this process has no tantivy."""
    try:
        import tantivy  # noqa: F401
    except ImportError as error:
        raise InvalidRequest(
            f"a text index needs tantivy, which this server does not have: pip install 'duramen[text]' ({error})"
        ) from error


class ReplicaTexts:
    """Observes one replica, on its event loop.

    Invariant: each follower is of the replica's live index, and of a text index that its definition has.
    """

    def __init__(self, replica: Replica, log: Log, threads: TextThreads) -> None:
        self._replica, self._log, self._threads = replica, log, threads
        self._followers: dict[int, FollowsText] = {}
        self._ending: set[asyncio.Task[None]] = set()
        self._seen: TableDefinition | None = None
        self._cleared: LmdbIndex | None = None
        """In whose folder nothing of dropped indexes is left."""

    def replica_applied(self, index: LmdbIndex, batches: Sequence[Batch]) -> None:
        if index.definition is not self._seen:
            self._follow_definition(index, index.definition)
        for each in self._followers.values():
            each.heard(batches)

    def replica_left(self) -> None:
        self._end_all(ShuttingDown(f"{self._replica.name} is another index by now: ask again"))

    def of(self, index: LmdbIndex, text: TextIndex) -> FollowsText:
        """What follows the replica for a text index. Raises `InvalidRequest` where its definition has none such, or
        this process has no tantivy; `IndexBuilding` while another version is going live.
        """
        definition = index.definition_now()
        if index is not self._replica.index:
            raise IndexBuilding(f"{self._replica.name} goes over to another version: ask again", index=text.name)
        if definition is not self._seen:
            self._follow_definition(index, definition)
        found = self._followers.get(text.number)
        if found is None or found.form != text:
            check_extra()
            raise InvalidRequest(f"{self._replica.name} has no text index {text.name}")
        return found

    def _follow_definition(self, index: LmdbIndex, definition: TableDefinition | None) -> None:
        """Begin and end followers, where the definition is another one."""
        self._seen = definition
        wanted = {each.number: each for each in (() if definition is None else definition.texts)}
        for number in sorted(self._followers.keys() - wanted):
            gone = self._followers.pop(number)
            self._end(gone, InvalidRequest(f"the text index {gone.form.name} was dropped"), keep=False)
        if definition is not None and definition.history.last and self._cleared is not index:
            self._cleared = index  # a process may have died before it removed what was dropped
            self._note_ending(
                asyncio.to_thread(_clear_others, index.path, frozenset(wanted)), "clearing of text indexes"
            )
        if wanted.keys() == self._followers.keys():
            return
        try:
            check_extra()
        except InvalidRequest:
            return  # who searches hears of it
        for number in sorted(wanted.keys() - self._followers):
            follower = self._followers[number] = _follower(
                self._replica, index, wanted[number], self._log, self._threads
            )
            follower.start()

    def _end_all(self, reason: DuramenError) -> None:
        followers, self._followers, self._seen = self._followers, {}, None
        for each in followers.values():
            self._end(each, reason)

    def _end(self, follower: FollowsText, reason: DuramenError, *, keep: bool = True) -> None:
        self._note_ending(_ended(follower, reason, keep=keep), f"end of the text index {follower.form.name}")

    def _note_ending(self, work: Coroutine[Any, Any, None], name: str) -> None:
        ending = asyncio.create_task(work, name=f"{name} of {self._replica.name}")
        self._ending.add(ending)
        ending.add_done_callback(self._ending.discard)

    async def close(self, reason: DuramenError) -> None:
        """Follow nothing any more; what was indexed is on disk then. Idempotent."""
        self._end_all(reason)
        if self._ending:
            await to_the_end(asyncio.wait(set(self._ending)))


async def _ended(follower: FollowsText, reason: DuramenError, *, keep: bool) -> None:
    await follower.close(reason, keep=keep)
    if not keep:
        await asyncio.to_thread(clear_away, text_folder(follower.index.path, follower.form.number))


def _clear_others(folder: Path, kept: frozenset[int]) -> None:
    """Remove the folders of all text indexes but these."""
    with suppress(FileNotFoundError):
        for each in list(folder.iterdir()):
            number = text_number(each.name)
            if number is not None and number not in kept:
                clear_away(each)


def _follower(replica: Replica, index: LmdbIndex, form: TextIndex, log: Log, threads: TextThreads) -> FollowsText:
    from serving_tier.text.text_follower import TextFollower

    return TextFollower(replica, index, form, log, threads)
