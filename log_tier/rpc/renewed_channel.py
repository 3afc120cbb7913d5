"""The channel of a wire: one of gRPC, replaced while it is used when its certificates change.

gRPC reads a channel's certificates once. A long-lived client, or a server that calls others, would need a restart after
each change. So the files are looked at while calls are made, at most every few seconds, and whenever no connection can
be made. Once they have changed, a second channel is opened with the new ones. When it is connected, new calls go over
it, and the first channel is closed after its last call. A second channel that cannot connect is closed, and the first
one stays: a certificate that the server does not take yet harms nobody.

Streams stay with the channel that they began on, however long they last. A reader begins a stream again after a loss,
over the channel of then.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable
from contextvars import copy_context
from functools import partial
from typing import Any, Final

from log_tier.concurrency.tasks import TaskSet, end_tasks, every_step
from log_tier.model.errors import CertificateInvalid
from log_tier.rpc.channel import RECONNECTED_S
from log_tier.rpc.open_calls import OpenCalls
from log_tier.rpc.security import SECURITY
from log_tier.rpc.transport import TRANSPORT

__all__ = ["LOOK_EVERY_S", "RenewedChannel"]

logger = logging.getLogger(__name__)

# Three `stat` calls; a rotation of certificates is waited for by people.
LOOK_EVERY_S: Final = 2.0


class RenewedChannel:
    """Belongs to one event loop. Without security, it is one channel for ever."""

    def __init__(self, target: str) -> None:
        """Raises `CertificateInvalid`."""
        self._target = target
        self._security = SECURITY.get()
        self.is_secured = self._security is not None
        """Are there certificates, which may change? If not, `look` is needless."""
        # Before the channel reads them: a change in between is then found by the first look.
        self._stamp = None if self._security is None else self._security.stamp()
        self._context = copy_context()
        self.calls = OpenCalls(self._open())
        """The calls over the present channel."""
        self.for_stubs: Any = self.calls.channel if self._security is None else _Stubbed(lambda: self.calls.channel)
        """What generated stubs are made with. Their methods call over the channel that is present at each call."""
        self._before: list[OpenCalls] = []
        """The calls over earlier channels, which are not closed yet."""
        self._look_again_s = 0.0
        self._renewing: asyncio.Task[None] | None = None
        self._closing = TaskSet()
        self._process = os.getpid()
        self._closed = False

    def _open(self) -> Any:
        return self._context.run(lambda: TRANSPORT.get().channel(self._target))

    def look(self) -> None:
        """Begin to renew the channel, if its files have changed; they are looked at every `LOOK_EVERY_S`."""
        if self._security is None or (self._renewing is not None and not self._renewing.done()):
            return
        loop = asyncio.get_running_loop()
        if loop.time() < self._look_again_s or self._process != os.getpid():
            return
        self._look_again_s = loop.time() + LOOK_EVERY_S
        stamp = self._security.stamp()
        if stamp != self._stamp:
            self._renewing = loop.create_task(self._renew(stamp), name=f"new certificates for {self._target}")

    def unconnected(self) -> None:
        """A call found no connection: if files have changed, another channel is used at once."""
        if self._security is None or self._closed or self._process != os.getpid():
            return
        stamp = self._security.stamp()
        channel = None if stamp == self._stamp else self._made(stamp)
        if channel is not None:
            self._use(channel, stamp)

    async def _renew(self, stamp: object) -> None:
        """Use a channel with the files of `stamp` as soon as it is connected."""
        channel = self._made(stamp)
        if channel is None:
            return
        try:
            async with asyncio.timeout(RECONNECTED_S):
                await channel.channel_ready()
        except TimeoutError:
            logger.warning("%s is not reached with new certificates, the old connection stays in use", self._target)
            await channel.close(None)
        except BaseException:
            await channel.close(None)
            raise
        else:
            if stamp == self._stamp:  # `unconnected` was faster
                await channel.close(None)
            else:
                self._use(channel, stamp)

    def _made(self, stamp: object) -> Any:
        """A new channel; None for files that cannot be used."""
        try:
            return self._open()
        except CertificateInvalid as error:
            self._stamp = stamp  # until they change again
            logger.error("new certificates cannot be used, %s is called with the old ones: %s", self._target, error)
            return None

    def _use(self, channel: Any, stamp: object) -> None:
        before, self.calls, self._stamp = self.calls, OpenCalls(channel), stamp
        self._before.append(before)
        logger.info("%s is called with new certificates from now on", self._target)
        self.ended(before)

    def ended(self, calls: OpenCalls) -> None:
        """A call of `calls` has ended: close an earlier channel after its last one."""
        if calls is not self.calls and calls.is_empty and calls in self._before:
            self._before.remove(calls)
            self._closing.start(_closed(calls), name=f"close an earlier channel to {self._target}")

    async def close(self) -> None:
        """End all calls and close all channels. Idempotent."""
        self._closed = True
        if self._process != os.getpid():
            await self.calls.channel.close(None)
            return
        closings = (partial(_closed, calls) for calls in (self.calls, *self._before))
        await every_step(partial(end_tasks, self._renewing), *closings, self._closing.wait)


async def _closed(calls: OpenCalls) -> None:
    await calls.end()
    await calls.channel.close(None)


class _Stubbed:
    """What generated stubs ask a channel for."""

    def __init__(self, present: Callable[[], Any]) -> None:
        self._present = present

    def __getattr__(self, kind: str) -> Callable[..., Any]:
        """`unary_unary`, `unary_stream` and the others: what makes a method."""

        def made(*method: Any, **how: Any) -> Callable[..., Any]:
            channel, bound = None, None

            def call(*request: Any, **options: Any) -> Any:
                nonlocal channel, bound
                if (present := self._present()) is not channel:
                    channel, bound = present, getattr(present, kind)(*method, **how)
                assert bound is not None, f"the method {method} was made"
                return bound(*request, **options)

            return call

        return made
