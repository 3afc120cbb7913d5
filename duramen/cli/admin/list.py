"""`duramen admin nodes | partitions | lag | snapshots | plan`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Final

import typer

from duramen.cli.admin.arguments import Table
from duramen.cli.admin.figures import duration, local_time, offset, place, size
from duramen.cli.terminal.options import AT_DEFAULT, At, Json, Timeout
from duramen.cli.terminal.output import say, say_table

__all__ = ["lag", "nodes", "partitions", "plan", "snapshots"]

# A clock that is off by more than this makes log times and expiries strange.
_SKEW_SHOWN_MS: Final = 500

_NOT_USABLE: Final = " (not usable: it is of before the last swap, or the log no longer goes on from it)"


def nodes(at: At = AT_DEFAULT, timeout: Timeout = 10.0, json: Json = False) -> None:
    """Show the serving nodes: who is there, what they hold, how busy they are; and the log's server, if it is another.

    \b
      duramen admin nodes
      duramen admin nodes --json | jq 'select(.state == "lost") | .node'
    """
    from duramen.cli.admin.answer import say_answer
    from duramen.cli.admin.connection import ask
    from duramen.cli.admin.rendering import node_state
    from duramen.cli.terminal.status_client import asked_status

    found = ask(at, timeout, lambda admin: admin.nodes())
    if json:
        for each in found:
            say_answer(each)
        return
    if not found:
        say("no node has registered yet: `duramen serve node` starts one")
        return
    columns = ["node", "state", "address", "replicas", "ready", "bytes", "lag", "load", "disk free", "up"]
    say_table(
        columns,
        [
            (
                each.node,
                node_state(each),
                each.address or "(in a program)",
                each.replicas,
                each.ready,
                size(each.bytes),
                duration(each.lag_ms / 1000),
                each.load,
                size(each.disk_free),
                duration(each.uptime_s),
            )
            for each in found
        ],
        right=columns[3:],
    )
    for each in found:
        if each.state == "lost":
            say(f"{each.node} is lost: {each.reason}")
        elif abs(each.clock_skew_ms) > _SKEW_SHOWN_MS:
            say(f"the clock of {each.node} is off by {each.clock_skew_ms / 1000:+.1f} s")
        if each.insecure:
            say(f"{each.node} was started with --insecure: everybody who reaches {each.address} can listen and answer")
        elif each.without_users:
            say(f"{each.node} has no users: everybody who reaches {each.address} reads and writes everything")
    for line in _of_the_log(asked_status(at, timeout)):
        say(line)


def _of_the_log(status: dict[str, Any]) -> Iterator[str]:
    """What the server that answers saw of the log's, another process; nothing where it saw none."""
    if status.get("log_place") == "kafka":
        yield "the log is Kafka's: the clocks and disks of its brokers are not known here"
    server = status.get("log_server")
    if server is None:
        return
    if not server["alive"]:
        yield f"the log's server at {server['address']} does not answer: {server['reason']}"
        return
    free, size_of_all = server["disk_free_bytes"], server["disk_full_bytes"]
    disk = "" if free is None else f", {size(free)} of {size(size_of_all)} disk free"
    yield f"the log's server at {server['address']} answers{disk}"
    if server["stopped"] is not None:
        yield f"the log acknowledges nothing more: {server['stopped']}"
    if abs(server["clock_skew_s"]) > 1:
        yield f"the clock of the log's server is off by {server['clock_skew_s']:+d} s"


