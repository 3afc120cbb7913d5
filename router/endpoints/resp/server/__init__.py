"""The RESP server: what it listens on, which connections it has, and what all of them share.

Reading order: `sockets.py`, `peers.py` (where the other nodes' RESP endpoints are), `endpoint_service.py`,
`resp_server.py`, `resp_counts.py`.
"""
