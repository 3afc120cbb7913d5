"""The client: one implementation of sessions, retries, scans and watches, over any `Connection`.

`database.py` and `table.py` are what users call (as `duramen.aio`, or through the blocking API in `duramen.blocking`).
Below them:

- `context.py` is what all tables of one client share: connection, gatherers, session, the time of a call. `lookup.py`
  finds the table behind a name. Everything above holds these two and nothing of each other.
- `model/session.py` remembers what was seen, so that every read names the offsets it must contain.
- The data plane's gatherers (`router/data/gather`) let concurrent calls leave together. A caller who is alone is not
  delayed: the first call leaves at the end of the event loop's current round, and what comes while it is under way
  leaves when it is back. Each call ends at its own deadline, whatever it left together with.
- `model/call_records.py` turns arguments into records, `atomic.py` joins records that take effect together,
  `table_writer.py` is a stream of puts that survives its own interruption, `scan.py` and `watch.py` are what their
  names say.
- `transport/connect.py` finds the shortest way from an address to the data: one server, or the nodes and the log
  themselves.
- `rows/` makes keys and values of Python's types, for `row_table.py` and `typed_table.py`, which say what theirs are.
  `row_writes.py` are their batches and streams. A client of bytes imports none of these.
- `transport/observer.py` is the seam at which a test sees every call.
- `observed_table.py` is a table whose calls are operations of OpenTelemetry (`traces=True`); without, nothing has it.
  `observed_writer.py` is its writer.
- `model/consistency.py` says what a read must have seen, `key_reads.py` reads one key, as it is or as it was, `past/`
  has scans and comparisons of the past, `many_keys.py` cuts many keys into what a request carries,
  `transport/retry.py` asks again where that is harmless.

Invariants:

- A write is sent again only with the same bytes, under the same producer id and sequence, so it takes effect at most
  once; a partition has one batch of this client under way at a time, so order is kept.
- A call ends in a result, in a typed error that says nothing was done, or in `WriteUnknown`; never in silence, and
  never later than its timeout.
- The connection behind it may be gRPC or a data plane in the same process: nothing here knows which.

What is not here: choosing among replicas (`router.routing` does that, also in this process), and caching of values.

Reading order, which is also the layers from below: `model/`, `transport/`, `past/`, `context.py`,
`lookup.py`, then `atomic.py`, `key_reads.py`, `many_keys.py`, `scan.py`, `watch.py`, `table_writer.py`, and `table.py`,
`observed_writer.py`, `observed_table.py`, `row_writes.py`, `row_table.py`, `typed_table.py`, `database.py`. `rows/`
comes after `model/`.
"""
