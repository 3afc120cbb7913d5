"""The environment in which servers of a test send their spans to a collector of the test."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

__all__ = ["environment_of_traces"]


@contextmanager
def environment_of_traces(endpoint: str, *, sampler: str = "parentbased_always_off", **more: str) -> Iterator[None]:
    """Servers that are started inside send what they trace soon. `sampler`: OTEL_TRACES_SAMPLER."""
    values = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": endpoint,
        "OTEL_TRACES_SAMPLER": sampler,
        "OTEL_BSP_SCHEDULE_DELAY": "50",
        "NO_PROXY": "127.0.0.1",
        "no_proxy": "127.0.0.1",
        **more,
    }
    with pytest.MonkeyPatch.context() as patched:
        for name, value in values.items():
            patched.setenv(name, value)
        yield
