"""How our gRPC channels and servers are set up, in one place so that both ends agree.

**A network that loses packets without a word** (a pulled cable, a firewall that has forgotten a connection) resets
nothing, so each end has to find out by itself: it asks the other one whenever it has heard nothing for `_PING_AFTER_S`,
and gives the connection up when no answer comes within `_PING_ANSWER_S`. A channel tries a new one at once, and again
for as long as anybody calls. So a client that was cut off works again at most `CUT_NOTICED_S` + `RECONNECTED_S` after
the network does.
"""

from __future__ import annotations

from typing import Final

__all__ = ["CHANNEL_OPTIONS", "CUT_NOTICED_S", "MESSAGE_BYTES_MAX", "RECONNECTED_S", "SERVER_OPTIONS"]

# Two of the largest batches in one write, or a reply of the largest read, envelopes included.
MESSAGE_BYTES_MAX: Final = 48 * 1024 * 1024

# A ping costs either end some 20 us: a thousand silent connections take less than a hundredth of a processor.
_PING_AFTER_S: Final = 3
# gRPC's own threads answer pings, whatever the event loop does; a paused process, or a machine that swaps, does not.
_PING_ANSWER_S: Final = 5

# Limit of one attempt to connect, handshake included: a busy server may take seconds to answer.
_CONNECT_S: Final = 5
# Between two attempts; a server that restarts is found again within a second, not within two minutes.
_CONNECT_PAUSE_FIRST_S: Final = 0.05
_CONNECT_PAUSE_MAX_S: Final = 1

CUT_NOTICED_S: Final = _PING_AFTER_S + _PING_ANSWER_S
"""A connection over which nothing comes any more is given up within so many seconds."""

RECONNECTED_S: Final = _CONNECT_S + _CONNECT_PAUSE_MAX_S
"""A server that can be reached again is connected to within so many seconds."""


def _ms(seconds: float) -> int:
    return int(seconds * 1000)


_BOTH: Final = (
    ("grpc.max_receive_message_length", MESSAGE_BYTES_MAX),
    ("grpc.max_send_message_length", MESSAGE_BYTES_MAX),
    ("grpc.keepalive_time_ms", _ms(_PING_AFTER_S)),
    ("grpc.keepalive_timeout_ms", _ms(_PING_ANSWER_S)),
    # gRPC's core waits a minute for the answer to a ping of its own (for its flow control), and sends none for the
    # keepalive while it waits.
    ("grpc.http2.ping_timeout_ms", _ms(_PING_ANSWER_S)),
    # A watch may be silent for hours, and between two calls there is no stream at all.
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.keepalive_permit_without_calls", 1),
)

CHANNEL_OPTIONS: Final = (
    *_BOTH,
    # A TCP connection of its own. gRPC would share one among all channels of a process to that server, and with it the
    # backoff after a failure: a new client would be refused although the server has been back for a second.
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.initial_reconnect_backoff_ms", _ms(_CONNECT_PAUSE_FIRST_S)),
    # Despite its name also the time that one attempt may take.
    ("grpc.min_reconnect_backoff_ms", _ms(_CONNECT_S)),
    ("grpc.max_reconnect_backoff_ms", _ms(_CONNECT_PAUSE_MAX_S)),
    # Retries are the client's own, which knows what may be repeated.
    ("grpc.enable_retries", 0),
)

_PENDING_CALLS: Final = 16_384
"""Calls that have come and that the event loop has not looked at yet. gRPC's own limit is 1,000: beyond it, some calls
of a burst end with CANCELLED, which says nothing and which clients do not repeat."""

_PENDING_S: Final = 600
"""How long one of them may wait until then. gRPC's own limit is 30 s: an event loop that is held up for longer, or a
machine that has much else to do, would end calls with CANCELLED. Their clients' deadlines are shorter than this."""

_HANDSHAKE_S: Final = 10
"""A client that has not completed its TLS handshake by then is hostile, or its network is dead. gRPC waits 2 minutes,
and half-open connections count as connections."""

SERVER_OPTIONS: Final = (
    *_BOTH,
    ("grpc.server_handshake_timeout_ms", _ms(_HANDSHAKE_S)),
    ("grpc.server.max_pending_requests", _PENDING_CALLS),
    ("grpc.server.max_pending_requests_hard_limit", 2 * _PENDING_CALLS),
    ("grpc.server_max_unrequested_time_in_server", _PENDING_S),
    # A second server on the same port is an error and not a silent half of the traffic.
    ("grpc.so_reuseport", 0),
    # Below the channels' own, so that none of them is taken for an attack.
    ("grpc.http2.min_ping_interval_without_data_ms", _ms(_PING_AFTER_S / 2)),
)
