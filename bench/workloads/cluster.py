"""Many nodes: `duramen up --nodes N` as processes of this machine, with everything on its two cores.

What a second machine would add (a network, other disks, more cores) is not here; what is compared (a hop, a replica
more, a kill) is what these workloads are about.
"""

from __future__ import annotations

import asyncio
import importlib
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count, cycle
from time import perf_counter, perf_counter_ns
from typing import Any, Final

from bench.callers import Timing, drive, run_async
from bench.data import make_pairs
from bench.drivers.duramen import SERVER_NEEDS
from bench.drivers.etcd import Etcd
from bench.drivers.grpc_echo import GrpcEcho
from bench.workload import Bar, Measurement, Needs, RunSettings, Side, Workload

__all__ = ["CLUSTER"]


__all__ = ["CLUSTER"]


_KEYS: Final = 100_000


_CALLERS: Final = 64


_NODES: Final = 3


_ETCD_NEEDS: Final = Needs(binaries=("etcd",), install="apt-get install etcd-server")


@asynccontextmanager
async def _cluster(settings: RunSettings, nodes: int = _NODES) -> AsyncIterator[Any]:
    started = importlib.import_module("duramen.verification.cluster")
    cluster = await started.Cluster.open(settings.folder / "data", nodes=nodes)
    try:
        yield cluster
    finally:
        await cluster.close()


@asynccontextmanager
async def _client(cluster: Any, **how: Any) -> AsyncIterator[Any]:
    async with await importlib.import_module("duramen.aio").connect(cluster.target, **how) as database:
        yield database


def _version() -> str:
    return f"duramen {importlib.import_module('duramen').__version__}"


# --- put here, get there


async def _elsewhere(settings: RunSettings) -> Measurement:
    """Put by one client, then get with its token at a node that is not the one a router would have asked first."""
    requests = importlib.import_module("router.data.requests")
    connection = importlib.import_module("router.remote.grpc_connection")
    partitioner = importlib.import_module("log_tier.model.partitioner")
    puts: list[int] = []
    wholes: list[int] = []
    async with _cluster(settings) as cluster, _client(cluster) as database:
        table = await database.create_table("bench", partitions=4, replicas=_NODES)
        topic = table._topic
        targets = [f"127.0.0.1:{child['port']}" for child in cluster.children.values() if child["role"] == "node"]
        servers = [connection.GrpcConnection(target) for target in targets]
        next_server, next_pair = cycle(servers).__next__, cycle(make_pairs(_KEYS)).__next__

        async def call() -> None:
            key, value = next_pair()
            partition = partitioner.partition_of(key, topic.partitions)
            began = perf_counter_ns()
            done = await table.put(key, value)
            put = perf_counter_ns() - began
            part = requests.ReadPart(topic.partition(partition), [key], done.offset)
            (result,) = await next_server().read([part], timeout=10)
            if result.values != [value]:
                raise AssertionError(f"{key!r} after {done.offset}: {result}")
            puts.append(put)
            wholes.append(perf_counter_ns() - began)

        await drive(call, callers=1, seconds=1.0, warmup=0.0)
        puts.clear()
        wholes.clear()
        await drive(call, callers=1, seconds=settings.seconds, warmup=0.0)
        for server in servers:
            await server.close()
    put, whole = Timing(seconds=1, latencies_ns=puts), Timing(seconds=1, latencies_ns=wholes)
    extra = Timing(seconds=1, latencies_ns=[w - p for w, p in zip(wholes, puts, strict=True)])
    return Measurement(
        {
            "put_p50_us": put.latency_us(0.5),
            "visible_p50_us": whole.latency_us(0.5),
            "visible_p99_us": whole.latency_us(0.99),
            "extra_p50_us": extra.latency_us(0.5),
        },
        _version(),
        "one caller; the get goes to each node in turn, over a connection of its own",
    )


