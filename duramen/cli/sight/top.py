"""`duramen top`: the night page, again each second."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Annotated, Any, Final

import typer

from duramen.cli.sight.night_page import PageLine, Silence, Style, night_page
from duramen.cli.terminal.exits import RETRY
from duramen.cli.terminal.options import AT_DEFAULT, At, Timeout, check_at
from duramen.cli.terminal.output import say
from duramen.cli.terminal.status_client import StatusClient
from duramen.server.sight.status_history import StatusHistory
from log_tier.model.errors import DuramenError

__all__ = ["top"]

# Rich's names of colours that both dark and light terminals show well.
_COLOURS: Final[dict[Style, str]] = {
    "title": "bold", "bad": "bold red", "warn": "yellow", "good": "green", "head": "bold", "plain": "", "dim": "dim",
}  # fmt: skip

# A page that goes to a file or another program.
_PIPED_COLUMNS: Final = 200
_PIPED_ROWS: Final = 10_000


def top(
    at: At = AT_DEFAULT,
    interval: Annotated[
        float, typer.Option("--interval", metavar="SECONDS", min=0.1, max=3600, help="How often to ask.")
    ] = 1.0,
    count: Annotated[int, typer.Option("--count", metavar="N", min=0, help="End after N pages; 0: on `q`.")] = 0,
    timeout: Timeout = 3.0,
) -> None:
    """Show whether all is well with a server, what to do first, and how far each partition lags: again each second.

    The page has what `duramen status` says, and what two answers say together: writes a second, how steeply a lag
    rises or falls, when it is level, when the disk is full. Partitions that need somebody stand first. `q` or Ctrl-C
    ends it. Where the output is no terminal, pages are printed one below the other. A server that stops answering is
    asked again until it does. With --count the exit code is that of `duramen status`.

    \b
      duramen top
      duramen top --at localhost:7070 --count 2 | tail -20
    """
    check_at(at, timeout)
    import asyncio

    if asyncio.run(_shown(at, interval, count, timeout)):
        return
    raise typer.Exit(RETRY)


async def _shown(at: str, interval: float, count: int, timeout: float) -> bool:
    """Show pages until the end; is the server ready then? Raises the first error if there never was an answer."""
    history, answered, pages = StatusHistory(), 0.0, 0
    with _keys() as ended, _screen() as show:
        async with StatusClient.connected(at, timeout=timeout) as client:
            while True:
                asked = time.monotonic()
                silence = None
                try:
                    history.add(await client.ask(), asked)
                    answered = asked
                except DuramenError as error:
                    if history.latest is None or not error.retryable:
                        raise
                    silence = Silence(time.monotonic() - answered, error.message)
                columns, rows = _terminal()
                show(night_page(history, at, columns, rows, silence))
                pages += 1
                if pages == count or await _over(ended, interval - (time.monotonic() - asked)):
                    return (silence is None and bool(history.latest and history.latest["ready"])) or not count


async def _over(ended: Any, pause_s: float) -> bool:
    """Wait, at most until `q` is pressed; was it? `ended`: an `asyncio.Event`."""
    import asyncio

    try:
        async with asyncio.timeout(max(0.0, pause_s)):
            await ended.wait()
    except TimeoutError:
        return bool(ended.is_set())
    return True


def _terminal() -> tuple[int, int]:
    """Columns and rows, newly asked for: people resize windows."""
    if not sys.stdout.isatty():
        return _PIPED_COLUMNS, _PIPED_ROWS
    found = shutil.get_terminal_size()  # as rich has it: `COLUMNS` and `LINES` count, and 80 × 24 without any
    return found.columns, found.lines


@contextmanager
def _screen() -> Iterator[Callable[[list[PageLine]], None]]:
    """What shows a page: the whole terminal, which is as it was at the end; else lines."""
    if not sys.stdout.isatty():
        yield _print
        return
    from rich.live import Live

    from duramen.cli.terminal.console import console

    with Live(console=console(), screen=True, auto_refresh=False) as live:
        yield lambda page: _draw(live, page)


def _print(page: list[PageLine]) -> None:
    for line in page:
        say(line.text)
    say("")
    sys.stdout.flush()


def _draw(live: Any, page: list[PageLine]) -> None:
    from rich.text import Text

    live.update(Text("\n").join(Text(line.text, style=_COLOURS[line.style]) for line in page), refresh=True)


@contextmanager
def _keys() -> Iterator[Any]:
    """An `asyncio.Event` that `q` sets, while the block runs in an event loop. Without a keyboard nothing sets it.

    So does a signal that ends the process: it takes effect when the terminal is as it was.
    """
    import asyncio
    import signal

    ended = asyncio.Event()
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        yield ended
        return
    import termios
    import tty

    keyboard = sys.stdin.fileno()
    before = termios.tcgetattr(keyboard)
    loop = asyncio.get_running_loop()

    def pressed() -> None:
        if b"q" in os.read(keyboard, 64).lower():
            ended.set()

    signals: list[signal.Signals] = []

    def signalled(number: signal.Signals) -> None:
        signals.append(number)
        ended.set()

    tty.setcbreak(keyboard)
    loop.add_reader(keyboard, pressed)
    for number in (signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, signalled, number)
    try:
        yield ended
    finally:
        loop.remove_reader(keyboard)
        with suppress(termios.error):  # the terminal itself may be gone
            termios.tcsetattr(keyboard, termios.TCSADRAIN, before)
        for number in (signal.SIGTERM, signal.SIGHUP):
            loop.remove_signal_handler(number)
        for number in signals[:1]:
            signal.raise_signal(number)
