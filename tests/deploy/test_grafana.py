"""The dashboard for Grafana: its parts fit, it names metrics that servers have, and a real Prometheus answers it."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kit.client.server_process import ServerProcess
from kit.deadlines import patience_s, wait_until
from kit.prometheus import scraping
from kit.whole_server import measured_whole, observed_whole
from prometheus_client.parser import text_string_to_metric_families
from redis import Redis

from duramen.server.sight.metrics import metrics_to_text
from duramen.server.sight.status_document import status_of_server

SCHEMA = Path(__file__).parent / "grafana_schema"
DASHBOARD = Path(__file__).resolve().parents[2] / "deploy" / "grafana" / "duramen.json"
BOARD: dict[str, Any] = json.loads(DASHBOARD.read_text())
COLUMNS = 24
TYPES = {"row", "stat", "table", "timeseries"}

# What a server without trouble, routers and old snapshots has nothing of.
QUIET = {
    "what is wrong, by server",
    "lag, the ten worst",
    "how lag goes",
    "first disk is full in",
    "nodes and the log's server that others reach",
    "certificates end in",
}


def panels() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = BOARD["panels"]
    return found


def queries() -> Iterator[tuple[str, str]]:
    """The panel's title and what it asks."""
    for panel in panels():
        for target in panel.get("targets", ()):
            yield panel["title"], target["expr"]


def filled(expression: str) -> str:
    """With Grafana's variables as it fills them in where all is chosen."""
    return re.sub(r"\$(job|instance|table)\b", ".*", expression).replace("$__rate_interval", "10s")


@pytest.mark.languages
@pytest.mark.timeout(600)
def test_it_fits_the_schema_of_grafana(tmp_path: Path) -> None:
    """By the types that Grafana generates of its schema, strictly; and what does not fit is found."""
    if shutil.which("go") is None:
        pytest.skip("go is not installed")
    program = tmp_path / "schema"
    made = subprocess.run(
        ["go", "build", "-o", str(program), "."],
        cwd=SCHEMA,
        capture_output=True,
        text=True,
        timeout=patience_s(240),
        check=False,
    )
    if made.returncode != 0 and "main.go" not in made.stderr:
        pytest.skip(f"the types of Grafana cannot be fetched here: {made.stderr.strip().splitlines()[-1]}")
    assert made.returncode == 0, made.stderr

    def read(board: Path) -> tuple[int, str]:
        done = subprocess.run([program, board], capture_output=True, text=True, timeout=patience_s(30), check=False)
        return done.returncode, done.stdout + done.stderr

    assert read(DASHBOARD) == (0, f"panels: {len(panels())}\n")
    board = json.loads(DASHBOARD.read_text())
    board["panels"][1]["options"]["colourMode"] = "none"
    board["panels"][2]["targets"][0]["expr"] = 7
    del board["panels"][3]["options"]["textMode"]
    wrong = tmp_path / "wrong.json"
    wrong.write_text(json.dumps(board))
    code, said = read(wrong)
    assert code == 1
    for problem in ("unexpected field 'colourMode'", "panels[2].targets[0].expr", "textMode: required field"):
        assert problem in said


def test_panels_have_a_place_of_their_own() -> None:
    places: dict[tuple[int, int], str] = {}
    for panel in panels():
        at = panel["gridPos"]
        assert at["x"] + at["w"] <= COLUMNS, panel["title"]
        for x in range(at["x"], at["x"] + at["w"]):
            for y in range(at["y"], at["y"] + at["h"]):
                assert (x, y) not in places, f"{panel['title']} is on top of {places[x, y]}"
                places[x, y] = panel["title"]
    assert len({panel["id"] for panel in panels()}) == len(panels())
    assert {panel["type"] for panel in panels()} == TYPES


def test_panels_ask_the_chosen_prometheus_and_have_a_name() -> None:
    names = [variable["name"] for variable in BOARD["templating"]["list"]]
    assert names == ["datasource", "job", "instance", "table"]
    titles = [panel["title"] for panel in panels()]
    assert all(titles)
    assert len(set(titles)) == len(titles)
    for panel in panels():
        if panel["type"] != "row":
            assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}, panel["title"]
            assert [target["refId"] for target in panel["targets"]] == list("ABC")[: len(panel["targets"])]


def test_every_metric_that_a_server_has_is_asked_for_and_no_other() -> None:
    text = metrics_to_text(status_of_server(observed_whole()), measured_whole()).body.decode()
    there = {sample.name for family in text_string_to_metric_families(text) for sample in family.samples}
    histograms = {name.removesuffix("_bucket") for name in there if name.endswith("_bucket")}
    asked = set(re.findall(r"\bduramen_\w+", json.dumps(BOARD)))
    assert asked <= there
    shown = {re.sub(r"_(bucket|count|sum)$", "", name) for name in asked}
    names = {re.sub(r"_(bucket|count|sum|created)$", "", name) for name in there if not name.endswith("_created")}
    assert histograms <= shown
    assert names - shown == {
        "duramen_build_info",
        "duramen_disk_size_bytes",
        "duramen_log_damages",
        "duramen_log_queued_batches",
        "duramen_log_queued_bytes",
        "duramen_log_server_clock_skew_seconds",
        "duramen_log_server_disk_size_bytes",
        "duramen_node_clock_skew_seconds",
        "duramen_node_disk_free_bytes",
        "duramen_node_disk_size_bytes",
        "duramen_partition_applied_offset",
        "duramen_partition_damaged",
        "duramen_partition_different",
        "duramen_partition_first_offset",
        "duramen_resp_connections_opened_total",
        "duramen_streams_max",
    }


@pytest.mark.embedded_log_only  # its figures of the log are of one in this process
def test_a_real_prometheus_answers_every_panel(tmp_path: Path) -> None:
    ports = ["--http-port", "0", "--resp-port", "0", "--resp-readers", "1"]
    server = ServerProcess(tmp_path / "data", log=tmp_path / "log", arguments=ports)
    try:
        with (
            server.connect() as database,
            Redis(port=int(server.announcement["resp_port"])) as redis,
            scraping(tmp_path, f"127.0.0.1:{server.announcement['http_port']}") as prometheus,
        ):
            table = database.create_table("flights", partitions=2)
            changes = table.watch()

            def answered() -> set[str]:
                table.put(b"k", b"v")
                assert next(changes).key == b"k"
                redis.get(b"k")
                table.get(b"k")
                list(table.scan())
                return {title for title, expression in queries() if prometheus.query(filled(expression))}

            expected = {title for title, _ in queries()} - QUIET
            assert len(expected) > len(QUIET)
            wait_until(lambda: answered() >= expected, "every panel has data", seconds=90)
            for annotation in BOARD["annotations"]["list"]:
                prometheus.query(filled(annotation["expr"]))
    finally:
        server.close()
