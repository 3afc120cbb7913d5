"""What a command says: a JSON object per line for programs, text and tables for people, one line for an error."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from duramen.cli.terminal.text import obeyed_by_none
from log_tier.model.errors import DuramenError

__all__ = ["say", "say_end", "say_error", "say_failure", "say_json", "say_note", "say_table"]


def say(text: str) -> None:
    """A line for people. Much of it is what others have written: no terminal obeys anything in it."""
    sys.stdout.write(obeyed_by_none(text) + "\n")


def say_json(fields: Mapping[str, Any], *, flush: bool = False) -> None:
    """An object for programs; `flush` in streams that somebody waits for."""
    sys.stdout.write(json.dumps(fields, ensure_ascii=False) + "\n")
    if flush:
        sys.stdout.flush()


def say_end(event: Mapping[str, Any], *, as_json: bool) -> None:
    """The event `stopping`, with the `signal` that ends a server, or `stopped`. Flushed: programs wait for it."""
    if as_json:
        say_json(event, flush=True)
        return
    say(f"{event['signal']}: stopping" if event["event"] == "stopping" else "stopped cleanly")
    sys.stdout.flush()


def say_note(text: str) -> None:
    """A remark that is not the command's result."""
    sys.stderr.write(obeyed_by_none(text) + "\n")


def say_error(code: str, message: str, fields: Mapping[str, Any], *, retryable: bool, as_json: bool) -> None:
    """The one line of an error."""
    if as_json:
        line = json.dumps(
            {"error": code, "message": message, "fields": dict(fields), "retryable": retryable}, ensure_ascii=False
        )
    else:
        line = "error: " + obeyed_by_none(" ".join(message.split()))
    sys.stdout.flush()
    sys.stderr.write(line + "\n")


def say_failure(error: DuramenError, *, as_json: bool) -> None:
    """Print a `DuramenError` as `say_error` does."""
    say_error(error.code, error.message, error.fields, retryable=error.retryable, as_json=as_json)


def say_table(columns: Sequence[str], rows: Iterable[Sequence[object]], *, right: Sequence[str] = ()) -> None:
    """A table for people; the columns in `right` hold numbers."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    from duramen.cli.terminal.console import console

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        table.add_column(column, justify="right" if column in right else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(f"{cell:,}" if isinstance(cell, int) else obeyed_by_none(str(cell))) for cell in row))
    console().print(table)
