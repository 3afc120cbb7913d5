"""Endpoints: the protocols by which the data plane is reached.

`grpc/` carries everything: data, tables, administration. `resp/` is the Redis protocol for the data plane alone;
Python's gRPC layer costs some 300 µs per call and side, and the RESP endpoint answers a GET in some 15 µs. Both
translate and decide nothing: what a request means is in `router/data`. `turns/` is the line in which the work of both
waits for its user's share of the event loop.
"""