def partitions(table: Table = "", at: At = AT_DEFAULT, timeout: Timeout = 10.0, json: Json = False) -> None:
    """Show every partition: its log, its replicas and their status.

    A replica that is not simply a ready member is shown with its role or state.

    \b
      duramen admin partitions
      duramen admin partitions flights
      duramen admin partitions --json | jq 'select(.ready < .wanted)'
    """
    from duramen.cli.admin.answer import say_answer
    from duramen.cli.admin.connection import ask
    from duramen.cli.admin.rendering import replica_status

    found = ask(at, timeout, lambda admin: admin.partitions(table))
    if json:
        for each in found:
            say_answer(each)
        return
    if not found:
        say("no tables yet: `duramen table create NAME` makes one")
        return
    columns = ["partition", "earliest", "latest", "keys", "bytes", "snapshot", "ready", "replicas"]
    say_table(
        columns,
        [
            (
                place(each),
                each.earliest,
                offset(each.latest),
                each.keys,
                size(each.bytes),
                offset(each.snapshot if each.HasField("snapshot") else None),
                f"{each.ready} of {each.wanted}",
                "  ".join(replica_status(replica) for replica in each.replicas),
            )
            for each in found
        ],
        right=columns[1:6],
    )
    for each in found:
        if each.void:
            void = f"{each.void:,} of its records are void"
            say(f"{place(each)}: {void}: no table can hold them, or they do not fit its definition; they are skipped")
        if each.retention_held_by:
            say(f"{place(each)}: its retention removes nothing: {each.retention_held_by}")
        for replica in each.replicas:
            if replica.state == "stopped":
                say(f"{place(each)} on {replica.node} stopped: {replica.reason}")


def lag(
    table: Table = "",
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="Only the first so many.")] = 50,
    at: At = AT_DEFAULT,
    timeout: Timeout = 10.0,
    json: Json = False,
) -> None:
    """Show how far the replicas are behind the log, the furthest first.

    \b
      duramen admin lag
      duramen admin lag flights --limit 5
    """
    from duramen.cli.admin.answer import say_answer
    from duramen.cli.admin.connection import ask

    found = ask(at, timeout, lambda admin: admin.lag(table))
    if json:
        for each in found[:limit]:
            say_answer(each)
        return
    columns = ["partition", "node", "state", "applied", "latest", "records", "time", "reason"]
    say_table(
        columns,
        [
            (
                place(each),
                each.node,
                each.state,
                offset(each.applied),
                offset(each.latest),
                each.lag_records,
                duration(each.lag_ms / 1000),
                each.reason,
            )
            for each in found[:limit]
        ],
        right=columns[3:7],
    )
    if len(found) > limit:
        say(f"{len(found) - limit} more: --limit {len(found)}")


def snapshots(table: Table = "", at: At = AT_DEFAULT, timeout: Timeout = 10.0, json: Json = False) -> None:
    """Show the snapshots that were taken, verified and stored.

    \b
      duramen admin snapshots
      duramen admin snapshots flights --json | jq -r .path
    """
    from duramen.cli.admin.answer import say_answer
    from duramen.cli.admin.connection import ask

    found = ask(at, timeout, lambda admin: admin.snapshots(table))
    if json:
        for each in found:
            say_answer(each)
        return
    if not found:
        say("no snapshots yet: `duramen admin snapshot` takes them")
        return
    columns = ["partition", "offset", "behind", "log time", "keys", "bytes", "by", "path"]
    say_table(
        columns,
        [
            (
                place(each),
                offset(each.offset),
                each.behind_records,
                local_time(each.log_time_ms) if each.log_time_ms else "-",
                each.keys,
                size(each.bytes),
                each.node,
                each.path + ("" if each.usable else _NOT_USABLE),
            )
            for each in found
        ],
        right=["offset", "behind", "keys", "bytes"],
    )


def plan(at: At = AT_DEFAULT, timeout: Timeout = 10.0, json: Json = False) -> None:
    """Show what the cluster would do by itself now, and why: about lost nodes, and about full, slow and hot ones.

    Nothing is begun by it. The router that --at names answers: which nodes it misses, which have too much and since
    when, which replicas go where, and what is in the way. See --heal-after and --relieve-after of `duramen serve
    router` and `duramen up`, and `duramen admin automate`.

    \b
      duramen admin plan
      duramen admin plan --json | jq '.blocked[]'
    """
    from duramen.cli.admin.answer import say_answer
    from duramen.cli.admin.connection import ask
    from duramen.cli.admin.rendering import say_healing, say_relief

    found = ask(at, timeout, lambda admin: admin.healing())
    if json:
        say_answer(found)
        return
    say_healing(found)
    say_relief(found.relief)
