"""Simulation: log and database on one thread, under one seed, with a disk that fails and a clock that jumps.

```
python -m tests.simulation --seeds 500 --jobs 2       # exit 1 where a property does not hold
python -m tests.simulation --seed 81733 --story       # one run again, event by event
python -m tests.simulation --seed 81733 --shrink      # the same, with as few faults and calls as still break it
python -m tests.simulation --world database --seeds 50   # a whole database in place of the log alone
python -m tests.simulation --world resp --seeds 50    # the same, written and read by clients of the Redis protocol
python -m tests.simulation --world cluster --seeds 50 # a log server, three nodes, a router and clients
python -m tests.simulation --world cluster-resp --seeds 50    # the same cluster, and clients of the Redis protocol
python -m tests.simulation --planted                  # after how many seeds each planted bug is found
```

**What runs.** The embedded log is the real code, all of it: commit by the writer's thread and by the caller, journal,
recovery, trimming, compaction, topics, readers. In place of the machine it gets four things, each through a seam of
the product: a disk in memory (`EngineSettings` and `Disk`), threads that take turns on the event loop's thread
(`log_tier.concurrency.workers`), clocks (`log_tier.concurrency.clocks`), and an event loop whose time jumps to the next
timer.

**A run.** A seed draws a plan: the sizes of segments, journal and caches, which kinds of calls and faults there are,
when six clients call what, and which faults strike after how many changes of the disk. The plan is data, so a shrinker
can take parts of it away. The log lives as long as the plan lets it; an operator starts it again after a death or a
failed sync, on what the disk kept. Before each life goes on, and at the end after one more kill and one more loss of
power, the whole log is read and held against what was sent, answered and shown (`book.py`, which lists the
properties).

**Faults.** Loss of power in the middle of any change of the disk: any subset of the sectors that were not synced stays,
and names as a prefix of their changes. A kill there. A sync, or any other change, that fails once. A full disk for a
while. Threads that wake late.

**A database.** In the world `database` the log carries a whole embedded database: catalog, one node with its hosting,
replicas in LMDB on a folder in memory, data plane, and clients with their gatherers and retries. Their calls end as
lost connections where the server dies. The workload, its history and the checker are those of `duramen check`. The
faults are those of the plan except the full disk; the plan's calls are not used, the workload has its own.

**The Redis protocol.** In the world `resp` the same database has one endpoint, or two as at two routers. Their clients
send pipelines of INCR, APPEND, SETNX, SET, GET, DEL, MGET, MULTI … EXEC and WATCH on shared keys. The bytes pass a
simulated wire: in pieces, late, cut in the middle of a reply; a client may not read for a while. Now and then a turn of
the loop takes longer than a turn may, so that rounds end by their time. `resp_ledger.py` is the checker. Other clients
listen to keyspace notifications, and `resp_listeners.py` holds what they hear against what was written.

**A cluster.** In the world `cluster` a log server, three nodes, a router and routed clients are processes on one
network. Each has a context of its own whose transport (`log_tier.rpc.transport`) is its end of that network, so the
network knows who talks to whom. Calls go through the generated stubs and the servicers, as the bytes that gRPC would
carry; a connection is in order, and two of them overtake each other. The plan's incidents cut links, both ways or one
way, make them late, reset their connections (also by a message, which is lost), pause, kill and stop processes. In some
runs the nodes are uneven: one answers late, the others answer at once from less than the log holds. The time that
clients give a call is drawn too, so that some calls end without a reply. A
paused process is one that the network does not reach: its own timers go on. A killed node lets go of its files as a
closed one does, but nothing that it does meanwhile gets out; its indexes are there again or are gone. Workload and
checker are those of `duramen check`: every replica is read and held against the log. After the last fault everything
must be level within a minute of virtual time.

**Jobs.** In most runs of a cluster an operator begins jobs meanwhile, at any node: moves, rebalances, restores,
changes of the replicas, snapshots; and makes and drops tables. In some runs the table begins with one replica or two,
so that there is something to move. Incidents of the plan that are aimed wait for a task of a job, and happen at its
node, or at whom it needs, some milliseconds after it began. Which steps of which jobs an incident met is counted; in
the campaign each hundred seeds must meet the adding, moving, rebuilding, snapshot, staging and swapping of a replica.
In the end no task is left over, none was ended by a bug, everybody has the newest map, and the checker reads what the
jobs have made.

**Versions.** In a third of the runs of a cluster a second operator stages empty versions of the table that the clients
use, swaps, rolls back, discards and clears, at any node, while everything else goes on. The checker follows every
version from its base on, by the barriers that it finds in the log. Where the log gets shorter there is such an operator
in most runs, who also builds versions of the table's snapshots, and deletes what was built when no restore needs it any
more. The checker takes a build for what the table holds, so one that was overtaken by a swap is not swapped in. Many of
these runs begin with a rehearsal: a build is swapped in, rolled back from, discarded and deleted, the log is trimmed,
and in every second one all indexes are lost.

**Trims.** In a third of the runs of a cluster the log gets shorter: an operator takes snapshots and trims, and gives
the table bounds by age and size, which the nodes keep to in rounds of virtual time. In half of these runs the log is
compacted, too, and nobody watches. The nodes share a snapshot store. What a trim takes is read and kept before it
goes, so the checker folds the log from its first record (`kept_log.py`). When everything is level, every node is
killed and loses its indexes: all that is left are the snapshots and the rest of the log, and from them every replica
must be again what the whole log says. Before that, the operator takes the snapshots that a rollback asks for.

**The past.** In some runs of a cluster an operator notes tokens, and has tables restored as they were then, while
everything else goes on. When everything is level, each of them is compared with a fold of the whole log of its source
up to that offset.

**A log that is put back.** In a tenth of the runs a first workload runs without faults, and the log's disk is copied
meanwhile. Everything is stopped, the log gets the copy, the nodes keep their indexes, and other clients write on with
all faults. Of what the first clients wrote, anything may be gone; what is read must be in the log as it is now. Where a
node says that its index is ahead of the log, the operator removes it, as the node asks.

**The Redis protocol at a cluster.** In the world `cluster-resp` the nodes and the router have endpoints, and the
clients are those of the world `resp`: their connections go over the cluster's network, with its cuts, resets and
kills. Jobs, trims and restores go on meanwhile; versions do not, as a swap leaves out what the ledger has seen. In
the end the ledger is held against every endpoint, and replicas at equal offsets are equal.

**What nobody retrieves.** Garbage is collected at the end of a run and not within it. A task or a future that ends with
an error of which only the loop's exception handler hears breaks the run, in every world.

**What it does not do yet.** A watch of a log that is compacted is not judged, and a version never holds anything else
than the table. LMDB is real and has no crash points: an index is closed cleanly, and in half of the restarts it is
gone. The disk does not flip bits or misdirect writes (`tests/log_tier/embedded/recovery` does), and a commit is one
step of the simulated thread: a reader never runs between its write and its sync.

**Reading order**: `plan.py`, `story.py`, `simulated_loop.py`, `simulated_clock.py`, `simulated_disk.py`, `book.py`,
`log_world.py`, `simulated_machine.py`, `simulated_network.py`, `simulated_wire.py`, `seeded.py`, `database_world.py`,
`judging.py`, `api_traffic.py`, `resp_ledger.py`, `resp_listeners.py`, `resp_traffic.py`, `simulated_grpc.py`,
`simulated_process.py`,
`kept_log.py`, `cluster_world.py`, `cluster_turns.py`, `cluster_jobs.py`, `cluster_trims.py`, `cluster_builds.py`,
`cluster_versions.py`, `cluster_past.py`, `cluster_put_back.py`, `cluster_incidents.py`, `cluster_traffic.py`,
`cluster_resp.py`, `planted.py`, `planted_database.py`, `planted_resp.py`, `planted_cluster.py`,
`planted_versions.py`, `planted_trims.py`, `planted_cluster_resp.py`, `worlds.py`, `run.py`, `__main__.py`.
"""
