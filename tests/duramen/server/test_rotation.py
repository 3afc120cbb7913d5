"""Certificates, and then the CA, are changed under load: servers in processes of their own, and not one failed call."""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
import signal
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from kit.certs_at_hand import CertsAtHand
from kit.client.command_line import run_here
from kit.cluster.up_cluster import UpCluster
from kit.deadlines import patience_s, wait_until

import duramen
from duramen.blocking import Database
from log_tier.catalog.remote.cluster_view import fetch_view
from log_tier.rpc import renewed_channel
from log_tier.rpc.security import secured

pytestmark = pytest.mark.embedded_log_only


class RotationLoad:
    """A writer and a reader of one table; both go on after a failure, and count it."""

    def __init__(self, db: Database) -> None:
        self._table = db.create_table("load", partitions=4, replicas=2, if_missing=True)
        self.calls = {"write": 0, "read": 0}
        self.failed: list[BaseException] = []
        self._over = threading.Event()
        runs = (("write", self._write), ("read", self._read))
        self._threads = [threading.Thread(target=self._run, args=each) for each in runs]
        for thread in self._threads:
            thread.start()

    def _run(self, kind: str, call: Callable[[int], None]) -> None:
        for number in itertools.count():
            if self._over.is_set():
                return
            try:
                call(number)
            except Exception as error:  # noqa: BLE001 (whatever it is, it is a failed call)
                self.failed.append(error)
            self.calls[kind] += 1

    def _write(self, number: int) -> None:
        self._table.put(b"%d" % (number % 100), b"%d" % number)

    def _read(self, number: int) -> None:
        self._table.get(b"%d" % (number % 100), level="strong" if number % 2 else "session")

    def go_on(self, count: int = 50) -> None:
        """Return when both have made so many more calls."""
        aims = {kind: done + count for kind, done in self.calls.items()}
        wait_until(lambda: all(self.calls[kind] >= aim for kind, aim in aims.items()), "the load goes on")

    def end(self) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()


class Rotated:
    """A cluster with certificates, and a client that shows one, under load."""

    def __init__(self, path: Path, caplog: pytest.LogCaptureFixture) -> None:
        self.certs = CertsAtHand(path, hosts=("localhost", "127.0.0.1"))
        self.certs.issue("alice", user=True)
        self.cluster = UpCluster(path, certs=self.certs.path)
        self._log = caplog
        client = self.certs.client("alice")
        self.db = duramen.connect(
            f"duramens://localhost:{self.cluster.port}",
            ca=client.ca,
            certificate=client.certificate,
            key=client.key,
            timeout=patience_s(30),
        )
        self.load = RotationLoad(self.db)
        self.load.go_on()

    def run(self, *words: str) -> None:
        """A command of `duramen cert`; return when all servers, and this client, use what it made."""
        renewals, before = len(self._renewals()), self.certs.client("alice").stamp()
        done = run_here("cert", *words, "--dir", str(self.certs.path))
        assert done.returncode == 0, done.stderr
        if self.certs.client("alice").stamp() != before:
            wait_until(lambda: len(self._renewals()) > renewals, "the client calls with the new files")
        own = (self.certs.path / "server.crt").read_text()
        for name, port in self.cluster.ports.items():
            wait_until(lambda port=port: shown_at(port) in own, f"{name} shows its certificate of now")  # type: ignore[misc]
        self.load.go_on()

    def _renewals(self) -> list[str]:
        return [each.getMessage() for each in self._log.records if "with new certificates from" in each.getMessage()]

    def close(self) -> None:
        self.load.end()
        self.db.close()
        self.cluster.close()


def shown_at(port: int) -> str:
    """The certificate that a server shows in a new handshake."""
    return ssl.get_server_certificate(("localhost", port), timeout=patience_s(10))


@contextmanager
def rotated(path: Path, caplog: pytest.LogCaptureFixture) -> Iterator[Rotated]:
    caplog.set_level(logging.INFO, logger=renewed_channel.__name__)
    made = Rotated(path, caplog)
    try:
        yield made
    finally:
        made.close()


def test_certificates_are_rotated_under_load(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with rotated(tmp_path, caplog) as made:
        for _ in range(2):
            made.run("rotate", "server")
            made.run("rotate", "alice")
    assert made.load.failed == []
    assert min(made.load.calls.values()) > 200


def test_the_ca_is_changed_under_load(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with rotated(tmp_path, caplog) as made:
        old_ca = tmp_path / "old.crt"
        old_ca.write_bytes(made.certs.ca.read_bytes())
        made.run("rotate", "--ca")
        made.run("rotate")
        made.run("rotate", "--ca", "--finish")
        assert old_ca.read_text() not in made.certs.ca.read_text()
        with pytest.raises(duramen.HandshakeFailed, match="not of the CA"):
            duramen.connect(f"duramens://localhost:{made.cluster.port}", ca=old_ca)
        with secured(made.certs.client("alice")):
            nodes = asyncio.run(fetch_view(f"localhost:{made.cluster.port}", timeout=patience_s(30))).map.nodes
        assert all(entry.peer_address for entry in nodes.values())
        made.load.end()
        assert made.load.failed == []
        # Servers that were never restarted call a log that knows the new CA alone, over connections that are new.
        os.kill(made.cluster.pids["log"], signal.SIGKILL)
        table = made.db.table("load")
        for number in range(20):
            table.put(b"after %d" % number, b"1")
            assert table.get(b"after %d" % number, level="strong") == b"1"
    assert made.load.failed == []
    assert min(made.load.calls.values()) > 200
