"""A server on an event loop in a thread of its own, and blocking stubs for all of its services."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import grpc

from kit.client.grpc_thread import GrpcThread
from log_tier.proto import cluster_pb2_grpc
from router.proto import admin_pb2_grpc, console_pb2_grpc, keyvalue_pb2_grpc, kv_pb2_grpc, tables_pb2_grpc
from serving_tier.proto import node_pb2_grpc

__all__ = ["GrpcStubs", "served"]


class GrpcStubs:
    """What the services of one server are called by."""

    def __init__(self, server: GrpcThread, channel: grpc.Channel) -> None:
        self.server = server
        self.channel = channel
        self.kv: Any = kv_pb2_grpc.KVStub(channel)  # type: ignore[no-untyped-call]
        self.data: Any = keyvalue_pb2_grpc.KeyValueStub(channel)  # type: ignore[no-untyped-call]
        self.tables: Any = tables_pb2_grpc.TablesStub(channel)  # type: ignore[no-untyped-call]
        self.admin: Any = admin_pb2_grpc.AdminStub(channel)  # type: ignore[no-untyped-call]
        self.console: Any = console_pb2_grpc.ConsoleStub(channel)  # type: ignore[no-untyped-call]
        self.node: Any = node_pb2_grpc.NodeStub(channel)  # type: ignore[no-untyped-call]
        self.cluster: Any = cluster_pb2_grpc.ClusterStub(channel)  # type: ignore[no-untyped-call]


S = TypeVar("S", bound=GrpcStubs)


@contextmanager
def served(folder: Path, stubs: type[S]) -> Iterator[S]:
    """A new server in `folder`, and `stubs` made for it."""
    server = GrpcThread(folder).start()
    try:
        with server.connect() as channel:
            yield stubs(server, channel)
    finally:
        server.close()
