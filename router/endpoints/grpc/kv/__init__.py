"""`duramen.v1.KV`: the key-value service for programs in any language.

The batched service `KeyValue` speaks of table ids, partitions and encoded batches, and wants a client that knows them.
This one speaks of names, keys and values, one operation a call. It is a translation and no second data plane: what a
call means is decided below it, as for every other endpoint.

    request ──▶ records.py    the record that a write is       ──▶ Plane.writes      one batch per partition for all
            ──▶ forms.py      keys and values that are text     (texts.py: to what is stored and back)
            ──▶ finds.py      rows by their fields              (a plan, then pages as of a scan)
            ──▶ freshness.py  what a read must have applied    ──▶ Plane.reads       one request for all
            ──▶ past.py       the state that a read names      (also of a scan)
                                                               ──▶ Plane.connection  scans, watches, tables

Promises:

- K1 `version` is what the next `if_version` takes: of a write that was repeated after a lost reply it is the first
     copy's, of an absent or deleted key -1.
- K2 A reply's token names what the reply showed or wrote and everything that the request's `after` named. The server
     keeps nothing of a caller: the session lives in the tokens.
- K3 A condition is decided by the log's order. Two callers that arrive together share a batch, and one of them wins.
- K4 Every server takes every call; `Plane.connection` finds the nodes.
- K5 An invalid request ends with INVALID_ARGUMENT before it joins a batch: no other caller's write fails by it.
- K6 A call with KV_FORM_JSON does what the same call does with keys and values as they are stored. Where a row is of a
     schema that this server has not heard of, or none fits, the catalog's end decides: no reply depends on which
     server has heard of a change.

Writes and reads gather in the data plane's gatherers (`router/data/gather`), the same ones that the Python client has.
There is no gatherer here.

Not here: creating tables (`duramen.v1.Tables`), and the session of a client that keeps one (`duramen.client`).

Reading order: `plane.py`, `records.py`, `freshness.py`, `results.py`, `texts.py`, `forms.py`, `reads.py`, `past.py`,
`scans.py`, `finds.py`, `watches.py`, `service.py`. The
reference of every field is `protos/duramen/v1/kv.proto`.
"""
