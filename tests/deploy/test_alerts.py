"""The alerts, judged by Prometheus' own tool: none in a whole cluster, and of each trouble its own.

The series are those that a server shows: what `metrics_to_text` makes of a status document, sixty minutes long.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from kit.whole_server import measured_whole, observed_whole
from prometheus_client.parser import text_string_to_metric_families

from duramen.server.sight.metrics import metrics_to_text
from duramen.server.sight.observed import Observed
from duramen.server.sight.status_document import status_of_server

ALERTS = Path(__file__).resolve().parents[2] / "deploy" / "alerts.yaml"
RULES: dict[str, Any] = {
    rule["alert"]: rule for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]
}

# What becomes of a sample's value in the hour: 60 steps more, in the tool's notation.
Course = Mapping[str, str]

LAG_S, LAG = "duramen_partition_lag_seconds", "duramen_partition_lag_records"
FREE, SIZE = "duramen_disk_free_bytes", "duramen_disk_size_bytes"
SLOW = {
    **{f'duramen_log_commit_seconds_bucket{{le="{le}"}}': "0+90x60" for le in ("0.0001", "0.25")},
    'duramen_log_commit_seconds_bucket{le="10.0"}': "0+100x60",
    'duramen_log_commit_seconds_bucket{le="+Inf"}': "0+100x60",
}

# For each alert, the metrics that say so. Metrics that are not named stay as those of a whole server.
TROUBLES: dict[str, Course] = {
    "DuramenNoAnswer": {"up": "0x60"},
    "DuramenUnreadable": {"duramen_partition_readable": "0x60"},
    "DuramenUnwritable": {"duramen_log_writable": "0x60"},
    "DuramenLogSilent": {"duramen_log_server_up": "0x60"},
    "DuramenDamaged": {"duramen_partition_damaged": "1x60"},
    "DuramenDifferent": {"duramen_partition_different": "1x60"},
    "DuramenNotReady": {"duramen_ready": "0x60"},
    "DuramenLagRises": {LAG: "0+50x60", LAG_S: "60x60"},
    "DuramenBehind": {LAG: "1000x60", LAG_S: "601x60"},
    "DuramenCopiesMissing": {"duramen_partition_ready_replicas": "2x60", "duramen_partition_wanted_replicas": "3x60"},
    "DuramenNodeLost": {"duramen_node_up": "0x60"},
    "DuramenDiskNearlyFull": {FREE: "1000000000x60", SIZE: "100000000000x60"},
    "DuramenDiskFillsUp": {FREE: "400000000000-1000000000x60", SIZE: "1000000000000x60"},
    "DuramenSlowCommits": SLOW,
    "DuramenQueueAge": {"duramen_log_queue_age_seconds": "6x60"},
    "DuramenReadersEnd": {"duramen_resp_reader_ends_total": "0+1x60"},
    "DuramenCertificateEnds": {"duramen_certificate_expiry_timestamp_seconds": "86400x60"},
    "DuramenClockWrong": {'duramen_trouble{kind="clock_wrong"}': "1x60"},
}

# Others that say the same: of the log's server, as routers and nodes see it.
LOG_FREE, LOG_SIZE = "duramen_log_server_disk_free_bytes", "duramen_log_server_disk_size_bytes"
BY_OTHERS: dict[str, Course] = {
    "DuramenUnwritable": {"duramen_log_server_writable": "0x60"},
    "DuramenDiskNearlyFull": {LOG_FREE: "1000000000x60", LOG_SIZE: "100000000000x60"},
    "DuramenDiskFillsUp": {LOG_FREE: "400000000000-1000000000x60", LOG_SIZE: "1000000000000x60"},
    "DuramenCertificateEnds": {"duramen_log_server_certificate_expiry_timestamp_seconds": "86400x60"},
}


def series_of(observed: Observed, course: Course) -> Iterator[dict[str, str]]:
    """The series of a server of one hour, as the tool reads them."""
    text = metrics_to_text(status_of_server(observed), measured_whole()).body.decode()
    yield {"series": 'up{job="duramen",instance="n1"}', "values": course.get("up", "1x60")}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels = ",".join(f'{name}="{value}"' for name, value in sample.labels.items())
            values = course.get(f"{sample.name}{{{labels}}}", course.get(sample.name, f"{sample.value:f}x60"))
            comma = "," if labels else ""
            yield {"series": f'{sample.name}{{{labels}{comma}job="duramen",instance="n1"}}', "values": values}


def whole() -> Observed:
    """A server with nothing wrong."""
    observed = observed_whole()
    return replace(
        observed,
        nodes=tuple(replace(each, alive=True) for each in observed.nodes),
        log=None if observed.log is None else replace(observed.log, stopped=None),
    )


def firing(folder: Path, course: Course) -> set[str]:
    """The names of the alerts that fire after an hour, as Prometheus finds them."""
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not installed: apt-get install prometheus")
    silent = {
        "promql_expr_test": [
            {"expr": f'count(ALERTS{{alertname="{name}",alertstate="firing"}})', "eval_time": "1h", "exp_samples": []}
            for name in RULES
        ]
    }
    document = {
        "rule_files": [str(ALERTS)],
        "evaluation_interval": "1m",
        "tests": [{"interval": "1m", "input_series": list(series_of(whole(), course)), **silent}],
    }
    file = folder / "tests.yaml"
    file.write_text(yaml.safe_dump(document))
    done = subprocess.run([promtool, "test", "rules", str(file)], capture_output=True, text=True, check=False)
    said = done.stdout + done.stderr
    found = set(re.findall(r'expr: "count\(ALERTS\{alertname=\\"(\w+)\\"', said))
    assert (done.returncode == 0) == (not found), said
    return found


def test_every_metric_of_an_alert_is_one_that_servers_show() -> None:
    shown = {line["series"].partition("{")[0] for line in series_of(whole(), {})}
    for name, rule in RULES.items():
        used = set(re.findall(r"\bduramen_\w+", rule["expr"]))
        assert used <= shown, f"{name} asks for {used - shown}"


def test_every_alert_has_its_trouble_and_says_what_to_do() -> None:
    assert RULES.keys() == TROUBLES.keys()
    for name, rule in RULES.items():
        assert rule["labels"]["severity"] in ("page", "ticket"), name
        assert rule["annotations"].keys() == {"summary", "do"}, name


def test_nothing_fires_where_all_is_well(tmp_path: Path) -> None:
    assert firing(tmp_path, {}) == set()


@pytest.mark.parametrize("name", TROUBLES)
def test_a_trouble_has_its_alert_and_no_other(name: str, tmp_path: Path) -> None:
    assert firing(tmp_path, TROUBLES[name]) == {name}


@pytest.mark.parametrize("name", BY_OTHERS)
def test_what_others_see_of_the_logs_server_raises_the_same_alert(name: str, tmp_path: Path) -> None:
    assert firing(tmp_path, BY_OTHERS[name]) == {name}
