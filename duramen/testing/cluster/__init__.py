"""A whole cluster in one test: a log server, nodes, a router, and the test's own programs, on one simulated network.

Every process is the real code, from the log's bytes to the client's retries; what is simulated is the machine under it
(`duramen.testing.machine`). A test connects with `duramen.aio`, as its program does, and says what fails.

    log ── n1, n2, n3 ── router          the cluster's processes, each with its end of the network
              │
    client, and what `start` has begun   the test itself, and programs that can be cut off and killed

Invariants:

- C1 A process that is killed stays down until `start`; nothing that it does after the kill gets out.
- C2 What the log has acknowledged survives every fault that this package makes.
- C3 A fault that names a process which is not there is refused, and so is a fault that could not be met: a kill of what
     is down, a start of what runs.
- C4 Leaving the block ends every process, also where the test has failed.

What is not here: the Redis protocol (its clients have real sockets: `duramen.testing.Server`), snapshots on a schedule,
and the loss of the log's disk.

`await cluster.check()` judges every reply (`duramen.testing.recording`).

Reading order: `simulated_hasher.py`, `guarded.py`, `lives.py` (what a process opens), `cluster_processes.py`,
`faults.py`, `levelling.py`, `program.py`, `cluster.py`.
"""
