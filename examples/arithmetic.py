"""The replicated arithmetic service: the textbook example of state-machine replication.

The service keeps variables and takes four kinds of command: `x?` reads, `x+=5`, `x-=2` and `y*=2` change. Several
clients send commands at once. What `x+=5` and `x*=2` make of each other depends on who comes first, so replicas agree
only if all of them apply the same commands in the same order. That order is the log.

Here one log (`duramen up`) feeds two replicas that know nothing of each other. Each is a process of its own with an
index of its own, reads the log over the network and folds it. When both have applied the same offset they hold the
same variables, versions included, so their digests are equal; and both equal a ten-line model in plain Python that
applies the commands in the log's order. A third replica that begins when everything is over gets there as well.

    python examples/arithmetic.py
"""

from __future__ import annotations

import asyncio
import json
import random
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duramen
from duramen.blocking import Table

CLIENTS = 4
COMMANDS_EACH = 150
VARIABLES = "xyz"

_COMMAND = re.compile(r"([a-z])(?:(\?)|([+\-*])=(\d+))")


def execute(table: Table, command: str) -> int:
    """One command of the service; its answer is the variable's value, as the log's order makes it."""
    parsed = _COMMAND.fullmatch(command)
    if parsed is None:
        raise ValueError(f"{command!r} is no command: x?, x+=5, x-=2 or x*=2")
    name, question, operator, operand = parsed.groups()
    key = name.encode()
    if question:
        return int(table.get(key, level="strong") or 0)
    if operator == "*":
        done = table.update(key, multiply=int(operand))
    else:
        done = table.update(key, add=int(operand) if operator == "+" else -int(operand))
    assert isinstance(done.value, int)
    return done.value


def model_of(table: Table, records: int) -> dict[str, int]:
    """What the commands come to if a plain program applies them one after the other, in the order of the log."""
    variables: dict[str, int] = {}
    changes = table.watch(start="earliest")
    for _ in range(records):
        change = next(changes)
        name, operand = change.key.decode(), int(change.value or b"0")
        before = variables.get(name, 0)
        variables[name] = before * operand if change.operation.name == "MULTIPLY" else before + operand
    changes.close()
    return variables


# --- a replica: a process that reads the log and folds it into an index of its own


async def run_replica(target: str, table_id: str, folder: str) -> None:
    """Follow the log at `target`; answer every offset on the standard input with the state at that offset."""
    from log_tier.model.identifiers import Offset
    from log_tier.open import open_log
    from serving_tier.node.node import Node

    log = await open_log(f"grpc://{target}")
    node = await Node.open(log, Path(folder))
    try:
        (topic,) = [topic for topic in await log.topics() if topic.id == table_id]
        replica = await node.host(topic, topic.partition(0))
        for line in sys.stdin:
            await replica.wait_applied(Offset(int(line)), timeout=30)
            found = replica.index.get_many([name.encode() for name in VARIABLES])
            state = {name: int(value) for name, value in zip(VARIABLES, found.values, strict=True) if value is not None}
            print(json.dumps({"digest": replica.index.digest(), "state": state, "applied": found.applied}), flush=True)
    finally:
        await node.close()
        await log.close()


class ReplicaProcess:
    """A replica, as the main process sees it."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def at(self, offset: int) -> dict[str, Any]:
        """Its state once it has applied `offset`."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(offset, file=self._process.stdin, flush=True)
        state: dict[str, Any] = json.loads(self._process.stdout.readline())
        return state


@contextmanager
def running(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A process that is ended with the block."""
    process = subprocess.Popen(
        [sys.executable, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    )
    with process:
        try:
            yield process
        finally:
            process.terminate()


def check(claim: str, holds: bool) -> None:
    print(f"{'ok  ' if holds else 'FAIL'}  {claim}")
    if not holds:
        sys.exit(1)


def client(table: Table, seed: int) -> int:
    """Send random commands; return how many of them changed something."""
    choose = random.Random(seed)
    changed = 0
    for _ in range(COMMANDS_EACH):
        name = choose.choice(VARIABLES)
        command = choose.choice([f"{name}?", f"{name}+=5", f"{name}-=2", f"{name}*={choose.choice([0, 1, 2])}"])
        execute(table, command)
        changed += "?" not in command
    return changed


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="duramen-") as text:
        folder = Path(text)
        with running("-m", "duramen", "up", "--port", "0", "--json", "--data", str(folder / "data")) as server:
            assert server.stdout is not None
            target = f"127.0.0.1:{json.loads(server.stdout.readline())['port']}"
            with duramen.connect(target) as database:
                replicate(database, target, folder)


def replicate(database: duramen.blocking.Database, target: str, folder: Path) -> None:
    # One partition: the variables share one order, and so commands on several of them would be ordered as well.
    table = database.create_table("variables", partitions=1)
    table_id = table.describe().table.id
    with (
        running(__file__, "--replica", target, table_id, str(folder / "a")) as one,
        running(__file__, "--replica", target, table_id, str(folder / "b")) as two,
        ThreadPoolExecutor(CLIENTS) as threads,
    ):
        first, second = ReplicaProcess(one), ReplicaProcess(two)
        changed = sum(threads.map(lambda seed: client(table, seed), range(CLIENTS)))
        print(f"{CLIENTS} clients sent {CLIENTS * COMMANDS_EACH} commands; {changed} of them changed a variable")
        latest = table.describe().partitions[0].latest
        a, b = first.at(latest), second.at(latest)
    for name, state in (("replica a", a), ("replica b", b)):
        shown = ", ".join(f"{variable} = {value}" for variable, value in state["state"].items())
        print(f"  {name}: offset {state['applied']}, digest {state['digest']}: {shown}")
    check("both replicas applied the whole log", a["applied"] == b["applied"] == latest == changed - 1)
    check("their digests are equal", a["digest"] == b["digest"])
    check("they hold what the commands come to in the log's order", a["state"] == model_of(table, changed))
    answers = {name: execute(table, f"{name}?") for name in VARIABLES}
    check("the service answers the same", all(answers[name] == a["state"].get(name, 0) for name in VARIABLES))
    with running(__file__, "--replica", target, table_id, str(folder / "c")) as three:
        check("a replica that comes late gets there too", ReplicaProcess(three).at(latest)["digest"] == a["digest"])


if __name__ == "__main__":
    if sys.argv[1:2] == ["--replica"]:
        asyncio.run(run_replica(*sys.argv[2:5]))
    else:
        main()
