"""A cluster whose log is on three Kafka brokers, which fail: the history stays clean, and nothing stays broken."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient
from kit.cluster.cluster_process import ClusterProcess
from kit.cluster.process_watch import ProcessWatch, longest_stalls, said, tracebacks
from kit.deadlines import patience_s, wait_until
from kit.kafka.broker_faults import broker_faults, kill_all, lost_index, restart_all

import duramen
from deploy.kafka.brokers import Brokers
from duramen.blocking import Database, Table
from duramen.verification.chaos import ChaosFault, Faults, break_children, child_faults
from duramen.verification.checker import check_history
from duramen.verification.cluster import StartedCluster
from duramen.verification.history import Call, write_history
from duramen.verification.run import connect_to, run_check
from duramen.verification.workload import WorkloadShape

pytestmark = [pytest.mark.kafka, pytest.mark.campaign, pytest.mark.timeout(1200)]

CAMPAIGN = os.environ.get("DURAMEN_CAMPAIGN") == "1"
SEED = os.environ.get("DURAMEN_SEED", "kafka")

SHAPE = WorkloadShape(clients=6, watchers=2, timeout_s=5.0, pause_s=0.005)

# Grpc, librdkafka and our own: a process of a small cluster has some forty; a leak shows in a minute.
THREADS_MAX = 120


async def checked(
    brokers: Brokers,
    folder: Path,
    *,
    seconds: float,
    children: Callable[[StartedCluster], Sequence[ChaosFault]] = lambda cluster: (),
) -> dict[str, int]:
    """Run the check on a cluster of two nodes, with faults of the brokers, and those of `children` at the same time.

    Returns how often what happened.
    """
    namespace = f"t{uuid.uuid4().hex[:8]}"
    url = f"kafka://{brokers.bootstrap}/{namespace}"
    cluster = await StartedCluster.open(folder / "data", nodes=2, log=url)
    try:
        watch = ProcessWatch(cluster)
        ours = Faults(broker_faults(brokers, namespace), seed=SEED, calm_s=(0.3, 1.5))
        theirs = Faults(found, seed=f"{SEED}/children", calm_s=(1, 6)) if (found := children(cluster)) else None

        async def faults(stop: asyncio.Event) -> None:
            running = [ours.run(stop), watch.run(stop)]
            if theirs is not None:
                running.append(break_children(cluster, theirs, stop))
            await asyncio.gather(*running)

        history = await run_check(
            connect_to(cluster.target, timeout=SHAPE.timeout_s),
            seconds=seconds,
            seed=SEED,
            shape=SHAPE,
            partitions=6,
            targets=[cluster.target],
            faults=faults,
            log_url=url,
        )
    finally:
        await cluster.close()
    write_history(history, folder / "history.jsonl")
    events = [*ours.happened, *(theirs.happened if theirs is not None else [])]
    counts = Counter(f"{each.what} {each.whom}" for each in events)
    outcomes = Counter(f"{call.kind} {call.outcome}" for call in history.calls)
    errors = Counter(f"{call.kind} {call.reply['error']}" for call in history.calls if "error" in call.reply)
    words = {name: len(lines) for name, lines in said(folder / "data").items()}
    report = f"faults {dict(counts)}\ncalls {len(history.calls)}: {dict(outcomes)}\nerrors {dict(errors)}\n"
    report += f"stalls in s {longest_stalls(history, events)}\n{watch.described()}\nlines said {words}\n"
    (folder / "report.txt").write_text(report)
    sys.stdout.write(report)  # pytest shows it where the test fails, and with -s
    assert check_history(history) == [], f"the history is in {folder}"
    # A machine that is busy with more than this test adds its own seconds.
    writes = [_seconds(call) for call in history.calls if call.kind in ("write", "batch") and call.client >= 0]
    late = [took for took in writes if took > SHAPE.timeout_s + 5]
    assert len(late) == 0, f"calls with {SHAPE.timeout_s} s that took longer: {late}"
    assert outcomes["write ok"] > 2 * seconds, "the load went on"
    assert max(watch.threads.values()) < THREADS_MAX, watch.described()
    for name, lines in said(folder / "data").items():
        assert tracebacks(lines) == [], name
    return dict(counts)


def _seconds(call: Call) -> float:
    return (call.end_ns - call.start_ns) / 1e9


async def test_the_promises_hold_while_brokers_fail(three_brokers: Callable[..., Brokers], tmp_path: Path) -> None:
    brokers = await asyncio.to_thread(three_brokers)
    counts = await checked(brokers, tmp_path, seconds=480 if CAMPAIGN else 30)
    assert counts.get("killed leader", 0) + counts.get("paused leader", 0) >= (30 if CAMPAIGN else 1), counts


async def test_the_promises_hold_while_brokers_and_processes_fail(
    three_brokers: Callable[..., Brokers], tmp_path: Path
) -> None:
    """Nodes and the router are killed and paused, and a node loses its index, while brokers fail."""
    brokers = await asyncio.to_thread(three_brokers)

    def children(cluster: StartedCluster) -> list[ChaosFault]:
        return [*child_faults(cluster), lost_index(cluster, tmp_path / "data")]

    counts = await checked(brokers, tmp_path, seconds=240 if CAMPAIGN else 25, children=children)
    assert sum(counts.get(name, 0) for name in ("killed node", "killed router", "lost index")) >= 1, counts


def test_an_outage_of_all_brokers_is_a_pause(three_brokers: Callable[..., Brokers], tmp_path: Path) -> None:
    """What was applied is read meanwhile, a put ends in its time, and everything goes on by itself afterwards."""
    brokers = three_brokers()
    cluster = ClusterProcess(tmp_path / "data", nodes=2, log=f"kafka://{brokers.bootstrap}/outage")
    try:
        with cluster.connect() as database:
            flights = database.create_table("flights", partitions=4, replicas=2)
            flights.put_many((b"UA%d" % number, b"on time") for number in range(200))
            token = flights.put(b"last", b"1").token
            cluster.wait_ready("flights")
            cluster.rows("admin", "verify", "flights")  # every replica has applied them, so that any may be read
            before = dict(cluster.children)

            kill_all(brokers)
            unknown = _work_without_log(database, cluster, seconds=60 if CAMPAIGN else 8)
            assert cluster.children == before, "no process ended"
            reasons = _lag_reasons(cluster)
            assert reasons
            assert all("the log does not answer" in reason for reason in reasons), reasons
            assert [each["state"] for each in cluster.rows("admin", "nodes")] == ["alive"] * 2

            os.kill(cluster.pid("n2"), signal.SIGKILL)  # it starts again when there is a log
            restart_all(brokers)
            wait_until(lambda: _lands(flights, b"after", b"1"), "puts go on")
            assert flights.get(b"after") == b"1"
            assert flights.get(b"UA7", after=token) == b"on time"
            wait_until(lambda: "n2" in cluster.children and cluster.children["n2"] != before["n2"], "n2 is back")
            cluster.wait_ready("flights")
            wait_until(lambda: not _lag_reasons(cluster), "no replica is behind")
            assert cluster.children["n1"] == before["n1"]
            assert cluster.children["router"] == before["router"]
            found = dict(flights.scan(prefix=b"outage", level="strong"))
            assert found.items() <= unknown.items(), "each is there as it was written, or not at all"
            assert [each["verdict"] for each in cluster.rows("admin", "verify", "flights")] == ["equal"] * 4
        for name, lines in said(tmp_path / "data").items():
            assert tracebacks(lines) == [], name
            assert len(lines) < 100, f"{name} hides what it has to say: {lines[:40]}"
    finally:
        cluster.close()


def test_duramen_check_has_a_namespace_of_its_own_and_leaves_nothing(kafka_url: str) -> None:
    command = [sys.executable, "-m", "duramen", "check", "--kill", "--nodes", "2", "--seconds", "3"]
    done = subprocess.run(
        [*command, "--log", kafka_url, "--json"],
        capture_output=True,
        text=True,
        timeout=patience_s(170),
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-2000:]
    result = json.loads(done.stdout.splitlines()[-1])
    assert result["violations"] == 0
    assert result["outcomes"]["served ok"] == 1, "the log was read by itself"
    _, _, brokers, namespace = kafka_url.split("/")
    topics = AdminClient({"bootstrap.servers": brokers}).list_topics(timeout=patience_s(10)).topics
    assert not [name for name in topics if name.startswith(namespace)]


def _work_without_log(database: Database, cluster: ClusterProcess, *, seconds: float) -> dict[bytes, bytes]:
    """Read and write for a while; what may be written."""
    flights = database.table("flights")
    tried: dict[bytes, bytes] = {}
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        key = b"outage%d" % len(tried)
        tried[key] = key
        began = time.monotonic()
        with pytest.raises((duramen.WriteUnknown, duramen.Unavailable)):
            flights.put(key, key, timeout=1.5)
        assert time.monotonic() - began < patience_s(6), "within its time, and what a busy machine adds"
        assert flights.get(b"UA%d" % (len(tried) % 200), level="eventual") == b"on time"
        assert flights.get(b"UA%d" % (len(tried) % 200)) == b"on time"
        with pytest.raises(duramen.Unavailable):
            flights.get(b"UA1", level="strong", timeout=1.5)
    return tried


def _lands(table: Table, key: bytes, value: bytes) -> bool:
    try:
        table.put(key, value, timeout=5)
    except (duramen.WriteUnknown, duramen.Unavailable):
        return False
    return True


def _lag_reasons(cluster: ClusterProcess) -> list[str]:
    rows = cluster.rows("admin", "lag", "flights")
    return sorted({each["reason"] for each in rows if each["reason"]})
