"""Metrics as a function of what was observed and measured, read back by the library's own parsers."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
from kit.whole_server import measured_whole, observed_whole
from prometheus_client import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics_families
from prometheus_client.parser import text_string_to_metric_families as text_families

from duramen.server.sight.measures import Measures
from duramen.server.sight.metrics import SERIES_MAX, metrics_to_text
from duramen.server.sight.observed import AuditSeen, DiskSpace, LogFacts, Observed, PartitionStatus
from duramen.server.sight.status_document import status_of_server
from duramen.server.sight.troubles import TROUBLE_KINDS, hidden_trouble, troubles_of

OPENMETRICS = "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5"


def parsed(observed: Observed, measures: Measures, accepted: str = "") -> dict[str, Metric]:
    text = metrics_to_text(status_of_server(observed), measures, accepted)
    families = openmetrics_families if "openmetrics" in text.content_type else text_families
    return {family.name: family for family in families(text.body.decode())}


def test_both_forms_say_the_same() -> None:
    found = [
        {
            (sample.name, *sorted(sample.labels.items())): sample.value
            for family in parsed(observed_whole(), measured_whole(), accepted).values()
            for sample in family.samples
        }
        for accepted in ("", OPENMETRICS)
    ]
    assert found[0] == found[1]
    assert found[0]["duramen_log_appends_total",] == 3
    assert found[0]["duramen_log_queue_age_seconds",] == 0.5
    assert found[0]["duramen_partition_lag_records", ("partition", "1"), ("table", "flights")] == 2
    assert found[0]["duramen_certificate_expiry_timestamp_seconds", ("kind", "server"), ("name", "server")] == 2000000.5
    assert found[0]["duramen_node_up", ("node", "n2")] == 0
    assert found[0]["duramen_node_clock_skew_seconds", ("node", "n1")] == 2
    assert found[0]["duramen_node_disk_free_bytes", ("node", "n1")] == 5 << 40
    assert found[0]["duramen_log_server_disk_size_bytes",] == 4 << 40
    log_certificate = "duramen_log_server_certificate_expiry_timestamp_seconds"
    assert found[0][log_certificate, ("kind", "server"), ("name", "log")] == 3000000.5


def test_names_follow_the_conventions() -> None:
    for name, family in parsed(observed_whole(), measured_whole(), OPENMETRICS).items():
        assert re.fullmatch(r"duramen(_[a-z]+)+", name), name
        assert family.documentation, name
        assert not name.endswith(("_ms", "_s", "_total_total")), name
        if family.type == "histogram":
            assert name.endswith(("_seconds", "_bytes")), name
            *_, last, count, total = family.samples
            assert (last.labels["le"], last.value, count.value) == ("+Inf", 3, 3)
            assert total.value > 99


@given(st.lists(st.text(min_size=1, max_size=30), min_size=1, max_size=5, unique=True))
def test_hostile_names_are_escaped(tables: list[str]) -> None:
    shown = [table.encode("utf-8", "replace").decode() for table in tables]
    for accepted in ("", OPENMETRICS):
        family = parsed(observed_whole(shown, partitions=1), Measures(), accepted)["duramen_partition_readable"]
        assert [sample.labels["table"] for sample in family.samples] == shown


def test_a_name_that_looks_like_a_metric_stays_a_label() -> None:
    hostile = 'x"} 1\nduramen_ready 0\n\\'
    found = parsed(observed_whole([hostile]), Measures())
    assert [sample.value for sample in found["duramen_ready"].samples] == [1]
    assert {sample.labels["table"] for sample in found["duramen_partition_readable"].samples} == {hostile}


def test_series_are_bounded() -> None:
    found = parsed(observed_whole(["a", "b"], partitions=50), measured_whole())
    samples = [sample for family in found.values() for sample in family.samples]
    of_partitions = Counter(
        (each.labels["table"], each.labels["partition"]) for each in samples if "table" in each.labels
    )
    of_nodes = Counter(each.labels["node"] for each in samples if "node" in each.labels)
    assert len(of_partitions) == 100
    assert max(*of_partitions.values(), *of_nodes.values()) <= SERIES_MAX
    assert len(samples) - sum(of_partitions.values()) < 250, "what a server has for itself"


def test_what_is_not_known_has_no_series() -> None:
    bare = replace(
        observed_whole(), log=None, disk=None, memory_bytes=None, connections=None, nodes=(), certificates=()
    )
    bare = replace(bare, log_server=None)
    bare = replace(bare, partitions=tuple(replace(each, first=None) for each in bare.partitions))
    missing = parsed(observed_whole(), measured_whole()).keys() - parsed(bare, Measures()).keys()
    assert {"duramen_disk_free_bytes", "duramen_partition_first_offset", "duramen_log_writable"} <= missing
    assert {"duramen_write_seconds", "duramen_node_up", "duramen_memory_resident_bytes"} <= missing
    assert {"duramen_log_server_up", "duramen_node_disk_free_bytes"} <= missing
    assert "duramen_partition_last_offset" not in missing


def test_who_is_silent_has_no_figures_but_its_certificates() -> None:
    server = observed_whole().log_server
    assert server is not None
    twice = server.certificates * 2
    found = parsed(replace(observed_whole(), log_server=replace(server, alive=False, certificates=twice)), Measures())
    of_log = {name for name in found if name.startswith("duramen_log_server_")}
    assert of_log == {"duramen_log_server_up", "duramen_log_server_certificate_expiry_timestamp_seconds"}
    assert len(found["duramen_log_server_certificate_expiry_timestamp_seconds"].samples) == 1, "one series a name"
    assert [sample.labels["node"] for sample in found["duramen_node_clock_skew_seconds"].samples] == ["n1"]
    assert [sample.labels["node"] for sample in found["duramen_node_disk_size_bytes"].samples] == ["n1"]
    stopped = replace(server, stopped="EIO", disk_free_bytes=None, disk_full_bytes=None)
    found = parsed(replace(observed_whole(), log_server=stopped), Measures())
    assert found["duramen_log_server_writable"].samples[0].value == 0
    assert "duramen_log_server_disk_free_bytes" not in found


def test_an_audit_that_found_a_difference_raises_the_alert_of_the_proof() -> None:
    equal = AuditSeen("export", "s3://lake/a", 7, 6, "equal", "", 1)
    ready = PartitionStatus("a", 0, "ready", 0, 9, 9, 0.0, audits=(equal,))
    wrong = replace(ready, partition=1, audits=(equal, equal._replace(verdict="different", reason="offsets 3 to 4")))
    folded = replace(ready, partition=2, audits=(), differs="offsets 3 to 4")
    found = parsed(replace(observed_whole(), partitions=(ready, wrong, folded)), Measures())
    assert [sample.value for sample in found["duramen_partition_different"].samples] == [0, 1, 1]


def test_troubles_have_their_kinds() -> None:
    broken = replace(
        observed_whole(),
        log=LogFacts(0, 0, 0, 0, 0, 0, "EIO", damages=2),
        disk=DiskSpace("/data", 0, 1 << 30),
        partitions=(
            PartitionStatus("a", 0, "stopped", 0, 1, 1, 0.0, damaged=True),
            PartitionStatus("a", 1, "behind", 0, 9, 1, 3.0),
            PartitionStatus("a", 2, "replaying", 0, 9, 1, 0.0),
        ),
    )
    found = parsed(broken, Measures())
    samples = {sample.labels["kind"]: sample.value for sample in found["duramen_trouble"].samples}
    assert list(samples) == list(TROUBLE_KINDS)
    kinds = {each.kind for each in troubles_of(broken)}
    assert kinds == {"log_stopped", "stopped", "disk_full", "node_lost", "behind", "opening"}
    assert {kind for kind, value in samples.items() if value} == kinds
    assert hidden_trouble().kind in TROUBLE_KINDS
    assert [sample.value for sample in found["duramen_partition_damaged"].samples] == [1, 0, 0]
    assert [sample.value for sample in found["duramen_partition_readable"].samples] == [0, 1, 0]
    assert [found[f"duramen_{name}"].samples[0].value for name in ("ready", "log_writable", "log_damages")] == [0, 0, 2]
