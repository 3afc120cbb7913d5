"""The data plane of another server, over gRPC: a `Connection` with the contract of the local one.

`messages.py` translates requests and replies to the messages of `duramen.v1` and back; both ends of the wire use it, so
`router/endpoints/grpc` serves exactly what `grpc_connection.py` asks. Nothing here decides or retries anything: a part
that failed arrives as the error that the server raised.

Reading order: `partition_lists.py`, `definitions.py`, `messages.py`, `reply_pieces.py`, `grpc_connection.py`.
"""
