"""The gRPC endpoint: the data plane's requests and replies as messages of `duramen.v1`.

`messages.py` translates both ways and is shared by the server's side (`services.py`) and by the client's
(`connection.py`; `router/routing/failover.py` joins a few of those), so that what one end writes the other end reads.
There is no meaning here: what a read is stands in `router.data.local_data`, and in `router.routing` for many nodes.

A call that fails as a whole ends with a gRPC status and a `Problem` in its trailing metadata; a part that fails has a
`Problem` in its place in the reply. Both become the same typed errors on the other side.
"""
