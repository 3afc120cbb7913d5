"""Traces are for who asks: what is imported, what is said without the extra, and a collector that does not answer."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from kit.client.command_line import run_here
from kit.client.server_process import START_SECONDS_MAX, ServerProcess, read_line
from kit.deadlines import patience_s, wait_until
from kit.held_port import HeldPort
from kit.traces.collector import Collector
from kit.traces.servers import environment_of_traces

pytestmark = pytest.mark.embedded_log_only

WITHOUT = """
import importlib.abc, sys

class Missing(importlib.abc.MetaPathFinder):
    tried = []

    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "opentelemetry":
            self.tried.append(name)
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Missing())
"""

PLAIN = """
import threading
from contextlib import redirect_stdout
import duramen
from duramen.cli import run
from duramen.testing import Server

with duramen.open(sys.argv[1]) as db:
    table = db.create_table("flights", partitions=2)
    table.put(b"k", b"v")
    assert table.get(b"k") == b"v"
with Server() as server, duramen.connect(server.address) as db:
    table = db.create_table("flights", partitions=2)
    table.put_many({b"k": b"v", b"l": b"w"})
    assert table.get_many([b"k", b"l"]) == [b"v", b"w"]
assert not Missing.tried, Missing.tried
for make in (lambda: duramen.open(sys.argv[1], traces=True), lambda: duramen.connect("127.0.0.1:1", traces=True)):
    try:
        make()
    except duramen.InvalidRequest as error:
        print(error)
assert Missing.tried
sys.exit(run(sys.argv[2:]))
"""


def test_without_the_extra_nothing_tries_to_import_it_and_errors_say_what_to_install(tmp_path: Path) -> None:
    command = ["up", "--traces", "otlp", "--port", "0", "--data", str(tmp_path / "other")]
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT + PLAIN, str(tmp_path / "data"), *command],
        capture_output=True,
        text=True,
        timeout=patience_s(60),
        check=False,
    )
    assert done.returncode == 2, done.stderr
    printed = done.stdout.splitlines()
    assert [line.split(":")[0] for line in printed] == ["traces need the extra `otel`"] * 2
    assert all("pip install 'duramen[otel]'" in line for line in (*printed, done.stderr))
    assert len(done.stderr.strip().splitlines()) == 1, done.stderr
    assert not (tmp_path / "other").exists()


def test_another_protocol_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
    for command in (["up"], ["serve", "log"]):
        done = run_here(*command, "--traces", "otlp", "--port", "0", "--data", str(tmp_path / "data"))
        assert done.returncode == 2
        assert "OTEL_EXPORTER_OTLP_PROTOCOL is 'grpc': traces are sent by http/protobuf" in done.stderr
    done = run_here("serve", "log", "--traces", "jaeger", "--port", "0", "--data", str(tmp_path / "data"))
    assert "the setting traces" in done.stderr


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "0"),
        ("OTEL_EXPORTER_OTLP_COMPRESSION", "zip"),
        ("OTEL_EXPORTER_OTLP_CERTIFICATE", "/nowhere/ca.pem"),
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "soon"),
    ],
)
def test_a_variable_that_opentelemetry_refuses_is_an_error_or_its_default(
    tmp_path: Path, name: str, value: str
) -> None:
    """Whatever it makes of it, there is no traceback: an error of one line, or a server that runs."""
    with HeldPort() as held, environment_of_traces(f"http://127.0.0.1:{held.number}", **{name: value}):
        command = [sys.executable, "-m", "duramen", "serve", "log", "--traces", "otlp", "--json", "--port", "0"]
        process = subprocess.Popen(
            [*command, "--data", str(tmp_path / "data")], stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        try:
            started = read_line(process, START_SECONDS_MAX)
        finally:
            process.terminate()
            _, errors = process.communicate(timeout=patience_s(60))
    assert b"Traceback" not in errors
    if not started:
        assert process.returncode == 2
        assert b"OTEL_" in errors


def test_a_collector_that_is_away_costs_spans_and_one_line(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with HeldPort() as held:
        with environment_of_traces(
            f"http://127.0.0.1:{held.number}", sampler="always_on", OTEL_EXPORTER_OTLP_TIMEOUT="1"
        ):
            server = ServerProcess(tmp_path / "data", log=log, arguments=["--traces", "otlp"])
        try:
            with server.connect() as db:
                table = db.create_table("flights", partitions=1)

                def is_noticed() -> bool:
                    table.put(b"k", b"v")
                    assert table.get(b"k") == b"v"
                    return "does not take spans" in log.read_text()

                wait_until(is_noticed)
                with Collector(held.number) as collector:
                    wait_until(lambda: table.put(b"k", b"v") and collector.named("duramen.v1.KeyValue/Write"))
                    wait_until(lambda: "takes spans again" in log.read_text())
            code, _ = server.stop()
        finally:
            server.close()
    assert code == 0
    lines = log.read_text().splitlines()
    assert len(lines) == 2, lines
    assert all("the collector of traces" in line for line in lines)


def test_a_server_stops_while_its_collector_is_away(tmp_path: Path) -> None:
    with HeldPort() as held, environment_of_traces(f"http://127.0.0.1:{held.number}", sampler="always_on"):
        server = ServerProcess(tmp_path / "data", log=tmp_path / "log", arguments=["--traces", "otlp"])
        try:
            with server.connect() as db:
                db.create_table("flights", partitions=1).put(b"k", b"v")
            code, events = server.stop()
        finally:
            server.close()
    assert code == 0
    assert [event["event"] for event in events] == ["stopping", "stopped"]


def test_the_last_spans_of_a_server_are_sent(tmp_path: Path) -> None:
    with Collector() as collector:
        with environment_of_traces(
            collector.endpoint, sampler="always_on", OTEL_BSP_SCHEDULE_DELAY="3600000", OTEL_SERVICE_NAME="orders"
        ):
            server = ServerProcess(tmp_path / "data", log=tmp_path / "log", arguments=["--traces", "otlp"])
        try:
            with server.connect() as db:
                db.create_table("flights", partitions=1).put(b"k", b"v")
            server.stop()
        finally:
            server.close()
        (span,) = collector.named("duramen.v1.KeyValue/Write")
    assert (span.service, span.role, span.parent) == ("orders", "single", b"")
    assert os.environ.get("OTEL_SERVICE_NAME") is None
