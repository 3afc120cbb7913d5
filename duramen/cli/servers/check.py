"""`duramen check`: the session self-test."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Annotated

import typer

from duramen.cli.terminal.options import AT_DEFAULT, At, Json, check_at
from log_tier.model.errors import InvalidRequest

__all__ = ["check"]


def check(
    at: At = AT_DEFAULT,
    seconds: Annotated[float, typer.Option("--seconds", help="How long the clients work.")] = 10.0,
    kill: Annotated[
        bool,
        typer.Option(
            "--kill", help="Start a cluster of its own, and kill and pause its processes at random meanwhile."
        ),
    ] = False,
    log: Annotated[
        str | None,
        typer.Option(
            "--log",
            metavar="URL",
            help="Read the log itself too, here; with --kill: of the cluster's own log, in a namespace of its own.",
        ),
    ] = None,
    nodes: Annotated[int, typer.Option("--nodes", metavar="N", help="With --kill: serving nodes.")] = 3,
    clients: Annotated[int, typer.Option("--clients", metavar="N", help="Clients at the same time.")] = 8,
    seed: Annotated[
        str | None, typer.Option("--seed", help="The choice of calls and faults; printed, to repeat.")
    ] = None,
    history: Annotated[
        Path | None, typer.Option("--history", metavar="FILE", help="Write every call and reply, as JSON lines.")
    ] = None,
    json: Json = False,
) -> None:
    """Check that the promises hold: work for a while, then hold every reply against the log.

    The clients use a table of their own, which is dropped afterwards. The exit code is 1 where a promise was broken.

    \b
      duramen check --at localhost:7070 --seconds 30
      duramen check --kill --seconds 120 --history calls.jsonl
      duramen check --kill --log kafka://broker1:9092,broker2:9092
    """
    import asyncio

    from duramen.cli.servers.self_test import check_own, check_running, report
    from duramen.verification.checker import check_history
    from duramen.verification.history import write_history

    if not (seconds > 0 and clients > 0 and nodes > 0):
        raise InvalidRequest("--seconds, --clients and --nodes take numbers above 0")
    if not kill:
        check_at(at, seconds)
    seed = seed or secrets.token_hex(4)
    if kill:
        made, faults = asyncio.run(check_own(log, seconds, nodes, clients, seed))
    else:
        made, faults = asyncio.run(check_running(at, log, seconds, clients, seed))
    if history is not None:
        write_history(made, history)
    violations = check_history(made)
    report(made, violations, faults, seed, as_json=json)
    if violations:
        raise typer.Exit(1)
