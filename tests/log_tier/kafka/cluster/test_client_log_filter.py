"""A broker that is away is said once a minute, and not by each of a process' clients, ten times a second."""

from __future__ import annotations

import logging

import pytest

pytest.importorskip("confluent_kafka")

from log_tier.kafka.cluster.client_log_filter import ClientLogFilter


def record(text: str) -> logging.LogRecord:
    return logging.LogRecord("log_tier.kafka.writing.sender", logging.ERROR, "", 0, "%s", (text,), None)


def refused(client: str, address: str) -> logging.LogRecord:
    return record(f"FAIL [{client}] [thrd:{address}/1]: {address}/1: Connect to ipv4#{address} failed: refused")


def test_one_address_is_logged_once_a_minute_for_all_clients() -> None:
    now = 100.0
    log_filter = ClientLogFilter(lambda: now)
    assert log_filter.filter(refused("duramen#consumer-4", "10.0.0.1:9092"))
    assert not log_filter.filter(refused("duramen#producer-2", "10.0.0.1:9092"))
    assert log_filter.filter(refused("duramen#producer-2", "10.0.0.2:9092"))
    now = 160.0
    assert log_filter.filter(refused("duramen#producer-2", "10.0.0.1:9092"))


@pytest.mark.parametrize(
    "reason",
    [
        "SSL handshake failed: error:0A000086:SSL routines::certificate verify failed: broker certificate",
        "error:0A000086:SSL routines::certificate verify failed (after 3ms in state SSL_HANDSHAKE)",
        "SASL authentication error: Authentication failed: invalid credentials",
    ],
)
def test_a_broker_that_lets_nobody_in_is_logged_once_a_minute(reason: str) -> None:
    """By what a client logs, and by what its error callback passes on."""
    log_filter = ClientLogFilter(lambda: 0.0)
    names = "sasl_ssl://10.0.0.1:9093/bootstrap", "sasl_ssl://10.0.0.1:9093/1"
    lines = [f"FAIL [duramen#producer-2] [thrd:{name}]: {name}: {reason}" for name in names] + [f"{names[0]}: {reason}"]
    assert [log_filter.filter(record(line)) for line in lines] == [True, False, False]


def test_everything_else_is_logged() -> None:
    log_filter = ClientLogFilter(lambda: 0.0)
    for _ in range(2):
        assert log_filter.filter(record("GETPID [duramen#producer-2] Failed to acquire idempotence PID"))
