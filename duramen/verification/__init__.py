"""`duramen check`: does this deployment keep its promises? Asked with real work, answered from the offsets.

Clients write and read at the same time, each with a session of its own, and every call is recorded with its reply: a
**history**. Afterwards the log is read from beginning to end. It is the truth: what every key was at every offset
follows from it, by a small model that shares no code with the index. Then each reply is held against that truth.

A checker for a database without offsets has to *search* for an order of all calls that explains the replies, which
takes time exponential in the calls under way at once (Gibbons and Korach, 1997). Here the order is given: a write's
reply names its offset, a read's reply names the offset whose state it shows. So each reply is right or wrong by itself,
and a history of any length is decided in one pass.

What is decided, by invariant (`docs/RELIABILITY.md` and the names in `checker.py`):

    I1  an acknowledged write is in the log at its offset, with its bytes
    I2  what is in the log was written by a call, once; what failed for sure is not there
    I3  the bytes at an offset are the same for every reader at every time
    I4  every replica's content at an offset is the model's
    I5  no read is older than its token, its session, or (strong) what had been acknowledged before it began
    I6  verdicts and results are those of the log's order
    I7  a watch shows every change once, in order, from where it began

Where the log's own address is known (`--log`), it is read there too, without a server between, and what the servers
gave of it has to be the same.

`chaos.py` kills and pauses processes meanwhile; a caller that runs more processes than Duramen's own, the brokers of a
Kafka log for instance, gives it faults for those too. `history.py` writes the history as JSON lines, so that somebody
who does not trust this checker can use another one.

What is not here: performance, and what an invariant does not promise (that a call succeeds while a process is paused:
its failure is recorded, and must only be honest).

Reading order: `history.py`, `model.py`, `checker.py`, `recorder.py`, `workload.py`, `watcher.py`, `cluster.py`,
`chaos.py`, `observations.py`, `replicas.py`, `run.py`, `scratch_log.py`.
"""
