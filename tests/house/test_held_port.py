"""A held port is its holder's: servers come and go on it, and nobody else gets it in between."""

from __future__ import annotations

import socket

import pytest
from kit.held_port import HeldPort


def test_servers_come_and_go_on_it() -> None:
    with HeldPort() as held:
        for _ in range(2):
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection(("127.0.0.1", held.number))
            with socket.create_server(("127.0.0.1", held.number)):
                socket.create_connection(("127.0.0.1", held.number)).close()


def test_who_asks_for_any_port_gets_another() -> None:
    with HeldPort() as held, socket.socket() as other, pytest.raises(OSError, match="Address already in use"):
        other.bind(("127.0.0.1", held.number))
