"""Gathering: calls of concurrent callers leave together, as one batch per partition or as one read request.

The Python client, the KV service and the RESP endpoint share this package. A caller who is alone is not delayed: calls
gather only while a request is under way. Each batch carries its gatherer's producer id and a sequence that rises with
every record of that partition. A batch that got no answer is sent again **with the same bytes**; if the first copy had
arrived, the second one is void.

    WriteCoalescer ─┐ futures, deadlines                      BatchRounds   which batches leave, and when      (pure)
                    ├──▶ WriteGatherer: tasks, timers ──────▶ BatchProgress what an answer means for a batch   (pure)
    SharedWriter ───┘ callbacks (router/endpoints/resp/data)       │
                                                                   ▼
                                                              Connection.write, .outcomes

What holds for writes:

- W1 A partition's batches are sent in the order of their sequences, the next only when the fate of the one before is
     known or given up. So what one caller wrote in an order is in the log in that order.
- W2 A batch that was given up (its callers got `WriteUnknown`) is never sent again. A late copy of it that arrives
     after its successors is void.
- W3 A batch that is sent again is answered by its verdict, whatever the first try had come to: a caller who is given an
     offset is given the one of the copy that counts, which is the key's version (decision 23). Only callers who need no
     offset, but stable storage alone, are answered before.
- W4 Every call ends: with its offset, with an error that says that nothing was written, or with `WriteUnknown`. A batch
     whose callers have been answered that nothing was written never leaves: who comes later begins another one.

A batch that must be sent again, because its server is away or its queue full, waits for that outside of the requests
under way, and holds up nobody but its own partition. A batch that is in the log, but whose verdicts no replica has
reported yet, holds up nobody at all: the gatherer asks for its verdicts separately from the requests under way.

What differs between the users is in two places: `Rules` (how long calls gather, when verdicts come with the write), and
`Callers` (who waits for a batch and how each is answered).

Not here: who may wait how much (endpoints bound their own callers), and how a request finds its node (the connection).

Reading order: `seen_offsets.py`, `acknowledged.py`, `own_offsets.py`, `violations.py`, `pending_calls.py`,
`columns_builder.py`, `batch_progress.py`, `rounds.py`, `batch_builder.py`, `write_gatherer.py`, `write_coalescer.py`,
`read_rounds.py`, `read_coalescer.py`.
"""
