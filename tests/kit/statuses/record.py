"""Record the status streams of four nodes with 32 partitions under load, of which one is killed: `recorded.bin.gz`."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import tempfile
import threading
import time
from contextlib import ExitStack
from pathlib import Path

import grpc

import duramen
from kit.cluster.cluster_process import ClusterProcess
from kit.deadlines import until
from kit.statuses.recording import SaidStatus, write_recording
from serving_tier.proto import node_pb2, node_pb2_grpc

_NODES = 4
_FOR_S = 14.0
_KILLED_S = 5.0
_EVERY_S = 0.25
"""Changes within it are one message, as of a node that is asked by a router far away."""


def _merged(before: node_pb2.NodeStatus | None, message: node_pb2.NodeStatus) -> node_pb2.NodeStatus:
    """The later one, with what only the earlier one has of replicas."""
    if before is not None:
        newer = {(each.table_id, each.partition) for each in message.replicas}
        message.replicas.extend(each for each in before.replicas if (each.table_id, each.partition) not in newer)
    return message


async def _follow(cluster: ClusterProcess, node: int, began_s: float, said: list[SaidStatus]) -> None:
    name = f"n{node + 1}"
    while True:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{cluster.children[name]['port']}") as channel:
            stub = node_pb2_grpc.NodeStub(channel)  # type: ignore[no-untyped-call]
            held: node_pb2.NodeStatus | None = None
            sent_s = 0.0
            try:
                async for message in stub.Status(node_pb2.StatusRequest()):
                    held, now_s = _merged(held, message), time.monotonic() - began_s
                    if now_s - sent_s >= _EVERY_S:
                        said.append(SaidStatus(now_s, node, held))
                        held, sent_s = None, now_s
            except grpc.aio.AioRpcError:
                if sent_s:
                    said.append(SaidStatus(time.monotonic() - began_s, node, None))
        await until(lambda: name in cluster.children)
        await asyncio.sleep(0.05)


def _write(at: str, stop: threading.Event) -> None:
    with duramen.connect(at, timeout=60) as db:
        orders, events = db.table("orders"), db.table("events")
        number = 0
        while not stop.is_set():
            number += 1
            orders.put_many({b"o%d" % (number * 40 + each): b"v" * 40 for each in range(40)})
            events.put(b"e%d" % (number % 7), b"v")  # some of its partitions are written to, and most are not
            orders.get_many([b"o%d" % (number * 40 + each) for each in range(20)])
            stop.wait(0.02)


async def _record(cluster: ClusterProcess) -> list[SaidStatus]:
    said: list[SaidStatus] = []
    began_s = time.monotonic()
    following = [asyncio.create_task(_follow(cluster, node, began_s, said)) for node in range(_NODES)]
    await asyncio.sleep(_KILLED_S)
    os.kill(cluster.pid("n2"), signal.SIGKILL)
    await asyncio.sleep(_FOR_S - _KILLED_S)
    for each in following:
        each.cancel()
    await asyncio.gather(*following, return_exceptions=True)
    return said


def main() -> int:
    with tempfile.TemporaryDirectory() as folder, ExitStack() as closing:
        cluster = ClusterProcess(Path(folder) / "data", nodes=_NODES)
        closing.callback(cluster.close)
        with cluster.connect() as db:
            db.create_table("orders", partitions=16, replicas=3)
            db.create_table("events", partitions=16, replicas=3)
        cluster.wait_ready("orders")
        cluster.wait_ready("events")
        stop = threading.Event()
        writing = threading.Thread(target=_write, args=(cluster.at, stop))
        writing.start()
        try:
            said = asyncio.run(_record(cluster))
        finally:
            stop.set()
            writing.join()
    lost = [each.node for each in said if each.message is None]
    assert lost == [1], f"the streams of {lost} ended, and one node was killed"
    write_recording(said)
    return 0


if __name__ == "__main__":
    sys.exit(main())
