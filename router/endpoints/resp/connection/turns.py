"""How much one connection of the Redis protocol does in its turn."""

from __future__ import annotations

from typing import Final

from router.endpoints.resp.wire.limits import OUTPUT_PAUSE_BYTES

__all__ = ["SHORT_TURN", "TURN", "TURN_SHARE_OF_BYTES", "TURN_SHARE_OF_RUNS"]

TURN: Final = 1024
"""Commands of a connection that are worked off before others get their turn at the event loop; some 5 ms."""

SHORT_TURN: Final = TURN // 4
"""The same while turns are short (`SharedTurns.is_short`)."""

TURN_SHARE_OF_BYTES: Final = OUTPUT_PAUSE_BYTES // (TURN // 2)
"""Bytes of replies that count as one command: to send a MiB of them takes some 1 ms, half of such a turn."""

TURN_SHARE_OF_RUNS: Final = 4
"""Commands of a run that count as one: each costs a quarter of others."""
