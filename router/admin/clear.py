"""Clearing a table: an empty version of it is staged and swapped in, by the two jobs that do that for any version.

Who waits for it knows that every replica has the empty version and that the barriers are in the log: what was
acknowledged before is gone from there on, at one offset of each partition, and what is written since is kept.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Final

from log_tier.catalog.cluster_map import EMPTY, Job
from log_tier.model.errors import CommandRejected, DeadlineExceeded, DuramenError, InvalidRequest, Unavailable
from log_tier.model.identifiers import Offset
from router.admin.admin import Admin
from router.admin.verbs import Discard, Stage, Swap

__all__ = ["clear_table"]

# Another job changes the table's versions, for some commits of the catalog's log.
_PAUSE_S: Final = 0.02

_GIVE_UP_S: Final = 5.0


async def clear_table(admin: Admin, table: str, *, keep: int = 0, timeout: float) -> list[Offset]:
    """Let a table have no keys; returns, for each partition, an offset from which on it is cleared.

    `keep`: how many versions stay that it can be rolled back to. `timeout` in seconds. Two jobs: some commits of the
    catalog's log and one of the table's. Raises `DeadlineExceeded` where not every replica got ready in time (then
    nothing has changed, or it says so), `TableNotFound`, and `Unavailable` where a job failed, with its reason.
    """
    clearing = _Clearing(admin, table)
    try:
        async with asyncio.timeout(timeout):
            while not await clearing.once(keep):
                await clearing.give_up()
            return await admin.log_ends(table)
    except BaseException as error:
        await asyncio.shield(clearing.give_up())
        if isinstance(error, TimeoutError) and not isinstance(error, DuramenError):
            raise DeadlineExceeded(
                f"table {table} was not cleared within {timeout:g} s: "
                f"{clearing.trouble or 'not every replica was ready; `duramen admin jobs` tells which'}"
            ) from error
        raise


class _Clearing:
    """One clearing under way."""

    def __init__(self, admin: Admin, table: str) -> None:
        self._admin = admin
        self._table = table
        self._job: int | None = None
        """The one that is under way."""
        self._version: int | None = None
        """The one that was staged and is not live yet."""
        self._swapped_by_others = False
        """Another caller swapped our version in: the table is cleared all the same."""
        self.trouble = ""
        """Why the catalog did not take a job."""

    async def once(self, keep: int) -> bool:
        """Stage and swap; False: another version was faster, and ours must not come after it, or it was discarded."""
        staged = await self._done(Stage(self._table, EMPTY))
        assert staged is not None, "only a swap can be overtaken"
        version = self._version = int(staged.arguments["version"])
        if (await self._done(Swap(self._table, version, keep))) is None:
            return self._swapped_by_others
        self._version = None
        return True

    async def _done(self, change: Stage | Swap | Discard) -> Job | None:
        """Carry a change out when others let us; its job, or None where a swap makes no sense any more."""
        tried = False
        while True:
            try:
                self._job = await self._admin.begin(change, tried=tried)
                break
            except (CommandRejected, InvalidRequest) as error:
                tried = True
                self.trouble = error.message
                if isinstance(change, Swap) and await self._is_decided():
                    return None
                if isinstance(error, InvalidRequest):
                    raise
                await asyncio.sleep(_PAUSE_S)
        self.trouble = "its barriers are on their way, and may still come" if isinstance(change, Swap) else ""
        ended = await self._admin.ended(self._job)
        if ended.state != "done":
            reasons = [task.note for task in ended.tasks if task.state == "failed"]
            raise Unavailable(
                f"table {self._table} was not cleared, its {ended.kind} has {ended.state}: {'; '.join(reasons)}"
            )
        self._job = None
        return ended

    async def _is_decided(self) -> bool:
        """Has another caller decided about our version: swapped it in, discarded it, or put in a later one?"""
        ours = self._version
        assert ours is not None, "there is one to swap in"
        states = {each.version: each.state for each in await self._admin.versions(self._table)}
        self._swapped_by_others = states.get(ours) == "live"
        if self._swapped_by_others or ours not in states:
            self._version = None  # there is nothing left to give up
            return True
        return any(state == "live" and version > ours for version, state in states.items())

    async def give_up(self) -> None:
        """Leave no job and no version behind, as far as that can be: a swap that has begun is carried through."""
        job, version = self._job, self._version
        self._job = self._version = None
        with suppress(DuramenError, TimeoutError):
            async with asyncio.timeout(_GIVE_UP_S):
                if job is not None:
                    await self._admin.abort(job, dry_run=False)
                if version is not None:
                    await self._done(Discard(self._table, version))
