"""A real Prometheus scrapes a real server and evaluates our alerts; then the server is killed."""

from __future__ import annotations

from pathlib import Path

import pytest
from kit.client.server_process import ServerProcess
from kit.deadlines import wait_until
from kit.prometheus import scraping


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
