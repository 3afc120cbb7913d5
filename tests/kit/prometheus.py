"""A real Prometheus that scrapes one server."""

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

from kit.deadlines import patience_s, wait_until

__all__ = ["ALERTS", "Prometheus", "scraping"]

ALERTS = Path(__file__).resolve().parents[2] / "deploy" / "alerts.yaml"
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

    def query(self, query: str) -> list[dict[str, Any]]:
        """The series of an answer. Raises `HTTPError` for what is no query."""
        found: list[dict[str, Any]] = self.asked(f"query?query={quote(query)}")["result"]
        return found

    def value(self, query: str) -> float | None:
        """The one value of a query; None: there is none yet."""
        result = self.query(query)
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
