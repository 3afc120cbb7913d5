"""How our gRPC channels and servers are set up, in one place so that both ends agree."""

from __future__ import annotations

from typing import Final

__all__ = ["CHANNEL_OPTIONS", "MESSAGE_BYTES_MAX", "SERVER_OPTIONS"]

# Two of the largest batches in one write, or a reply of the largest read, with room for their envelopes.
MESSAGE_BYTES_MAX: Final = 48 * 1024 * 1024

_SIZES: Final = (
    ("grpc.max_receive_message_length", MESSAGE_BYTES_MAX),
    ("grpc.max_send_message_length", MESSAGE_BYTES_MAX),
)

CHANNEL_OPTIONS: Final = (
    *_SIZES,
    # A dead server is noticed although nobody writes: a watch may be silent for hours.
    ("grpc.keepalive_time_ms", 20_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.http2.max_pings_without_data", 0),
    # A server that restarts is found again within a second, not within two minutes.
    ("grpc.initial_reconnect_backoff_ms", 50),
    # Despite its name also the time that one attempt may take: a busy server needs more than a moment to answer.
    ("grpc.min_reconnect_backoff_ms", 5_000),
    ("grpc.max_reconnect_backoff_ms", 1_000),
    # Retries are the client's own, which knows what may be repeated.
    ("grpc.enable_retries", 0),
)

SERVER_OPTIONS: Final = (
    *_SIZES,
    # A second server on the same port is an error and not a silent half of the traffic.
    ("grpc.so_reuseport", 0),
    ("grpc.http2.min_ping_interval_without_data_ms", 10_000),
    ("grpc.keepalive_permit_without_calls", 1),
)
