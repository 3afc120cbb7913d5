"""The progress bar of `duramen load`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from duramen.cli.terminal.console import console
from duramen.loading import LoadProgress

__all__ = ["progress_bar"]


@contextmanager
def progress_bar(table: str) -> Iterator[Callable[[LoadProgress], None]]:
    """A bar on the standard error."""
    with Progress(
        TextColumn(f"loading {table}"),
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("{task.fields[rows]:,} rows"),
        TextColumn("{task.fields[rate]:,.0f} rows/s"),
        TimeRemainingColumn(),
        console=console(stderr=True),
        transient=True,
        refresh_per_second=5,
    ) as bar:
        task = bar.add_task("", total=None, rows=0, rate=0.0)
        began = time.monotonic()

        def show(progress: LoadProgress) -> None:
            rate = progress.rows / max(time.monotonic() - began, 1e-3)
            bar.update(task, total=progress.size, completed=progress.position, rows=progress.rows, rate=rate)

        yield show
