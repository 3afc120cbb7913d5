"""Whether a connection's socket is read: by what waits, and in turn with the other connections."""

from __future__ import annotations

import asyncio

from router.endpoints.resp.connection.socket_input import SocketInput
from router.endpoints.resp.wire.framing import RequestStream
from router.endpoints.resp.wire.limits import QUEUED_COMMANDS_MAX

CHUNK = 256_000
"""What uvloop reads at once."""


class Socket(asyncio.Transport):
    """Notes whether it is read."""

    def __init__(self) -> None:
        super().__init__()
        self.is_read = True

    def pause_reading(self) -> None:
        self.is_read = False

    def resume_reading(self) -> None:
        self.is_read = True


def test_others_get_their_turn_between_the_chunks_of_a_socket() -> None:
    """A loop reads one socket again and again while there is something: up to 8 MB of values in one turn."""
    socket = Socket()
    waiting: list[None] = []
    reading = SocketInput(socket, RequestStream(), waiting, lambda: "a client")
    assert not reading.took(CHUNK // 10, stalled=False)
    assert socket.is_read
    assert reading.took(CHUNK, stalled=False), "the rest has to wait for another turn"
    assert not socket.is_read
    reading.turn_on_again(stalled=False)
    assert socket.is_read


def test_a_socket_whose_commands_wait_is_not_read_in_the_next_turn() -> None:
    socket = Socket()
    waiting = [None] * (QUEUED_COMMANDS_MAX + 1)
    reading = SocketInput(socket, RequestStream(), waiting, lambda: "a client")
    assert not reading.took(CHUNK, stalled=False), "it is read when they have been worked off, whenever that is"
    assert not socket.is_read
    reading.turn_on_again(stalled=False)
    assert not socket.is_read
    waiting.clear()
    reading.turn_on_again(stalled=False)
    assert socket.is_read
