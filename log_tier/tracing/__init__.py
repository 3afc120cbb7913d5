"""Traces: what one call did on its way through all of Duramen, as spans of one trace. Pure: the seam, and no library.

    caller ──▶ put flights ──▶ ask Write ──▶ KeyValue/Write ──▶ log append ──┬─ log queue
               (the client)    (one gRPC     (the server's       (one for    ├─ log write
                                call)         part of it)         each       └─ log sync
                                                                  caller)  ◀── links ── log commit

A part that does work on behalf of callers asks `TRACED` for them: the spans of the callers whose calls are traced and
are carried out by the present task, nearly always none. Then there is nothing more to do, and the test was the whole
cost: no other call, no allocation. Else the part adds spans of its own below theirs. A call that is not sampled has no
span, so it costs what a call without tracing does.

**Between tasks.** A task inherits `TRACED` from who started it, as all variables of a context. The gatherers
(`router.data.gather`) carry the calls of many callers in one request and set it to the callers of that request. So
it is a tuple: each of them is one caller.

**Between processes.** A call over gRPC (`log_tier.rpc.wire`) carries one W3C `traceparent` in its metadata, and none if
nobody is traced. Its span has the first caller's as its parent, and links to the others.

**One commit, many callers.** The log makes the batches of many callers stable with one sync. A span has one parent, and
a commit has many causes: it is one span with *links* to the appends of all its callers, below the first of them,
and each of these appends links to it. Each append has the times that its caller waited, in the caller's own trace:
queue, write, sync.

**After the reply.** Who follows the log works because of a write, too: replicas apply it, watches deliver it. The log
remembers the callers of its last traced batches, and a read of them says which those are (`ReadChunk.traced`). A
follower in another process gets their `traceparent`. The spans of what it does go below the calls that wrote.

- T1 What a part does for a caller is the same whether the caller is traced or not.
- T2 A span's attributes hold names, numbers and error codes: no key, no value, no message of an error.
- T3 At most `CALLERS_MAX` callers are followed by one batch, request or commit; the others' traces end there.
- T4 A span that has ended takes nothing more, so that a task which outlives its caller adds nothing to its trace.

What is not here: who decides which calls are traced, and where spans go (`duramen.tracing`).

Reading order: `span.py`, `passing.py`, `written.py`, `indexes.py`, `appends.py`, `serving.py`.
"""
