"""Makes the helpers of the folder above importable, and gives tests an index, a store, and an S3 server."""

from __future__ import annotations

import os
import re
import selectors
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.request import Request, urlopen

import pytest
from live_index import LiveIndex

from serving_tier.snapshots import SnapshotStore

_START_DEADLINE_S = 60


@pytest.fixture
def live(tmp_path: Path) -> Iterator[LiveIndex]:
    """A live index of a few thousand keys, and the log that it was folded from."""
    made = LiveIndex(tmp_path / "node" / "index")
    made.fill(3000)
    yield made
    made.close()


@pytest.fixture
def store(tmp_path: Path) -> SnapshotStore:
    """A store in a folder."""
    return SnapshotStore.open(tmp_path / "store")


@pytest.fixture(scope="session")
def s3_address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A process that speaks S3 over HTTP on a port of its own; its address."""
    log = tmp_path_factory.mktemp("s3") / "server.log"
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", "0"]
    with open(log, "wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out, stdin=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + _START_DEADLINE_S
        while not (found := re.search(r"http://127\.0\.0\.1:(\d+)", log.read_text(errors="replace"))):
            assert process.poll() is None, log.read_text(errors="replace")
            assert time.monotonic() < deadline, f"no S3 server: {log.read_text(errors='replace')}"
            selectors.DefaultSelector().select(0.05)
        yield found[0]
    finally:
        process.terminate()
        process.wait()


@pytest.fixture
def bucket(s3_address: str, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> str:
    """A new bucket of the test's own; its name. Credentials are in the environment, where the client looks."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "x")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "x")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    name = f"bucket-{os.getpid()}-{abs(hash(request.node.nodeid)) % 10**12}"
    with urlopen(Request(f"{s3_address}/{name}", method="PUT", headers={"Authorization": ""})) as reply:
        assert reply.status == 200
    return name


@pytest.fixture(params=["folder", "s3"])
def any_store(request: pytest.FixtureRequest, tmp_path: Path) -> SnapshotStore:
    """Every kind of store that is kept."""
    if request.param == "folder":
        return SnapshotStore.open(tmp_path / "store")
    address, name = request.getfixturevalue("s3_address"), request.getfixturevalue("bucket")
    return SnapshotStore.open(f"s3://{name}/snapshots?endpoint_url={address}")
