"""Where a server's spans go, by OpenTelemetry's variables, and what its collector may answer."""

from __future__ import annotations

import gzip
import threading
import zlib
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from kit.deadlines import wait_until
from kit.held_port import HeldPort

from duramen.tracing.export import AnnouncedSending, QueueLimits, SpanQueue, limits_of
from duramen.tracing.otlp_bytes import SERVER, SpanRecord
from duramen.tracing.otlp_http import CollectorLine, address_of
from log_tier.model.errors import InvalidRequest

OTLP = "OTEL_EXPORTER_OTLP_"


class Answering:
    """A collector that gives the next of these answers, the last one again and again."""

    def __init__(self, *answers: int) -> None:
        self.answers = list(answers)
        self.bodies: list[bytes] = []
        self.headers: list[dict[str, str]] = []
        answering = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                answering.bodies.append(self.rfile.read(int(self.headers["content-length"])))
                answering.headers.append({name.lower(): value for name, value in self.headers.items()})
                answers = answering.answers
                self.send_response(answers.pop(0) if len(answers) > 1 else answers[0])
                self.send_header("location", "http://127.0.0.1:1/")
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                """Nothing on the standard error."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self.variables = {f"{OTLP}ENDPOINT": f"http://127.0.0.1:{self._server.server_port}"}

    def __enter__(self) -> Answering:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def test_the_variables_of_traces_come_first(tmp_path: Path) -> None:
    address = address_of({})
    assert (address.url, address.timeout_s, address.trusted) == ("http://localhost:4318/v1/traces", 10.0, True)
    of_all = {f"{OTLP}ENDPOINT": "https://all:4318/", f"{OTLP}TIMEOUT": "3", f"{OTLP}HEADERS": "key=a%20b,Other=c"}
    address = address_of(of_all)
    assert (address.url, address.timeout_s) == ("https://all:4318/v1/traces", 3.0)
    assert (address.headers["key"], address.headers["other"]) == ("a b", "c")
    of_traces = {f"{OTLP}TRACES_ENDPOINT": "https://traces/otlp", f"{OTLP}TRACES_TIMEOUT": "4.5"}
    address = address_of(of_all | of_traces)
    assert (address.url, address.timeout_s) == ("https://traces/otlp", 4.5)
    pem, key = tmp_path / "a.pem", tmp_path / "a.key"
    pem.touch()
    key.touch()
    files = {f"{OTLP}CERTIFICATE": str(pem), f"{OTLP}CLIENT_CERTIFICATE": str(pem), f"{OTLP}CLIENT_KEY": str(key)}
    address = address_of(files)
    assert (address.trusted, address.pair) == (str(pem), (str(pem), str(key)))


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("PROTOCOL", "grpc", "mostly to port 4318"),
        ("TRACES_PROTOCOL", "http/json", "http/protobuf"),
        ("ENDPOINT", "collector:4318", "http://"),
        ("COMPRESSION", "zip", "none, gzip or deflate"),
        ("TIMEOUT", "soon", "give seconds"),
        ("TIMEOUT", "-1", "give seconds"),
        ("TIMEOUT", "nan", "give seconds"),
        ("CERTIFICATE", "/nowhere/ca.pem", "which is no file"),
        ("CLIENT_KEY", "/nowhere/a.key", "which is no file"),
    ],
)
def test_a_variable_that_cannot_be_is_refused(name: str, value: str, said: str) -> None:
    with pytest.raises(InvalidRequest, match=f"OTEL_.*{said}"):
        address_of({f"{OTLP}{name}": value})


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({"OTEL_BSP_SCHEDULE_DELAY": "0"}, "from 1 on"),
        ({"OTEL_BSP_MAX_QUEUE_SIZE": "many"}, "from 1 on"),
        ({"OTEL_BSP_MAX_QUEUE_SIZE": "10"}, "above the 10 spans"),
    ],
)
def test_limits_that_cannot_be_are_refused(variables: dict[str, str], said: str) -> None:
    assert limits_of({}) == QueueLimits()
    with pytest.raises(InvalidRequest, match=said):
        limits_of(variables)


@pytest.mark.parametrize(("compression", "plain"), [("gzip", gzip.decompress), ("deflate", zlib.decompress)])
def test_bodies_are_compressed(compression: str, plain: Any) -> None:
    with Answering(200) as collector:
        line = CollectorLine(address_of({**collector.variables, f"{OTLP}COMPRESSION": compression}))
        assert line.send(b"spans" * 100)
        line.close()
    assert plain(collector.bodies[0]) == b"spans" * 100
    assert collector.headers[0]["content-encoding"] == compression
    assert collector.headers[0]["content-type"] == "application/x-protobuf"


def test_a_busy_collector_is_asked_again_and_one_that_refuses_is_not() -> None:
    for answers, taken, asked in (((503, 429, 200), True, 3), ((400,), False, 1), ((302,), False, 1)):
        with Answering(*answers) as collector:
            line = CollectorLine(address_of(collector.variables), pause_first_s=0.001)
            assert line.send(b"spans") is taken
            line.close()
        assert collector.bodies == [b"spans"] * asked


def test_a_collector_that_does_not_answer_has_its_time() -> None:
    with HeldPort() as held:
        variables = {f"{OTLP}ENDPOINT": f"http://127.0.0.1:{held.number}", f"{OTLP}TIMEOUT": "0.3"}
        line = CollectorLine(address_of(variables))
        assert not line.send(b"spans")
        line.close()
    assert not line.send(b"spans"), "and none that is closed"


def span(name: str) -> SpanRecord:
    return SpanRecord(b"t" * 16, b"i" * 8, b"", False, "", name, SERVER, 1, 2, {}, [], [], False)


def test_spans_are_sent_in_their_order_and_the_oldest_are_lost() -> None:
    sent: list[list[str]] = []
    held, begun = threading.Event(), threading.Event()

    def send(spans: Sequence[SpanRecord]) -> None:
        begun.set()
        assert held.wait(60)
        sent.append([each.name for each in spans])

    queue = SpanQueue(send, QueueLimits(delay_ms=3_600_000, spans_max=5, batch_max=2))
    queue.start()
    queue.put(span("a"))
    queue.put(span("b"))
    wait_until(begun.is_set)
    for name in "cdefghi":
        queue.put(span(name))
    held.set()
    wait_until(lambda: len(sent) == 4)
    queue.put(span("j"))
    queue.close(60)
    assert sent == [["a", "b"], ["e", "f"], ["g", "h"], ["i"], ["j"]]


def test_a_sending_that_raises_is_one_line(caplog: pytest.LogCaptureFixture) -> None:
    works = False

    def send(spans: Sequence[SpanRecord]) -> bool:
        assert works, "a bug"
        return True

    sending = AnnouncedSending(send)
    for _ in range(3):
        sending([span("a")])
    works = True
    sending([span("a")])
    said = [record.getMessage() for record in caplog.records if record.name == "duramen.tracing.export"]
    assert [line.split(",")[0] for line in said] == [
        "the collector of traces does not take spans",
        "the collector of traces takes spans again; 3 were lost",
    ]