async def _etcd(settings: RunSettings) -> Measurement:
    driver = Etcd(linearizable=True)
    wholes: list[int] = []
    puts: list[int] = []
    try:
        await driver.start(settings.folder)
        next_pair = cycle(make_pairs(_KEYS)).__next__

        async def call() -> None:
            key, value = next_pair()
            began = perf_counter_ns()
            await driver.put(key, value)
            puts.append(perf_counter_ns() - began)
            if await driver.get(key) != value:
                raise AssertionError(key)
            wholes.append(perf_counter_ns() - began)

        await drive(call, callers=1, seconds=1.0, warmup=0.0)
        puts.clear()
        wholes.clear()
        await drive(call, callers=1, seconds=settings.seconds, warmup=0.0)
    finally:
        await driver.stop()
    put, whole = Timing(seconds=1, latencies_ns=puts), Timing(seconds=1, latencies_ns=wholes)
    return Measurement(
        {
            "put_p50_us": put.latency_us(0.5),
            "visible_p50_us": whole.latency_us(0.5),
            "visible_p99_us": whole.latency_us(0.99),
        },
        driver.version,
        "one member: a put and a linearizable get, without the second member's way to the leader",
    )


ELSEWHERE: Final = Workload(
    "put_get_elsewhere",
    "put on one path, get with its token at another node",
    (
        Side("duramen", "subject", lambda settings: run_async(_elsewhere(settings)), SERVER_NEEDS),
        Side("etcd", "peer", lambda settings: run_async(_etcd(settings)), _ETCD_NEEDS),
    ),
    (Bar("extra_p50_us", "at most", 3000), Bar("visible_p99_us", "at most", 1, against="etcd")),
)


# --- reads under kills


