"""What a program has set up may fail: its calls, and our threads, go on as if it had not."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from kit.traces.program import durations, processed_by
from opentelemetry.context import Context
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor

import duramen


class Failing(SpanProcessor):
    """A processor with a bug."""

    def __init__(self, *, at_start: bool) -> None:
        self.at_start = at_start
        self.calls = 0

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        if self.at_start:
            self.calls += 1
            raise RuntimeError("a bug of the program's processor")

    def on_end(self, span: ReadableSpan) -> None:
        self.calls += 1
        raise RuntimeError("a bug of the program's processor")


@pytest.mark.embedded_log_only
def test_the_log_and_the_callers_go_on(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        for at_start in (True, False):
            failing = Failing(at_start=at_start)
            name = f"failing_{int(at_start)}"
            with processed_by(failing), duramen.open(tmp_path / name, traces=True) as db:
                table = db.create_table(name, partitions=1)
                for number in range(5):
                    done = table.put(b"k%d" % number, b"v", if_absent=True)
                assert table.get(b"k4", after=done.token) == b"v"
                with pytest.raises(duramen.ConditionFailed):
                    table.put(b"k1", b"v", if_absent=True)
            assert failing.calls > 1
            assert sum(point.count for point in durations(name)) == 7
    said = [record for record in caplog.records if record.name == "duramen.tracing.harmless"]
    assert 1 <= len(said) <= 2, "one line in a minute, for many spans"
