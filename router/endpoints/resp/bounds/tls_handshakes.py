"""TLS handshakes of an endpoint: bounded in time and in number, before a connection is one."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable
from functools import partial
from typing import Final

from log_tier.concurrency.descriptors import OUT_OF_DESCRIPTORS, descriptor_shares, out_of_descriptors

__all__ = ["HANDSHAKES_MAX", "HANDSHAKE_S", "TlsHandshakes"]

logger = logging.getLogger(__name__)

HANDSHAKE_S: Final = 10.0
"""A handshake takes two round trips and a signature. What is not done by then is hostile, or its network is dead."""

HANDSHAKES_MAX: Final = 512
"""Handshakes under way; the oldest one ends for the next. A pool of some hundreds may come all at once."""

_ACCEPTED_AT_ONCE: Final = 64
"""In a turn of the event loop; some 30 us each."""

_PAUSE_S: Final = 1.0
"""Out of descriptors: so long until the next attempt."""

_LINE_EVERY_S: Final = 5.0
"""A flood makes one line in the log for so long."""


def _room() -> int:
    """How many handshakes may be under way: each holds a descriptor that the log or an index may need."""
    return min(HANDSHAKES_MAX, descriptor_shares().resp_connections // 4)


class TlsHandshakes:
    """Accepts connections on a listening socket, each of `connection()`, which hears of it when its handshake is done.

    Belongs to one event loop. `start()` begins, `close()` ends what is under way; the socket is its owner's.
    """

    def __init__(
        self,
        listening: socket.socket,
        context: ssl.SSLContext,
        connection: Callable[[], asyncio.Protocol],
        *,
        handshake_s: float = HANDSHAKE_S,
        most: int | None = None,
    ) -> None:
        """`most`: so many may be under way; None: a share of the process's descriptors."""
        self.under_way: dict[asyncio.Task[None], None] = {}
        """In the order in which they came."""
        self.failed = 0
        """Handshakes that failed, were too slow, or ended for others."""
        self._listening = listening
        self._context = context
        self._connection = connection
        self._handshake_s = handshake_s
        self._most = most
        self._loop = asyncio.get_running_loop()
        self._said_s = -_LINE_EVERY_S
        self._pause: asyncio.TimerHandle | None = None
        """Until descriptors may be free again."""

    def start(self) -> None:
        """Accept from now on."""
        self._pause = None
        self._loop.add_reader(self._listening, self._accept)

    def close(self) -> None:
        """Accept no more, and end the handshakes under way. Idempotent."""
        self._loop.remove_reader(self._listening)
        if self._pause is not None:
            self._pause.cancel()
        for each in list(self.under_way):
            each.cancel()

    def _accept(self) -> None:
        for _ in range(_ACCEPTED_AT_ONCE):
            try:
                accepted, peer = self._listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in OUT_OF_DESCRIPTORS:
                    raise
                logger.error("%s", out_of_descriptors("no TLS connection is accepted", error))
                self._loop.remove_reader(self._listening)
                self._pause = self._loop.call_later(_PAUSE_S, self.start)
                return
            accepted.setblocking(False)
            if len(self.under_way) >= (_room() if self._most is None else max(1, self._most)):
                oldest = next(iter(self.under_way))
                del self.under_way[oldest]
                oldest.cancel()
            address = f"{peer[0]}:{peer[1]}"
            task = self._loop.create_task(self._shake_hands(accepted, address), name="TLS handshake")
            self.under_way[task] = None
            task.add_done_callback(partial(self._ended, accepted, address))

    async def _shake_hands(self, accepted: socket.socket, address: str) -> None:
        try:
            await self._loop.connect_accepted_socket(
                self._connection, accepted, ssl=self._context, ssl_handshake_timeout=self._handshake_s
            )
        except (OSError, ssl.SSLError) as error:
            self._fails(address, str(error) or type(error).__name__)

    def _ended(self, accepted: socket.socket, address: str, task: asyncio.Task[None]) -> None:
        self.under_way.pop(task, None)
        if task.cancelled():
            accepted.close()  # where its task had not begun; else its transport has done so
            self._fails(address, f"{len(self.under_way)} others are under way, and it was the oldest one")
        elif (error := task.exception()) is not None:
            logger.error("a TLS connection of %s failed", address, exc_info=error)

    def _fails(self, address: str, reason: str) -> None:
        self.failed += 1
        now_s = self._loop.time()
        if now_s - self._said_s >= _LINE_EVERY_S:
            self._said_s = now_s
            logger.warning("%d TLS handshakes have failed; the last one, of %s: %s", self.failed, address, reason)
