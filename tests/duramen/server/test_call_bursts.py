"""A burst of calls to a server that is busy waits for it: none is ended without a reason."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Final

import pytest
from kit.client.grpc_stubs import GrpcStubs, served
from kit.deadlines import patience_s

from router.proto import kv_pb2 as kv
from router.proto import tables_pb2

CALLS: Final = 3_000

BUSY_S: Final = 35.0 if os.environ.get("DURAMEN_CAMPAIGN") == "1" else 0.0
"""For how long the server looks at none of them. gRPC's own limit is 30 s; a short run has that on a busy machine."""


@pytest.mark.campaign
def test_a_burst_of_calls_waits_for_a_busy_server(tmp_path: Path) -> None:
    """gRPC's own limit is 1,000 calls that the event loop has not looked at."""
    with served(tmp_path, GrpcStubs) as stubs:
        stubs.tables.Create(tables_pb2.CreateTableRequest(name="cities", partitions=1), timeout=patience_s(20))
        go_on = threading.Event()
        stubs.server.loop.call_soon_threadsafe(go_on.wait, BUSY_S + patience_s(60))
        try:
            calls = [
                stubs.kv.Put.future(
                    kv.KVPutRequest(table="cities", key=b"%d" % number, value=b"x"), timeout=patience_s(100)
                )
                for number in range(CALLS)
            ]
            threading.Event().wait(BUSY_S)
        finally:
            go_on.set()
        versions = sorted(call.result(patience_s(60)).version for call in calls)
    assert versions == list(range(CALLS))
