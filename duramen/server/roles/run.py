"""Running a role in this process until a signal ends it."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Protocol, TypeVar

from duramen.server.roles.grpc_server import quick_switching
from duramen.server.wiring.allocator import keep_large_buffers
from log_tier.concurrency.descriptors import raise_descriptor_limit
from log_tier.model.errors import DuramenError, InvalidRequest
from log_tier.privacy.private_files import take_private_umask

__all__ = ["Role", "check_assertions", "run_role", "run_until_signal"]

logger = logging.getLogger(__name__)


class Role(Protocol):
    """A server role that `run_role` can run."""

    @property
    def port(self) -> int:
        """The port it listens on."""
        ...

    async def close(self) -> None:
        """Stop cleanly."""
        ...


R = TypeVar("R", bound=Role)


async def run_until_signal(
    opening: Awaitable[R], *, started: Callable[[R], None], stopping: Callable[[str], None]
) -> None:
    """Run a role until SIGTERM, SIGINT, or until it says that it must not go on; then raise why.

    `started` is called when it takes requests, `stopping` with what ended it.
    """
    role = await opening
    quick_switching()
    loop = asyncio.get_running_loop()
    stop: asyncio.Future[str] = loop.create_future()

    def on_signal(number: signal.Signals) -> None:
        if stop.done():
            # Asked twice: the log is safe at any time, only the indexes' clean mark is lost.
            os._exit(128 + number)
        stop.set_result(number.name)

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, on_signal, number)
    ended: asyncio.Future[DuramenError] | None = getattr(role, "ended", None)
    failure: DuramenError | None = None
    try:
        started(role)
        waited: list[asyncio.Future[Any]] = [stop] if ended is None else [stop, ended]
        await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
        if ended is not None and ended.done():
            failure = ended.result()
            stop.cancel()
        stopping(failure.message if failure is not None else stop.result())
    finally:
        try:
            await role.close()
        except DuramenError as error:
            logger.error("closing: %s", error)
            raise
        finally:
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.remove_signal_handler(number)
    if failure is not None:
        raise failure


def check_assertions() -> None:
    """Raise `InvalidRequest` in a Python that runs without assertions: before anything of a server is begun."""
    if not __debug__:
        raise InvalidRequest(
            "this Python runs without assertions (-O, or PYTHONOPTIMIZE is set), and a server relies on them to stop "
            "before it writes or answers what is wrong: start it without"
        )


def run_role(work: Coroutine[Any, Any, None]) -> None:
    """Run on uvloop, where it is installed, with as many open files as the system allows; what the process creates is
    for this user only, and it keeps the memory of large buffers.
    """
    raise_descriptor_limit()
    keep_large_buffers()
    take_private_umask()
    try:
        import uvloop
    except ImportError:
        asyncio.run(work)
    else:
        uvloop.run(work)
