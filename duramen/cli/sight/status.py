"""`duramen status`: whether all is well with a server, and if not the one thing to do first."""

from __future__ import annotations

from typing import Any

import typer

from duramen.cli.admin.figures import duration, size
from duramen.cli.terminal.exits import RETRY
from duramen.cli.terminal.options import AT_DEFAULT, At, Json, Timeout, check_at
from duramen.cli.terminal.output import say, say_json
from duramen.cli.terminal.status_client import asked_status

__all__ = ["status"]


def status(at: At = AT_DEFAULT, timeout: Timeout = 3.0, json: Json = False) -> None:
    """Say in three lines whether all is well with a server, and if not the one thing to do first.

    The server says what it knows, and asks no other one for it: it answers while the rest of the cluster does not. A
    router knows all nodes and the log's server, a node its own replicas and the log's server. Exit code 0 if the
    server is ready, 5 if not (yet), or where nobody answers. --json prints the whole document as one line.

    \b
      duramen status
      duramen status --json | jq '.partitions[] | select(.lag_records > 0)'
    """
    check_at(at, timeout)
    facts = asked_status(at, timeout)
    if json:
        say_json(facts)
    else:
        for line in _lines(facts):
            say(line)
    if not facts["ready"]:
        raise typer.Exit(RETRY)


def _lines(facts: dict[str, Any]) -> list[str]:
    """Three lines for a person."""
    who = facts["name"] if facts["name"] == facts["role"] else f"{facts['role']} {facts['name']}"
    partitions, troubles = facts["partitions"], facts["troubles"]
    ready = sum(each["state"] == "ready" for each in partitions)
    if troubles:
        more = f" (and {len(troubles) - 1} more)" if len(troubles) > 1 else ""
        word = "not all is well" if facts["ready"] else "NOT READY"
        first = [f"{word}: {troubles[0]['what']}{more}", f"do first  {facts['first']}"]
    else:
        first = ["all is well", "do first  nothing"]
    nodes = facts["nodes"]
    alive = f", {sum(each['alive'] for each in nodes)} of {len(nodes)} nodes answer" if nodes else ""
    disk, memory = facts["disk"], facts["memory_bytes"]
    free = f", {size(disk['free_bytes'])} of {size(disk['full_bytes'])} disk free" if disk else ""
    used = f", {size(memory)} memory" if memory is not None else ""
    up = duration(facts["uptime_s"])
    serving = f"{ready} of {len(partitions)} partitions ready{alive}" if facts["role"] != "log" else _log(facts["log"])
    return [*first, f"{who}  {serving}{free}{used}, up {up}"]


def _log(facts: dict[str, Any]) -> str:
    return f"{facts['appends']:,} batches written, {facts['queued_batches']:,} wait for the disk"
