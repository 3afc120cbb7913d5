"""The slow log of a server: the last calls that took long, and where their time went.

    endpoint: a call took `least_s` or longer ──▶ SlowCallLog ──▶ SlowRing ──▶ slow_document() ──▶ what shows it
                                                    │    ▲                       (pure, by rights)
    LongWork of the data plane and of the log ──────┘    └── time_spent(): which part took how long (pure)

An endpoint (gRPC, the Redis protocol) measures each call with two looks at the clock, and compares; a call below the
threshold costs nothing more, and leaves nothing. The parts of a server measure their requests and commits anyway
(`log_tier.measures`); what took at least a tenth of the threshold they keep as `LongWork`. When a call was slow, the
request that carried it is found there by its kind, its partition and its time. Nothing is handed along with each call.

What holds:

- L1 It is bounded: `CALLS_KEPT_MAX` calls are kept, `NOTED_MAX_PER_S` are looked at in a second, and `LINES_MAX_PER_S`
     are logged. What is over is counted, and costs no more: a disk that stalls makes thousands of calls slow at once.
- L2 It holds no values, and of a key the first `KEY_BYTES_MAX` bytes.
- L3 A user sees the calls on tables that are shown to it, a key where it may read it, and the name and address of a
     caller where it is that caller. Who administers the cluster sees all.
- L4 A part that a call does not have is absent. One that this server cannot know is `null`, and then so is the rest.
- L5 Names come from the catalog. What a caller made up is not shown, for a table that is not there is nobody's.

A stream takes as long as its caller reads it, so its messages are measured: each page of `KV.Scan` and `KV.Find` by the
time in which the server made it, and the first message of a watch, since the others come when somebody writes
(`log_tier.rpc.messages.timed_streams`). Calls of administration, which copy or wait by nature, have a progress of their
own.

A part is found by its time, so of two reads of one partition that began and ended together, one may get the other's
wait; they waited for the same replica.

Reading order: `slow_call.py`, `slow_ring.py`, `time_spent.py`, `call_subject.py`, `slow_document.py`, `slow_lines.py`,
`slow_call_log.py`.
"""
