"""`duramen check`: the session self-test."""

from __future__ import annotations

import secrets
import tempfile
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from duramen.cli.terminal.options import AT_DEFAULT, At, Json, check_at
from duramen.cli.terminal.output import say, say_json, say_note
from duramen.cli.terminal.text import counted
from log_tier.model.errors import InvalidRequest

if TYPE_CHECKING:
    from duramen.verification.checker import Violation
    from duramen.verification.history import History

__all__ = ["check"]

# A person reads the first few; the history has them all.
_SHOWN_MAX = 20


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

    from duramen.verification.checker import check_history
    from duramen.verification.history import write_history

    if not (seconds > 0 and clients > 0 and nodes > 0):
        raise InvalidRequest("--seconds, --clients and --nodes take numbers above 0")
    if not kill:
        check_at(at, seconds)
    seed = seed or secrets.token_hex(4)
    if kill:
        made, faults = asyncio.run(_check_own(log, seconds, nodes, clients, seed))
    else:
        made, faults = asyncio.run(_check_running(at, log, seconds, clients, seed))
    if history is not None:
        write_history(made, history)
    violations = check_history(made)
    _report(made, violations, faults, seed, as_json=json)
    if violations:
        raise typer.Exit(1)


async def _check_running(
    at: str, log: str | None, seconds: float, clients: int, seed: str
) -> tuple[History, dict[str, Any]]:
    from duramen.verification.run import connect_to, run_check
    from duramen.verification.workload import WorkloadShape

    shape = WorkloadShape(clients=clients)
    connect = connect_to(at, timeout=shape.timeout_s)
    return await run_check(connect, seconds=seconds, seed=seed, shape=shape, targets=[at], log_url=log), {}


async def _check_own(
    log: str | None, seconds: float, nodes: int, clients: int, seed: str
) -> tuple[History, dict[str, Any]]:
    """Check a cluster that is started for it."""
    from contextlib import AsyncExitStack

    from duramen.verification.chaos import Faults, break_children, child_faults
    from duramen.verification.cluster import Cluster
    from duramen.verification.run import connect_to, run_check
    from duramen.verification.scratch_log import scratch_log
    from duramen.verification.workload import WorkloadShape

    shape = WorkloadShape(clients=clients)
    async with AsyncExitStack() as opened:
        folder = opened.enter_context(tempfile.TemporaryDirectory(prefix="duramen-check-"))
        url = None if log is None else await opened.enter_async_context(scratch_log(log))
        cluster = await Cluster.open(Path(folder) / "data", nodes=nodes, log=url)
        opened.push_async_callback(cluster.close)
        faults = Faults(child_faults(cluster), seed=seed)
        made = await run_check(
            connect_to(cluster.target, timeout=shape.timeout_s),
            seconds=seconds,
            seed=seed,
            shape=shape,
            targets=[cluster.target],
            faults=lambda stop: break_children(cluster, faults, stop),
            log_url=url,
        )
        made.about |= faults.counts
        return made, faults.counts


def _report(history: History, violations: list[Violation], faults: dict[str, Any], seed: str, *, as_json: bool) -> None:
    from duramen.verification.checker import INVARIANTS

    outcomes = Counter(f"{call.kind} {call.outcome}" for call in history.calls)
    if as_json:
        for violation in violations:
            say_json({"event": "violation", "invariant": violation.invariant, "what": violation.what})
        say_json(
            {
                "event": "checked",
                "seed": seed,
                "calls": len(history.calls),
                "records": len(history.log),
                "outcomes": outcomes,
                "faults": faults,
                "violations": len(violations),
            }
        )
        return
    say(f"{counted(len(history.calls), 'call')}, {counted(len(history.log), 'record')} in the log (seed {seed})")
    say("  " + ", ".join(f"{count:,} {name}" for name, count in sorted(outcomes.items())))
    for what, by_role in faults.items():
        say(f"  {what}: " + ", ".join(f"{role} {count}" for role, count in by_role.items()))
    calls = {call.number: call for call in history.calls}
    for violation in violations[:_SHOWN_MAX]:
        say(f"BROKEN {violation.invariant} ({INVARIANTS[violation.invariant]}): {violation.what}")
        for number in violation.calls[:3]:
            call = calls[number]
            say_note(
                f"  call {number} by client {call.client}: {call.kind} {call.arguments} -> {call.outcome} {call.reply}"
            )
    if len(violations) > _SHOWN_MAX:
        say(f"… and {len(violations) - _SHOWN_MAX:,} more")
    say("every promise held" if not violations else f"{len(violations):,} violations")
