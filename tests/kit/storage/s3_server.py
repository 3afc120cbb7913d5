"""A process that speaks S3, for tests of whatever lies in an object store."""

from __future__ import annotations

import os
import re
import selectors
import subprocess
import sys
import time
from collections.abc import Iterator
from urllib.request import Request, urlopen

import pytest

from kit.deadlines import patience_s

__all__ = ["bucket", "s3_address"]

_START_DEADLINE_S = 60


@pytest.fixture(scope="session")
def s3_address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A process that speaks S3 over HTTP on a port of its own; its address."""
    log = tmp_path_factory.mktemp("s3") / "server.log"
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", "0"]
    with open(log, "wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out, stdin=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + patience_s(_START_DEADLINE_S)
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
