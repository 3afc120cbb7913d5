"""No secret of a log's URL or of the Redis protocol is in what real servers print, answer and start others with."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from kit.client.server_process import run_duramen
from kit.deadlines import patience_s, wait_until
from kit.warm.warm_process import WarmProcess

from log_tier.catalog.remote.cluster_view import fetch_view

pytestmark = pytest.mark.embedded_log_only

SECRET = "QXZ-4711"
REDIS_SECRET = "QXZ-0815"


@contextmanager
def running(output: Path, *arguments: str) -> Iterator[dict[str, Any]]:
    """Run a command that serves, until the end of the block; yields its event `started`. It prints to `output`."""
    with output.open("wb") as file:
        process = WarmProcess(
            [sys.executable, "-m", "duramen", *arguments, "--host", "127.0.0.1", "--port", "0", "--json"],
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            env={**os.environ, "DURAMEN_RESP_PASSWORD": REDIS_SECRET},
        )

    def started() -> bool:
        assert process.poll() is None, output.read_text()
        return '"started"' in output.read_text()

    try:
        wait_until(started, f"{arguments[0]} has started")
        lines = [line for line in output.read_text().splitlines() if line.startswith("{")]
        yield next(event for event in map(json.loads, lines) if event["event"] == "started")
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(patience_s(60))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


async def test_no_secret_is_in_what_a_cluster_shows(tmp_path: Path) -> None:
    data, printed = tmp_path / "data", tmp_path / "up.txt"
    with running(tmp_path / "log.txt", "serve", "log", "--data", str(tmp_path / "log")) as log:
        # The log over gRPC has no use for a query; what is done with the secret in it is what is done with Kafka's.
        url = f"grpc://127.0.0.1:{log['port']}?sasl.password={SECRET}"
        cluster = ("up", "--nodes", "1", "--data", str(data), "--log", url, "--resp-port", "0", "--log-level", "debug")
        with running(printed, *cluster) as up:
            at = f"127.0.0.1:{up['port']}"
            shown = [run_duramen("table", "create", "t", "--partitions", "1", at=at)]
            for question in ("nodes", "partitions", "lag", "snapshots", "versions", "jobs"):
                table = [] if question in ("nodes", "jobs") else ["t"]
                shown.append(run_duramen("admin", question, *table, "--json", at=at))
            bad = f"s3://b/p?endpoint_url=http://me:{SECRET}@127.0.0.1:9"
            refused = run_duramen("admin", "stage", "t", bad, at=at)
            view = await fetch_view(at, timeout=patience_s(30))
            children = [event["pid"] for event in map(json.loads, event_lines(printed)) if event["event"] == "child"]
            arguments = [Path(f"/proc/{pid}/cmdline").read_bytes().decode() for pid in children]
    answers = "".join(done.stdout + done.stderr for done in (*shown, refused)) + f"{view.log_url}{view.map}"
    files = "".join(path.read_text() for path in data.rglob("*.err")) + printed.read_text()
    assert len(children) == 2, f"a node and a router: {arguments}"
    assert refused.returncode != 0
    assert "holds a secret" in refused.stdout + refused.stderr
    assert all(done.returncode == 0 for done in shown), answers
    for where, text in {"answers": answers, "files": files, "arguments": "".join(arguments)}.items():
        assert SECRET not in text, f"{where}: {text}"
        assert REDIS_SECRET not in text, f"{where}: {text}"
    assert files.count("--log: all users of this machine can read this secret") == 1


def event_lines(printed: Path) -> list[str]:
    return [line for line in printed.read_text().splitlines() if line.startswith('{"event"')]


@pytest.mark.parametrize("url", [f"kafka://me:{SECRET}@127.0.0.1:9/ns", f"kafak://127.0.0.1:9?sasl.password={SECRET}"])
def test_no_secret_is_in_the_error_of_a_server_that_does_not_start(tmp_path: Path, url: str) -> None:
    done = run_duramen("up", "--data", str(tmp_path / "data"), "--port", "0", "--log", url)
    assert done.returncode != 0
    assert SECRET not in done.stdout + done.stderr


def test_a_router_gives_no_secret_to_its_clients(tmp_path: Path) -> None:
    file = tmp_path / "router.toml"
    file.write_text(f'client_log = "kafka://127.0.0.1:9/ns?sasl.password={SECRET}"\n')
    done = run_duramen("serve", "router", "--config", str(file), "--port", "0")
    assert done.returncode != 0
    assert "client_log" in done.stderr
    assert SECRET not in done.stdout + done.stderr
