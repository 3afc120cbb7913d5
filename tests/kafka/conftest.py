"""A server over Kafka for the tests of this folder."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from kit.kafka.up_on_kafka import Up


@pytest.fixture
def up(tmp_path: Path) -> Iterator[Callable[..., Up]]:
    """Starts servers, and ends them with the test."""
    running: list[Up] = []

    def start(data: Path, url: str, *more: str) -> Up:
        running.append(Up(data, url, tmp_path / f"up-{len(running)}.log", *more))
        return running[-1]

    yield start
    for server in running:
        server.close()
