"""The budget of one turn of the event loop: how many keys the rounds of all partitions work on before others run."""

from __future__ import annotations

import asyncio
from typing import Final

from router.endpoints.resp.wire.limits import AT_ONCE_KEYS_MAX

__all__ = ["EXECUTION_S", "TurnBudget"]

EXECUTION_S: Final = 0.004
"""Commands differ a thousandfold in what they cost: the commands of a round that have not begun by then wait for the
next one, as those do that did not fit."""


class TurnBudget:
    """How many keys all executors together work on in one turn of the event loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._keys = 0

    async def take(self, keys: int) -> None:
        """Return in a turn whose budget has so many keys left, or that has done nothing yet."""
        while self._keys and self._keys + keys > AT_ONCE_KEYS_MAX:  # noqa: ASYNC110 - turns, not time, are waited for
            await asyncio.sleep(0)
        if not self._keys:
            self._loop.call_soon(self._next_turn)
        self._keys += keys

    def spend(self) -> None:
        """The rest of the budget is spent: what ran has cost far more than its keys say."""
        if self._keys:
            self._keys = AT_ONCE_KEYS_MAX

    def _next_turn(self) -> None:
        self._keys = 0
