"""The data plane of another server, over gRPC: a `Connection` with the contract of the local one.

`messages.py` and `table_messages.py` translate requests and replies to the messages of `duramen.v1` and back. Both ends
of the wire use them, so `router/endpoints/grpc` serves exactly what `grpc_connection.py` asks. Nothing here decides or
retries anything: a part that failed arrives as the error that the server raised.

Small requests to a server that is the whole cluster go by its RESP endpoint, which costs a lone caller a fifth
(`short_way.py`); what is not answered there goes by gRPC.

Reading order: `partition_lists.py`, `definitions.py`, `table_messages.py`, `search_messages.py`, `messages.py`,
`reply_pieces.py`, `resp_place.py`, `resp_line.py`, `short_way.py`, `grpc_connection.py`.
"""
