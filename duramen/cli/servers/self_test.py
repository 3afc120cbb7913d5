"""The work of `duramen check`: clients on servers that run, or on a cluster of its own; and its report."""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path
from typing import Any, Final

from duramen.cli.terminal.output import say, say_json, say_note
from duramen.cli.terminal.text import counted
from duramen.verification.checker import INVARIANTS, Violation
from duramen.verification.history import History

__all__ = ["check_own", "check_running", "report"]

# A person reads the first few; the history has them all.
_SHOWN_MAX: Final = 20

# Of the puts and updates, so many are about expiries.
_EXPIRING: Final = 0.1


async def check_running(
    at: str, log: str | None, seconds: float, clients: int, seed: str
) -> tuple[History, dict[str, Any]]:
    """Check the servers at `at`; every call and reply."""
    from duramen.verification.run import connect_to, run_check
    from duramen.verification.workload import WorkloadShape

    shape = WorkloadShape(clients=clients, expiring=_EXPIRING)
    connect = connect_to(at, timeout=shape.timeout_s)
    return await run_check(connect, seconds=seconds, seed=seed, shape=shape, targets=[at], log_url=log), {}


async def check_own(
    log: str | None, seconds: float, nodes: int, clients: int, seed: str
) -> tuple[History, dict[str, Any]]:
    """Check a cluster that is started for it; every call and reply, and the faults by kind and role."""
    from contextlib import AsyncExitStack

    from duramen.verification.chaos import Faults, break_children, child_faults
    from duramen.verification.cluster import StartedCluster
    from duramen.verification.run import connect_to, run_check
    from duramen.verification.scratch_log import scratch_log
    from duramen.verification.workload import WorkloadShape

    shape = WorkloadShape(clients=clients, expiring=_EXPIRING)
    async with AsyncExitStack() as opened:
        folder = opened.enter_context(tempfile.TemporaryDirectory(prefix="duramen-check-"))
        url = None if log is None else await opened.enter_async_context(scratch_log(log))
        cluster = await StartedCluster.open(Path(folder) / "data", nodes=nodes, log=url)
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


def report(history: History, violations: list[Violation], faults: dict[str, Any], seed: str, *, as_json: bool) -> None:
    """Say what was called, what was broken in between, and which promises did not hold."""
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
