"""A real Prometheus scrapes a real server and evaluates our alerts; then the server is killed."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote
from urllib.request import urlopen

import pytest
import yaml
from kit.client.server_process import ServerProcess
from kit.deadlines import patience_s, wait_until

ALERTS = Path(__file__).resolve().parents[4] / "deploy" / "alerts.yaml"
LISTENS = re.compile(r'msg="Listening on" (?:component=\S+ )?address=127\.0\.0\.1:(\d+)')


class Prometheus:
    """One that scrapes each second, asked over HTTP."""

    def __init__(self, port: int) -> None:
        self._base = f"http://127.0.0.1:{port}/api/v1"

    def is_ready(self) -> bool:
        """Has it read its storage?"""
        try:
            self.asked("status/runtimeinfo")
        except HTTPError as error:
            if error.code != HTTPStatus.SERVICE_UNAVAILABLE:
                raise
            return False
        return True

    def asked(self, path: str) -> dict[str, Any]:
        with urlopen(f"{self._base}/{path}", timeout=patience_s(10)) as reply:
            found: dict[str, Any] = json.load(reply)["data"]
        return found

    def value(self, query: str) -> float | None:
        """The one value of a query; None: there is none yet."""
        result = self.asked(f"query?query={quote(query)}")["result"]
        assert len(result) <= 1, result
        return float(result[0]["value"][1]) if result else None


@contextmanager
def scraping(folder: Path, target: str) -> Iterator[Prometheus]:
    """A Prometheus that scrapes `target` while the block runs."""
    command = shutil.which("prometheus")
    if command is None:
        pytest.skip("Prometheus is not installed: apt-get install prometheus")
    (folder / "prometheus.yml").write_text(
        yaml.safe_dump(
            {
                "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
                "rule_files": [str(ALERTS)],
                "scrape_configs": [{"job_name": "duramen", "static_configs": [{"targets": [target]}]}],
            }
        )
    )
    log = folder / "prometheus.log"
    arguments = [f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/tsdb"]
    with log.open("wb") as output:
        process = subprocess.Popen(
            [command, *arguments, "--web.listen-address=127.0.0.1:0"], stdout=output, stderr=output
        )
    try:
        found: list[str] = []

        def listens() -> bool:
            found[:] = LISTENS.findall(log.read_text())
            assert process.poll() is None, log.read_text()
            return bool(found)

        wait_until(listens, seconds=60)
        prometheus = Prometheus(int(found[0]))
        wait_until(prometheus.is_ready, seconds=60)
        yield prometheus
    finally:
        process.terminate()
        process.wait(patience_s(30))


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
