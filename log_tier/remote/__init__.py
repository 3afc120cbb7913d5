"""The log over gRPC, and how errors cross a wire.

`service.py` puts any `Log` behind the service `duramen.v1.Log`; `remote_log.py` is a `Log` again, so that a caller with
`grpc://host:port` in place of `file:///data` needs no other code. An append carries a finished batch and a read streams
the stored bytes as they are: nobody between the producer and the reader decodes or encodes a record.

`log_tier/rpc/problems.py` turns errors into messages and back; `log_tier/rpc/status_codes.py` is the one table that
knows gRPC's status codes. The other endpoints of the database use both. `log_tier/rpc/wire.py` is a channel and what
its failures mean; `log_tier/rpc/open_streams.py` ends open streams when a server stops.

What the client promises beyond the service: an append whose reply was lost raises `WriteUnknown` and is not repeated
here. A caller may repeat it with the same bytes, whose producer id and sequence make the second copy void. A following
read that loses its connection goes on from where it was, for as long as its reader waits. It says which batches were
written by calls that are traced (`traced_writes.py`).

What is not here: batching of appends (the engine's group commit does that, for all connections together), and
authentication.
"""
