"""The gRPC endpoint: the services of `duramen.v1` over a data plane, local or routed.

`services.py` takes a request apart with `router/remote/messages.py`, asks the data plane it was given, and puts the
reply together. It gives requests no meaning: `router.data.local_data` defines what a read is, and `router.routing` does
for many nodes.

A call that fails as a whole ends with a gRPC status and a `Problem` in its trailing metadata; a part that fails has a
`Problem` in its place in the reply. Both become the same typed errors on the other side. Other languages read the
`google.rpc.Status` that comes with it.

What grows with a request (its keys, records, parts, entries) is worked on in a thread, or some in each turn of the
event loop, so that no turn is long (`log_tier/concurrency/sized_work.py`). gRPC's own work on a message, from bytes and
to bytes, is on the loop.

`kv/` is a second service on the same data plane, for programs in any language: tables by name, one key a call.
`pages/` is a third one, for the console's pages: values and records that are cut.

Reading order: `services.py`, `kv/`, `pages/`, `access_rules.py`.
"""
