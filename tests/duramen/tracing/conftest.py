"""A collector, and a server that sends its spans to it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from kit.client.server_process import ServerProcess
from kit.traces.collector import Collector
from kit.traces.servers import environment_of_traces


@pytest.fixture(scope="module")
def collector() -> Iterator[Collector]:
    with Collector() as listening:
        yield listening


@pytest.fixture(scope="module")
def server_arguments() -> list[str]:
    """What a module's server is started with besides."""
    return []


@pytest.fixture(scope="module")
def server(
    collector: Collector, server_arguments: list[str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ServerProcess]:
    folder = tmp_path_factory.mktemp("traced")
    with environment_of_traces(collector.endpoint):
        started = ServerProcess(folder / "data", log=folder / "log", arguments=["--traces", "otlp", *server_arguments])
    yield started
    started.close()
