"""The budget of one turn of the event loop: how many keys the rounds of all partitions work on before others run."""

from __future__ import annotations

import asyncio

from router.endpoints.resp.wire.limits import AT_ONCE_KEYS_MAX

__all__ = ["TurnBudget"]


class TurnBudget:
    """How many keys all executors together work on in one turn of the event loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._keys = 0

    async def take(self, keys: int) -> None:
        """Return in a turn in which there is room for so many, or that has done nothing yet."""
        while self._keys and self._keys + keys > AT_ONCE_KEYS_MAX:  # noqa: ASYNC110 - turns, not time, are waited for
            await asyncio.sleep(0)
        if not self._keys:
            self._loop.call_soon(self._next_turn)
        self._keys += keys

    def _next_turn(self) -> None:
        self._keys = 0
