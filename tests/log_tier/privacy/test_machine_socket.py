"""A server's socket for clients on its machine: found again after a restart, one for each server, of one owner."""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from log_tier.privacy.machine_socket import (
    MachineSocket,
    bind_machine_socket,
    connect_machine_socket,
    machine_socket_of,
)

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="abstract sockets are Linux's")

PATIENCE_S = 20.0


@pytest.fixture
def place(tmp_path: Path) -> MachineSocket:
    found = machine_socket_of(tmp_path, 7070)
    assert found is not None
    return found


@pytest.fixture
def listening(place: MachineSocket) -> Iterator[socket.socket]:
    with closing(bind_machine_socket(place, 8)) as made:
        yield made


def test_a_client_is_connected(place: MachineSocket, listening: socket.socket) -> None:
    with closing(connect_machine_socket(place, PATIENCE_S)) as client:
        listening.setblocking(True)
        server, _ = listening.accept()
        with server:
            client.sendall(b"asked")
            assert server.recv(16) == b"asked"


def test_a_folder_and_a_port_have_one_name(tmp_path: Path, place: MachineSocket) -> None:
    assert machine_socket_of(tmp_path, 7070) == place
    link = tmp_path.parent / "link"
    link.symlink_to(tmp_path)
    assert machine_socket_of(link, 7070) == place


def test_other_servers_have_other_names(tmp_path: Path) -> None:
    data, copy = tmp_path / "data", tmp_path / "copy"
    data.mkdir()
    shutil.copytree(data, copy)
    assert len({machine_socket_of(data, 7070), machine_socket_of(copy, 7070), machine_socket_of(data, 7071)}) == 3
    before = machine_socket_of(data, 7070)
    data.rename(tmp_path / "old")
    copy.rename(data)
    assert machine_socket_of(data, 7070) != before, "what stands at the same path now is another server's"


@pytest.mark.usefixtures("listening")
def test_who_listens_for_another_user_gets_nothing(place: MachineSocket) -> None:
    with pytest.raises(PermissionError, match="listens there"):
        connect_machine_socket(place._replace(owner=place.owner + 1), PATIENCE_S)


def test_where_nobody_listens(place: MachineSocket) -> None:
    with pytest.raises(ConnectionRefusedError):
        connect_machine_socket(place, PATIENCE_S)


@pytest.mark.usefixtures("listening")
def test_a_second_server_does_not_get_it(place: MachineSocket) -> None:
    with pytest.raises(OSError, match="in use"):
        bind_machine_socket(place, 8)


def test_a_kill_leaves_nothing(place: MachineSocket) -> None:
    program = (
        "import sys, time; from log_tier.privacy.machine_socket import *\n"
        f"made = bind_machine_socket(MachineSocket({place.name!r}, {place.owner}), 8); print('listens', flush=True)\n"
        "time.sleep(600)"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "listens\n"
        connect_machine_socket(place, PATIENCE_S).close()
        process.send_signal(signal.SIGKILL)
        process.wait()
    bind_machine_socket(place, 8).close()
