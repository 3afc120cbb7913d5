"""One file per contender, each behind one of two small Protocols (`driver.py`).

A `Driver` is a server of its own and a client inside the benchmark's process: `start(folder)` → put, get, put_many,
get_many → `stop()`. An `EmbeddedStore` is a library in this process, without a server.

A driver translates and does nothing else: no caching, no batching that the peer's client does not have, no shortcut
around an acknowledgement. Its class docstring says which choices its client left open, what was measured, and what was
taken. Its `note` says, for the report, what an acknowledged write promises.

Duramen's own drivers are in `duramen.py` and, for the RESP endpoint, `resp_endpoint.py`, which has its client in common
with
`redis.py` (`resp_clients.py`); they are as thin as the others. Floors that have the shape of a server
(`grpc_echo.py`) or of a store (`lmdb.py`) are here too; the bare file is `synced_file.py`.

`etcd.proto` declares the part of etcd's API that is needed; regenerate `etcd_pb2.py` from the repository's root with

    python -m grpc_tools.protoc -I. --python_out=. --pyi_out=. bench/drivers/etcd.proto
"""

from __future__ import annotations

__all__: list[str] = []
