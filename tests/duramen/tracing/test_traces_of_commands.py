"""Traces of the Redis protocol, whose commands bring no context: the server begins them, for a share that it draws."""

from __future__ import annotations

from pathlib import Path

import pytest
import redis
from kit.client.server_process import ServerProcess
from kit.traces.collector import Collector, tree_of
from kit.traces.servers import environment_of_traces
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ALWAYS_ON

from duramen.tracing.otlp_bytes import SpanRecord
from duramen.tracing.served_spans import ServedTraces, share_of

pytestmark = pytest.mark.embedded_log_only


def served(tmp_path: Path, collector: Collector, sampler: str) -> ServerProcess:
    with environment_of_traces(collector.endpoint, sampler=sampler):
        arguments = ["--traces", "otlp", "--resp-port", "0"]
        return ServerProcess(tmp_path / "data", log=tmp_path / "log", arguments=arguments)


def test_writes_and_reads_that_wait_are_traces(tmp_path: Path) -> None:
    with Collector() as collector:
        server = served(tmp_path, collector, "parentbased_always_on")
        try:
            with redis.Redis(port=int(server.announcement["resp_port"])) as client:
                client.set(b"secret key", b"secret value")
                client.incr(b"counter")
                with client.pipeline(transaction=False) as pipeline:
                    pipeline.set(b"a", b"1").set(b"b", b"2").execute()
                client.execute_command("DURAMEN.LEVEL", "strong")
                assert client.get(b"secret key") == b"secret value"
                with pytest.raises(redis.ResponseError):
                    client.incr(b"secret key")
            writes = collector.wait_for("RESP/write", 3)
            read = collector.wait_for("RESP/read")[0]
            for write in writes:
                collector.wait_for_part(write, "log sync")
            collector.wait_for_part(read, "index read")
        finally:
            server.close()
    assert len({span.trace for span in (*writes, read)}) == 4
    for span in (*writes, read):
        assert (span.parent, span.kind, span.failed) == (b"", "SERVER", False)
        assert span.attributes["db.collection.name"] == "default"
        assert span.attributes["network.protocol.name"] == "resp"
    for write in writes:
        tree = tree_of(collector.received, write.trace)
        assert "single: RESP/write > log append > log sync" in tree
        assert write.began_ns <= write.ended_ns
    assert "single: RESP/read > index read" in tree_of(collector.received, read.trace)
    assert b"secret" not in repr(collector.received).encode()


def test_a_server_that_begins_no_traces_begins_none(tmp_path: Path) -> None:
    with Collector() as collector:
        server = served(tmp_path, collector, "parentbased_always_off")
        try:
            with redis.Redis(port=int(server.announcement["resp_port"])) as client:
                for number in range(50):
                    client.set(b"k%d" % number, b"v")
            assert server.stop()[0] == 0
        finally:
            server.close()
    assert collector.received == []


@pytest.mark.parametrize(
    ("variables", "share"),
    [
        ({}, 1.0),
        ({"OTEL_TRACES_SAMPLER": "always_off"}, 0.0),
        ({"OTEL_TRACES_SAMPLER": "parentbased_always_off"}, 0.0),
        ({"OTEL_TRACES_SAMPLER": "parentbased_traceidratio", "OTEL_TRACES_SAMPLER_ARG": "0.25"}, 0.25),
        ({"OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": "much"}, 1.0),
        ({"OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": "7"}, 1.0),
        ({"OTEL_TRACES_SAMPLER": "traceidratio"}, 1.0),
        ({"OTEL_TRACES_SAMPLER": "somebody's"}, None),
    ],
)
def test_the_share_is_that_of_opentelemetrys_variables(variables: dict[str, str], share: float | None) -> None:
    assert share_of(variables) == share


@pytest.mark.parametrize("share", [0.0, 0.01, 0.5, 1.0])
def test_as_many_commands_are_traced_as_the_share_says(share: float) -> None:
    spans: list[SpanRecord] = []
    tracing = ServedTraces(ALWAYS_OFF, spans.append, share=share)
    for _ in range(20_000):
        span = tracing.command("RESP/write", "flights")
        if span is not None:
            span.end()
    assert len(spans) == pytest.approx(20_000 * share, rel=0.25)
    assert len({span.trace for span in spans}) == len(spans)


def test_a_sampler_of_its_own_decides_each_time() -> None:
    for sampler, traced in ((ALWAYS_ON, True), (ALWAYS_OFF, False)):
        tracing = ServedTraces(sampler, [].append)  # type: ignore[arg-type]
        assert (tracing.command("RESP/write", "flights") is not None) is traced
