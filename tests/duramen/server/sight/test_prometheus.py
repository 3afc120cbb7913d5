"""A real Prometheus scrapes a real server and evaluates our alerts; then the server is killed, or what reads for it."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from kit.client.server_process import ServerProcess
from kit.deadlines import wait_until
from kit.prometheus import scraping
from redis import Redis


@pytest.mark.embedded_log_only  # its figures of the log are of one in this process
def test_it_scrapes_a_server_and_reports_that_it_was_killed(tmp_path: Path) -> None:
    server = ServerProcess(tmp_path / "data", log=tmp_path / "log", arguments=["--http-port", "0"])
    try:
        with server.connect() as database:
            table = database.create_table("flights", partitions=2)
            for number in range(20):
                table.put(b"k%d" % number, b"v")
        target = f"127.0.0.1:{server.announcement['http_port']}"
        with scraping(tmp_path, target) as prometheus:
            wait_until(lambda: prometheus.value("duramen_ready") == 1, seconds=60)
            wait_until(lambda: prometheus.value("sum(duramen_partition_applied_offset + 1)") == 20, seconds=60)
            assert (prometheus.value("duramen_log_appends_total") or 0) >= 20
            assert prometheus.value("count(duramen_write_seconds_bucket)") == 16
            assert prometheus.value("duramen_partition_readable < 1") is None
            rules = [rule for group in prometheus.asked("rules")["groups"] for rule in group["rules"]]
            assert {rule["health"] for rule in rules} <= {"ok", "unknown"}, rules
            (shown,) = prometheus.asked("targets")["activeTargets"]
            assert (shown["health"], shown["lastError"]) == ("up", "")
            server.kill9()
            wait_until(
                lambda: prometheus.value('ALERTS{alertname="DuramenNoAnswer",alertstate="pending"}') == 1, seconds=60
            )
    finally:
        server.close()


@pytest.mark.embedded_log_only  # its reader processes read the indexes of a server that is alone
def test_reader_processes_and_watches_are_counted(tmp_path: Path) -> None:
    ports = ["--http-port", "0", "--resp-port", "0", "--resp-readers", "2"]
    server = ServerProcess(tmp_path / "data", log=tmp_path / "log", arguments=ports)
    reader = 'duramen_resp_commands_total{process="readers"}'
    try:
        with (
            server.connect() as database,
            scraping(tmp_path, f"127.0.0.1:{server.announcement['http_port']}") as prometheus,
        ):
            with Redis(port=int(server.announcement["resp_port"])) as redis:
                redis.set(b"k", b"v")
                changes = database.table("default").watch(start="earliest")
                assert next(changes).key == b"k"
                wait_until(lambda: [redis.get(b"k")] == [b"v"] and (prometheus.value(reader) or 0) > 0, seconds=60)
                assert prometheus.value("duramen_resp_readers_running") == 2
                assert prometheus.value("duramen_resp_readers") == 2
                assert prometheus.value('duramen_resp_commands_total{process="server"} > 0') is not None
                wait_until(lambda: prometheus.value("duramen_watches") == 1, seconds=60)
                wait_until(lambda: (prometheus.value("duramen_watched_offsets_total") or 0) >= 1, seconds=60)
                assert (prometheus.value("duramen_watch_seconds_count") or 0) >= 1
                changes.close()
                wait_until(lambda: prometheus.value("duramen_watches") == 0, seconds=60)
            pid = server.process.pid
            for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
                if b"reader_process" in Path(f"/proc/{child}/cmdline").read_bytes():
                    os.kill(int(child), signal.SIGKILL)
            wait_until(lambda: prometheus.value("duramen_resp_reader_ends_total") == 2, seconds=60)
            wait_until(lambda: prometheus.value("duramen_resp_readers_running") == 2, seconds=60)
            wait_until(
                lambda: prometheus.value('ALERTS{alertname="DuramenReadersEnd",alertstate="pending"}') == 1, seconds=60
            )
            assert (prometheus.value(reader) or 0) > 0, "a count never falls"
    finally:
        server.close()
