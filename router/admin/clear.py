"""Clearing a table for a caller who waits: `FLUSHDB`. One job of the catalog, which the nodes carry to its end.

When it returns, every replica has the empty version and the barriers are in the log: what was
acknowledged before is gone from there on, at one offset of each partition, and what is written since is kept.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Final

from log_tier.concurrency.backoff import Backoff
from log_tier.concurrency.tasks import end_tasks, going_on
from log_tier.model.errors import CommandRejected, DeadlineExceeded, DuramenError, Unavailable
from log_tier.model.identifiers import Offset
from router.admin.admin import Admin

__all__ = ["clear_table"]

_GIVE_UP_S: Final = 5.0

# Several callers who wait for one table try again when it is free, and one of them is the first.
_PAUSE_FIRST_S: Final = 0.02
_PAUSE_MAX_S: Final = 0.5


async def clear_table(admin: Admin, table: str, *, keep: int = 0, timeout: float) -> list[Offset]:
    """Let a table have no keys; returns, for each partition, an offset from which on it is cleared.

    `keep`: how many versions stay that it can be rolled back to. `timeout` in seconds. One job: some commits of the
    catalog's log and one of the table's. Raises `DeadlineExceeded` where not every replica got ready in time (then
    nothing has changed, or it says so), `TableNotFound`, `CommandRejected` where the catalog refuses the job for good,
    and `Unavailable` where the job failed, with its reason.
    """
    clearing = _Clearing(admin, table, keep)
    try:
        async with asyncio.timeout(timeout):
            await clearing.run()
            return await admin.log_ends(table)
    except BaseException as error:
        left = await going_on(clearing.give_up())
        if isinstance(error, TimeoutError) and not isinstance(error, DuramenError):
            raise DeadlineExceeded(f"table {table} was not cleared within {timeout:g} s: {left}") from error
        raise


class _Clearing:
    """One clearing under way."""

    def __init__(self, admin: Admin, table: str, keep: int) -> None:
        self._admin = admin
        self._table = table
        self._keep = keep
        self._beginning: asyncio.Task[int] | None = None
        """Gives the job. A caller who goes away leaves it running, so that `give_up` learns which job that is."""
        self._trouble = "it waited for its turn"
        """Why there is no job."""

    async def run(self) -> None:
        """Begin the job as soon as no other one changes the table's versions, and return when it is done."""
        job = await self._begun()
        ended = await self._admin.ended(job)
        if ended.state != "done":
            reasons = [task.note for task in ended.tasks if task.state in ("failed", "aborted") and task.note]
            raise Unavailable(
                f"table {self._table} was not cleared, its job {job} has {ended.state}: "
                f"{'; '.join(reasons) or 'somebody gave it up'}"
            )
        self._beginning = None

    async def _begun(self) -> int:
        """The job. Raises `CommandRejected` where the catalog refuses it twice for one reason: no job was in its way
        meanwhile, and none is to be waited for.
        """
        backoff = Backoff(_PAUSE_FIRST_S, _PAUSE_MAX_S)
        while True:
            self._beginning = asyncio.create_task(self._admin.clear(self._table, keep=self._keep))
            try:
                return await asyncio.shield(self._beginning)
            except CommandRejected as error:
                if error.message == self._trouble:
                    raise
                self._trouble = error.message
                await self._admin.until_free(self._table)
                await backoff.pause()

    async def give_up(self) -> str:
        """Leave no job behind, where that can be: one that may have put barriers into the log is carried through.

        Returns what has become of the clearing.
        """
        beginning, self._beginning = self._beginning, None
        if beginning is None:
            return "it was cleared"
        try:
            async with asyncio.timeout(_GIVE_UP_S):
                job = await beginning
                try:
                    await self._admin.abort(job, dry_run=False)
                except CommandRejected as error:
                    with suppress(CommandRejected):
                        await self._admin.resume(job, dry_run=False)  # by another node, where that one is lost
                    return f"its barriers are in the log, or on their way: {error.message}"
                return f"not every replica was ready, and nothing was cleared; `duramen admin job {job}` tells which"
        except CommandRejected:
            return f"nothing was cleared: {self._trouble}"
        except (DuramenError, TimeoutError) as error:
            return f"it may still be cleared: {str(error) or 'the catalog does not answer'}"
        finally:
            await end_tasks(beginning)
