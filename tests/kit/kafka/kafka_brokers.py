"""Fixtures: real Kafka brokers, for the tests that carry the marker `kafka`."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final, Protocol

import pytest

from deploy.kafka.brokers import Brokers, missing

__all__ = [
    "StartBrokers",
    "kafka",
    "kafka_url",
    "skip_where_there_is_no_kafka",
    "start_brokers",
    "three_brokers",
]

DEADLINE_S: Final = 60.0

# What a broker looks at every few minutes, so that a test that waits for it waits a second.
_IMPATIENT: Final[Mapping[str, str]] = {
    "log.initial.task.delay.ms": "500",
    "log.retention.check.interval.ms": "500",
    "log.segment.delete.delay.ms": "500",
    "log.cleaner.backoff.ms": "500",
}


class StartBrokers(Protocol):
    """Starts a cluster of a test's own, ready to be used; the test's end ends it. Takes seconds."""

    def __call__(self, count: int = ..., *, settings: Mapping[str, str] | None = ...) -> Brokers: ...


def skip_where_there_is_no_kafka() -> None:
    """Skip the test on a machine without Java or Kafka's jars."""
    if reason := missing():
        pytest.skip(reason)


@contextmanager
def _running(count: int, data: Path, settings: Mapping[str, str]) -> Iterator[Brokers]:
    """Brokers from ready to gone. Nobody reads their data again, so they are not asked to end well."""
    brokers = Brokers(count, data, settings=settings)
    try:
        brokers.start()
        brokers.wait_ready()
        yield brokers
    finally:
        brokers.stop(grace_s=0)


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of one broker, shared by the tests of this process: each makes topics of its own names.

    Every worker of a parallel run has its own broker (some 300 MB): no worker waits for another one to end.
    """
    skip_where_there_is_no_kafka()
    with _running(1, tmp_path_factory.mktemp("kafka"), _IMPATIENT) as brokers:
        yield brokers.bootstrap


@pytest.fixture
def kafka_url(kafka: str) -> str:
    """The shared broker as a log of this test's own: a namespace that nobody else has."""
    return f"kafka://{kafka}/t{uuid.uuid4().hex[:12]}"


@pytest.fixture
def start_brokers(tmp_path: Path) -> Iterator[StartBrokers]:
    """A function that starts `count` brokers, whose server.properties have `settings` in addition to ours."""
    skip_where_there_is_no_kafka()
    with ExitStack() as stack:

        def start(count: int = 1, *, settings: Mapping[str, str] | None = None) -> Brokers:
            data = tmp_path / f"kafka-{uuid.uuid4().hex[:8]}"
            return stack.enter_context(_running(count, data, {**_IMPATIENT, **(settings or {})}))

        yield start


@pytest.fixture
def three_brokers(start_brokers: StartBrokers) -> Callable[..., Brokers]:
    """A function that starts three brokers to kill and to pause: `three_brokers(settings=...)`."""

    def start(*, settings: Mapping[str, str] | None = None) -> Brokers:
        return start_brokers(3, settings=settings)

    return start