async def _under_kills(settings: RunSettings) -> Measurement:
    """Token reads while one node after the other is killed; each is counted, and none may be stale or fail."""
    stop = asyncio.Event()
    reads = stale = failures = 0
    retried: list[float] = []
    kills: list[float] = []
    error = importlib.import_module("duramen").DuramenError
    member = importlib.import_module("router.membership.member").Member
    ask = member.ask

    async def noted(self: Any, question: Any) -> Any:
        """Note when a node has not answered and another one is asked: the last bar measures from then."""
        try:
            return await ask(self, question)
        except error:
            retried.append(perf_counter())
            raise

    member.ask = noted
    async with _cluster(settings) as cluster, _client(cluster, timeout=2) as writer:
        table = await writer.create_table("bench", partitions=4, replicas=_NODES)
        newest: dict[bytes, tuple[int, Any]] = {}

        async def write() -> None:
            for number in count():
                if stop.is_set():
                    return
                key = b"k%d" % (number % 200)
                done = await table.put(key, b"%d" % number, timeout=10)
                newest[key] = (number, done.token)

        async def read(mine: Any) -> None:
            nonlocal reads, stale, failures
            while not stop.is_set():
                await asyncio.sleep(0)  # nothing may be written yet
                for key, (number, token) in list(newest.items())[reads % 7 :: 7]:
                    try:
                        found = await mine.get(key, after=token)
                    except error:
                        failures += 1
                    else:
                        stale += found is None or int(found) < number
                    reads += 1

        async with _client(cluster, timeout=2) as first, _client(cluster, timeout=2) as second:
            tasks = [
                asyncio.create_task(write()),
                *(
                    asyncio.create_task(read(database.table("bench")))
                    for database in (first, second)
                    for _ in range(_CALLERS // 2)
                ),
            ]
            names = cycle(sorted(name for name, child in cluster.children.items() if child["role"] == "node"))
            # A longer run is a longer one here too: `--seconds 70` is some 70 kills and a million reads.
            for _ in range(2 if settings.quick else max(8, int(settings.seconds))):
                await asyncio.sleep(2.0)
                name = next(names)
                starts = cluster.starts
                kills.append(perf_counter())
                os.kill(int(cluster.children[name]["pid"]), signal.SIGKILL)
                await cluster.wait_for(lambda starts=starts: cluster.starts > starts, seconds=30)
            await asyncio.sleep(2.0)
            stop.set()
            await asyncio.gather(*tasks)
    member.ask = ask
    last = max((min(at - kill for kill in kills if kill <= at) for at in retried if at >= kills[0]), default=0.0)
    return Measurement(
        {
            "reads": float(reads),
            "stale": float(stale),
            "failures": float(failures),
            "retried_ms": last * 1000,
        },
        _version(),
        f"{_CALLERS} readers with a deadline of 2 s, {len(kills)} kills; {len(retried)} requests were asked again",
    )


UNDER_KILLS: Final = Workload(
    "reads_under_kills",
    "reads with tokens over three replicas while nodes are killed",
    (Side("duramen", "subject", lambda settings: run_async(_under_kills(settings)), SERVER_NEEDS),),
    (
        Bar("stale", "at most", 0),
        Bar("failures", "at most", 0),
        Bar("retried_ms", "at most", 1000),
    ),
    runs_max=2,
)


# --- what a replica more costs


async def _puts(settings: RunSettings, replicas: int) -> Measurement:
    async with _cluster(settings) as cluster, _client(cluster) as database:
        table = await database.create_table("bench", partitions=4, replicas=replicas)
        next_pair = cycle(make_pairs(_KEYS)).__next__
        timing = await drive(lambda: table.put(*next_pair()), callers=256, seconds=settings.seconds)
    return Measurement(timing.metrics(), _version(), f"256 callers; {_NODES} nodes, {replicas} replica(s)")


REPLICAS: Final = Workload(
    "replicas",
    "puts where three nodes follow, against one",
    (
        Side("duramen", "subject", lambda settings: run_async(_puts(settings, 3)), SERVER_NEEDS),
        Side("duramen, 1 replica", "floor", lambda settings: run_async(_puts(settings, 1)), SERVER_NEEDS),
    ),
    (Bar("per_second", "at least", 0.6, against="duramen, 1 replica"),),
)


# --- the hop through a router, and reads from more nodes


async def _gets(settings: RunSettings, *, nodes: int, callers: int, direct: bool = True) -> Measurement:
    async with _cluster(settings, nodes) as cluster, _client(cluster) as loader:
        table = await loader.create_table("bench", partitions=4, replicas=nodes)
        pairs = make_pairs(_KEYS)
        await table.put_many(pairs)
        token = await table.end_token()
        async with _client(cluster, direct=direct) as database:
            mine = database.table("bench")
            await mine.get(pairs[0][0], after=token)
            next_pair = cycle(pairs).__next__

            async def call() -> None:
                key, value = next_pair()
                if await mine.get(key, level="eventual") != value:
                    raise AssertionError(key)

            timing = await drive(call, callers=callers, seconds=settings.seconds)
    way = "straight to the node" if direct else "through the router"
    return Measurement(timing.metrics(), _version(), f"{callers} caller(s), {nodes} node(s), {way}")


async def _hop(settings: RunSettings) -> Measurement:
    straight = await _gets(_below(settings, "straight"), nodes=_NODES, callers=1)
    through = await _gets(_below(settings, "through"), nodes=_NODES, callers=1, direct=False)
    added = through.metrics["p50_us"] - straight.metrics["p50_us"]
    return Measurement(
        {"p50_us": through.metrics["p50_us"], "extra_p50_us": added},
        _version(),
        f"one caller; straight to the node p50 is {straight.metrics['p50_us']:.0f} µs",
    )


def _below(settings: RunSettings, name: str) -> RunSettings:
    folder = settings.folder / name
    folder.mkdir()
    return RunSettings(folder, settings.seconds, settings.quick)


async def _echo(settings: RunSettings) -> Measurement:
    driver = GrpcEcho()
    try:
        await driver.start(settings.folder)
        next_pair = cycle(make_pairs(_KEYS)).__next__

        async def call() -> None:
            await driver.put(*next_pair())

        timing = await drive(call, callers=1, seconds=settings.seconds)
    finally:
        await driver.stop()
    return Measurement(
        {"p50_us": timing.latency_us(0.5), "extra_p50_us": timing.latency_us(0.5)}, driver.version, driver.note
    )


HOP: Final = Workload(
    "router_hop",
    "what a router adds to a get",
    (
        Side("duramen", "subject", lambda settings: run_async(_hop(settings)), SERVER_NEEDS),
        Side("grpc echo", "floor", lambda settings: run_async(_echo(settings))),
    ),
    (Bar("extra_p50_us", "at most", 1, against="grpc echo"),),
)


def _scaled(nodes: int) -> Side:
    def run(settings: RunSettings) -> Measurement:
        return run_async(_gets(settings, nodes=nodes, callers=256))

    return Side(f"duramen, {nodes} node{'s' if nodes > 1 else ''}", "subject", run, SERVER_NEEDS)


SCALING: Final = Workload("read_scaling", "gets from 1, 2 and 4 nodes on one machine", tuple(map(_scaled, (1, 2, 4))))


CLUSTER: Final = (ELSEWHERE, UNDER_KILLS, REPLICAS, HOP, SCALING)
