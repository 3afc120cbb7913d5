"""A client of the Redis protocol next to a hostile caller of gRPC, on one server: no turn is spent on the messages of
the one while the other waits.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Final

import grpc
import pytest
from kit.client.grpc_thread import GrpcThread
from kit.deadlines import patience_s, wait_until
from kit.resp.loop_turns import LoopTurns
from kit.resp.raw_client import Raw

from duramen.server.roles.all_in_one import SingleServer
from log_tier.rpc import checked
from log_tier.rpc.checked import FIELDS_MAX
from log_tier.rpc.messages.message_fields import count_fields
from router.endpoints.resp.server.sockets import RespSettings

HOSTILE: Final = 4
"""Messages under way together; a process has threads for more of them on every machine."""
MESSAGE: Final = b"\x0a\x00" * (FIELDS_MAX + 1)
"""More fields than a message may have, in 200 KB."""


class BothPorts(GrpcThread):
    """A single server with its gRPC port and its RESP port."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._data = folder

    async def open(self, opened: AsyncExitStack) -> None:
        self.server = await SingleServer.open(self._data, port=0, resp_endpoint=RespSettings(port=0))
        opened.push_async_callback(self.server.close)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[BothPorts]:
    opened = BothPorts(tmp_path / "data").start()
    yield opened
    opened.close()


def test_a_ping_and_a_write_are_answered_while_hostile_messages_are_looked_at(
    server: BothPorts, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_at: list[int] = []
    may_end = threading.Event()

    def held(*args: Any, **named: Any) -> Any:
        looked_at.append(threading.get_ident())
        assert may_end.wait(patience_s(20)), "the other client's commands were not answered meanwhile"
        return count_fields(*args, **named)

    monkeypatch.setattr(checked, "count_fields", held)
    with server.connect() as channel, Raw(("127.0.0.1", server.server.resp_port)) as raw:
        assert raw.call("SET", "mine", "0").text == "OK"
        flood = channel.unary_unary("/duramen.v1.KeyValue/Read", bytes, bytes)
        with LoopTurns(server, monkeypatch, checked, "count_fields") as counted:
            hostile = [flood.future(MESSAGE) for _ in range(HOSTILE)]
            try:
                wait_until(lambda: len(looked_at) == HOSTILE)
                assert raw.call("PING").text == "PONG"
                assert [raw.call("INCR", "mine") for _ in range(10)] == list(range(1, 11))
                assert not any(each.done() for each in hostile), "they were answered behind their neighbour's commands"
            finally:
                may_end.set()
            refused = [each.exception() for each in hostile]
    codes = [error.code() for error in refused if isinstance(error, grpc.RpcError)]
    assert codes == [grpc.StatusCode.RESOURCE_EXHAUSTED] * HOSTILE
    assert (counted.calls, counted.elsewhere) == (0, HOSTILE), "none of them in a turn of the loop"
