"""What all connections of an endpoint may take together.

- B1 The bytes that connections hold, commands that wait and replies that nobody reads, are bounded together. Where they
     are more, those that hold most end first, so a small connection is never ended for a large one
     (`connections_memory.py`; Redis calls it client eviction).
- B2 A connection whose TLS handshake is not done is none yet: it holds a descriptor and some 50 KiB, for `HANDSHAKE_S`
     at most, and there are at most `HANDSHAKES_MAX` of them. The oldest one ends for the next, so a flood of clients
     that never go on keeps nobody out (`tls_handshakes.py`).

It deliberately does not count what a command takes while it runs: `router/endpoints/resp/wire/limits.py` bounds that
for each connection.
"""
