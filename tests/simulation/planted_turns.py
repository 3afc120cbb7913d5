"""Bugs to plant where calls of gRPC wait for their turn behind commands of the Redis protocol."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable
from typing import Final

from router.endpoints.turns.shared_turns import CALL_S, SharedTurns
from simulation.planted import Patches

__all__ = ["PLANTED_IN_TURNS"]


def _left_call_stays_counted() -> Patches:
    inner = SharedTurns.take_turn

    async def take_turn(self: SharedTurns, user: Hashable) -> None:
        try:
            await inner(self, user)
        except asyncio.CancelledError:
            self.calls_waiting += 1
            raise

    return [(SharedTurns, "take_turn", take_turn)]


def _left_call_has_its_turn() -> Patches:
    async def take_turn(self: SharedTurns, user: Hashable) -> None:
        come: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def begin() -> float:
            come.set_result(None)
            return CALL_S

        self.wait(begin, user)
        await come

    return [(SharedTurns, "take_turn", take_turn)]


PLANTED_IN_TURNS: Final[dict[str, Callable[[], Patches]]] = {
    "a call that was left in the line is counted for ever": _left_call_stays_counted,
    "a call that was left in the line gets its turn": _left_call_has_its_turn,
}
