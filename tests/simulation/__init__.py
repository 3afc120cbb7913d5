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
python -m tests.simulation --pace                     # virtual seconds of a three-node cluster for one of a processor
python -m tests.simulation --search 30                # writes seeds that show them for less into first_seeds.json
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

**A disk that lies.** In a quarter of the runs of the log bits flip at rest, and writes are confirmed and go to another
place, or nowhere. It is known which bytes are wrong, so the log may refuse the batches that were hit, and whatever it
cannot read behind them, with their place; everything else is as it was. The last commit before an unclean end may be
cut (`log_damage.py`). In the end a verification of the log at rest names every file whose batches are damaged, and
after the damage was put right, as from a mirror, every property holds again.

**A kernel.** Where the disk of the world `log` does not lie, it has a kernel (`duramen.testing.machine.kernel_disk`): a
killed process leaves its bytes there, unsynced; a failed sync marks pages clean that the device does not have, and so
may the close of a file that was not synced; in most runs each folder's names are synced by themselves. Half of the
lives of a log meet a fault while they begin. Topics that clients made stay, and those that they deleted stay away.
After a clean close the next start finds nothing to recover.

**Clocks.** In a third of the runs wall clocks are set forward or back, by milliseconds or by days: the log's, or that
of one node. In a third of them clients write keys that expire, and the checker's model judges each of them by the log's
time, wherever it is read.

**A database.** In the world `database` the log carries a whole embedded database: catalog, one node with its hosting,
replicas in LMDB on a folder in memory, data plane, and clients with their gatherers and retries. Their calls end as
lost connections where the server dies. The workload, its history and the checker are those of `duramen check`. The
faults are those of the plan except the full disk; the plan's calls are not used, the workload has its own.

**The Redis protocol.** In the world `resp` the same database has one endpoint, or two as at two routers. Their clients
send pipelines of INCR, APPEND, SETNX, SET, GET, DEL, MGET, MULTI … EXEC, WATCH, DURAMEN.GETV and SETV on shared keys.
The bytes pass a simulated wire: in pieces, late, cut in the middle of a reply; a client may not read for a while. Now
and then a turn of the loop takes longer than a turn may, so that rounds end by their time. `resp_ledger.py` is the
checker, also of versions that one endpoint has given and another one compares. Other clients listen to keyspace
notifications, and `resp_listeners.py` holds what they hear against what was written.

**A cluster.** In the world `cluster` a log server, three nodes, a router and routed clients are processes on one
network. Each has a clock of its own, and a context whose transport (`log_tier.rpc.transport`) is its end of that
network, so the network knows who talks to whom. Calls go through the generated stubs and the servicers, as the bytes
that gRPC would carry; a connection is in order, and two of them overtake each other. The plan's incidents cut links,
both ways or one way, make them late, reset their connections (also by a message, which is lost), pause, kill and stop
processes. In some runs the nodes are uneven: one answers late, the others answer at once from less than the log holds.
The time that clients give a call is drawn too, so that some calls end without a reply. In a third of the runs links
copy requests: some arrive a second time, up to seconds later, at whatever life of the server listens then. What was
refused, even in part, is not copied. A paused process is one that the
network does not reach: its own timers go on. A killed node lets go of its files as a closed one does, but nothing that
it does meanwhile gets out; its indexes are as they were, or are gone. Workload and checker are those of `duramen
check`: every replica is read and held against the log. After the last fault everything must be level within a minute of
virtual time.

**Jobs.** In most runs of a cluster an operator begins jobs meanwhile, at any node: moves, rebalances, restores,
changes of the replicas, snapshots; and makes and drops tables. In some runs the table begins with one replica or two,
so that there is something to move. Incidents of the plan that are aimed wait for a task of a job, and happen at its
node, or at whom it needs, some milliseconds after it began. Which steps of which jobs an incident met is counted
(`job_steps.py`), also of what has no tasks: builds, discards, the retention of the nodes. In the campaign each of them
must have been met.
In the end no task is left over, none was ended by a bug, everybody has the newest map, and the checker reads what the
jobs have made.

**Versions.** In a third of the runs of a cluster a second operator stages empty versions of the table that the clients
use, swaps, rolls back, discards and clears, at any node, while everything else goes on. The checker follows every
version from its base on, by the barriers that it finds in the log. Where the log gets shorter there is such an operator
in most runs, who also builds versions of the table's snapshots, and deletes what was built when no restore needs it any
more. What was built is read, and in the end compared with the log that the snapshots were taken of. In
two thirds of the runs with versions the operator also builds them of other data sets, with the writer of a bulk build:
keys are added, removed and changed, and the checker is given what was built (`cluster_data_sets.py`). Many of
these runs begin with a rehearsal: a build is swapped in, rolled back from, discarded and deleted, the log is trimmed,
and in every second one all indexes are lost.

**Trims.** In a third of the runs of a cluster the log gets shorter: an operator takes snapshots and trims, and gives
the table bounds by age and size, which the nodes keep to in rounds of virtual time. In half of these runs the log is
compacted, too, and somebody watches from the first record who begins late: a watch may lack what a later put or delete
of the same key replaced, and nothing else. The nodes share a snapshot store. What a trim takes is read and kept before
it goes, so the checker folds the log from its first record (`kept_log.py`). When everything is level, every node is
killed and loses its indexes: all that is left are the snapshots and the rest of the log, and from them every replica
must be again what the whole log says. Before that, the operator takes the snapshots that a rollback asks for.

**The past.** In some runs of a cluster an operator notes tokens, and has tables restored as they were then, while
everything else goes on. When everything is level, each of them is compared with a fold of the whole log of its source
up to that offset.

**Users.** In some runs of a cluster it has users: every call of gRPC passes the gate, and the network says which
process calls, as a certificate does. The workload and the operators have all rights. An administrator gives two users
grants on a table, and takes them, at any server, while they call; where the server's own map has not changed meanwhile,
its answer must be as the map says, and a server that answers a change acts by it. When all is level, grants of users
who read and watch at every server are revoked: 100 ms later every server refuses them, and their watches have ended.
Meanwhile users get roles and lose them, at any server, and what a role may do changes; what a user may do by a role
counts as its own grants do (`cluster_roles.py`, `trust_turns.py`). Dave has tokens that expire soon, by clocks that the
plan sets; in the end, watches at every server end with their token by the clock of that server, which was set back or
forward meanwhile (`cluster_expiries.py`).

**Users of the Redis protocol.** Some runs of the world `cluster-resp` have users, too: the clients of the ledger may do
everything, and prove it by `AUTH` or `HELLO … AUTH` on each of their connections. Two others keep a connection open and
send pipelines of alike and of mixed commands, and transactions, on keys with two prefixes, while grants on these
prefixes come and go at any server. Where the server's own map has not changed meanwhile, every command must be served
or refused as the text of the grants says, each for itself, whatever it shares a pipeline with. When all is level, a
grant, a token and a user go under connections that are idle and connections that listen: 100 ms later every server has
ended what listens, and refuses the next command (`cluster_resp_users.py`).

**Passwords.** In half of the runs with users, two users log in by passwords, which an administrator changes, takes
away, or gives again with the user, at any server: by a header of gRPC, and where there are endpoints by `AUTH` and
`HELLO`. The hasher is simulated (`SimulatedHasher`): a login takes its time and no processor. Where the server's map
has not changed meanwhile, a password must be judged as the hash of that map says; somebody who guesses must have to
wait longer after each failure. When all is level, passwords change under open watches and connections: 100 ms later
every server has ended what is open, and takes the new password alone (`cluster_passwords.py`).

**Quotas.** In half of the runs with users, others have quotas of calls and bytes, which an administrator sets, changes
and removes at any server while they call, too fast and often without heeding a refusal; in the world `cluster-resp` by
both protocols at once, of which a server has one count. Every try of every client is noted where it leaves, and every
command of every pipeline. What was sent and heard within some stretch of time was decided in it, so where the server's
own quotas have not changed meanwhile, no more may have been let through than they give; nobody is refused who has none;
who waits as long as it was told is let through (`quota_ledger.py`). Each write has a key of its own: in the end none is
there that a quota has refused. When all is level, quotas are used up over open connections, and removed under them.
Where no user has a quota of calls, watches or connections, a table has one of calls and bytes, which all of its callers
share: they have one account there, and another table has never any (`cluster_table_quotas.py`).

**Places.** In half of the other runs with users of the world `cluster`, quotas bound the watches that two users, and
all users of a table, have open at a server, and their scans by `duramen.v1.KV`. They are set, changed and removed while
watches and scans open and close. A client knows within bounds when a watch had its places, so a refusal must be by a
quota of the server's map, and as many must have been open at some moment between question and answer
(`place_ledger.py`). When all is level, more watches, and then scans, are opened at once than a quota gives, and exactly
as many as it gives are let in: also after some were closed or read to their end, after their connections were reset,
after their table was dropped and made again, and after the quota was removed (`cluster_places.py`). Two others have
quotas of connections of gRPC, each of which is a peer of its own: one counts until half a minute after its last call,
and longer while it watches (`cluster_peers.py`). In the world `cluster-resp` quotas bound the connections of two users
in the same way: they are opened, reset, closed, proved anew and proved to be the other user's
(`cluster_connections.py`).

**Turns.** In the runs with users of the world `cluster-resp`, a user floods a server by the Redis protocol and calls it
by gRPC meanwhile, while its grant comes and goes. Some turns of the loop are long, so hundreds of these calls wait in
the server's line of turns, and many are left there by their client. Each must be served or refused as the grants say,
and in the end nobody waits (`cluster_lines.py`).

**Audit.** In half of the runs with users, nodes and router write their audit. The network says how each call has ended
at its server, whoever hears that. When all is level, the sum of the counts of the audit's rows must be what each server
refused each user, by action; where a server has had another life, no more than that (`refusal_ledger.py`). The table
that these users share is audited: calls that were let in, and streams that have sent something, must be there once, and
commands of the Redis protocol that were refused. Where there are endpoints, the table of their users is audited, too:
each command that has run is there once for each right that it needs, and a transaction as one. What may or may not have
been let in, as its reply is lost or an error, makes the bounds wider (`access_ledger.py`).

**History.** In an eighth of the runs of the world `cluster` nodes and router keep their histories in the table
`_duramen_history`, by steps of a second, through all lives (`cluster_history.py`). Somebody with all rights writes,
deletes, drops and clears there, and is refused. Each row has a number of its own (`history_ledger.py`): in the end what
was acknowledged is there with its bytes, nobody else's is, what a server has seen is written within a bounded time, and
who was started again knew its rows, but where its clock was set.

**Rows.** In a fifth of the runs of the world `cluster` there are tables with a definition, which operators make at
several servers at once, one of them under faults. Callers, some with one client, so that their records leave in one
batch, write rows and what does not fit: no row, a row with another schema's number or of another key, sums and appends,
and groups and batches with one misfit. Operators move, copy and restore these tables. No misfit is acknowledged or
read, or shown by a watch, nobody is refused for another one's, and what was acknowledged is read strongly and by its
token (`row_ledger.py`). Nodes and router have endpoints of
the Redis protocol there: a client writes rows as JSON to the first of the tables, in pipelines and transactions with
one misfit and without, and others write to it as `duramen put` does. Of what they write that does not fit nothing is in
the log, and what fits is there as writers of Avro store it (`json_row_calls.py`). A program with `duramen.v1.KV` alone
writes groups of such rows, of one row to nine, and asks other servers for them by key, by fields and by their token
(`kv_row_calls.py`). When all is level, each replica
holds, and has counted as void, what a fold of its log from the beginning does; then a table is cleared, and judges as
before (`cluster_rows.py`). In a fifth of the runs of the worlds `database` and `resp` there is such a table with the
same callers, through all lives of the database (`database_rows.py`).

**A log that is put back.** In a tenth of the runs a first workload runs without faults, and the log's disk is copied
meanwhile. Everything is stopped, the log gets the copy, the nodes keep their indexes, and other clients write on with
all faults. Of what the first clients wrote, anything may be gone; what is read must be in the log as it is now. Where a
node says that its index is ahead of the log, the operator removes it, as the node asks.

**The Redis protocol at a cluster.** In the world `cluster-resp` the nodes and the router have endpoints, and the
clients are those of the world `resp`: their connections go over the cluster's network, with its cuts, resets and kills.
Jobs, trims and restores go on meanwhile; versions do not, as a swap leaves out what the ledger has seen. In the end the
ledger is held against every endpoint, and replicas at equal offsets are equal. Where logs get shorter, the router is
cut off last, keys are written and the log is trimmed meanwhile: who listens there hears of every key, or is
disconnected (`overtaken_listener.py`).

**Healing.** A cluster of four nodes loses one for good, or for a while, and two routers heal it (`healing.py`): never
two healings at once, never fewer members than a table wants, and all copies are there within two minutes of virtual
time.

**Relief.** In a cluster of four nodes one or two disks fill, a node falls behind, or one is asked for more than the
others, and two routers relieve them (`relieving.py`), while a router is killed, nodes restart or are lost, and an
operator switches it off: one relief at a time and none while others move replicas, nobody is filled or made as hot,
nothing comes back to where it was taken from, but to cool another node, and in the end nobody is full or hot who could
be relieved. Disks and rates are modelled.

**What nobody retrieves.** Garbage is collected at the end of a run and not within it. A task or a future that ends with
an error of which only the loop's exception handler hears breaks the run, in every world.

**The end of a run.** However it ends, also in the middle of a turn, its tasks are cancelled and may close what they
have, timers that wait are dropped, and what is garbage then is collected. So a run leaves no descriptor, no
environment of LMDB, no task and no folder in its process (`test_nothing_left.py`).

**Indexes of a node that dies.** A killed node finds its indexes as they were at that moment, without what a close adds.
Half of the kills are losses of power: an index that was in use then lacks entries, is of another boot, and must not be
believed (`index_crashes.py`).

**The disks of nodes.** In half of the runs of a cluster the nodes' own disks fail: a call for an index folder, a
copy, a snapshot or a fetched version meets EIO, ENOSPC or EACCES, writes short, or finds the disk full for a while;
or the process ends before the call, in half of these cases with its machine (`node_faults.py`). A fault is drawn by
the kind of its call, mostly also by what the file is for: the calls of a node are mostly writes of few files, and a
rename or the sync of a folder meets as many faults as a write. In a third of the runs write transactions of LMDB are
such calls, above all the one that gives a new index its content: what a death leaves before it looks whole. Which
call on what was met is counted, and which step of which job. No disk of a node damages anything, so no task of a job
may end with a damaged index or snapshot.

**What it does not do yet.** LMDB is real, and a commit of it is one step: an index is never found in the middle of one.
In the worlds of one database an index is closed cleanly, or gone. A commit of the log is one step of the simulated
thread: a reader never runs between its write and its sync. The disk of a node does not fail for reads, nor within a
commit of LMDB, and loses nothing that was not synced.

**Reading order**: the simulated machine is `duramen.testing.machine`. Here: `node_faults.py`, `plan.py`,
`planned_machine.py`, `book.py`, `topic_book.py`, `clean_close.py`, `log_damage.py`, `log_world.py`, `row_ledger.py`,
`database_world.py`, `reconnecting.py`, `row_calls.py`, `json_row_calls.py`, `kv_row_calls.py`, `row_checks.py`,
`past_checks.py`, `past_scans.py`, `database_rows.py`,
`judging.py`, `api_traffic.py`, `resp_ledger.py`, `resp_listeners.py`, `resp_traffic.py`, `kept_log.py`,
`index_crashes.py`, `quota_ledger.py`, `place_ledger.py`, `access_ledger.py`, `refusal_ledger.py`, `history_ledger.py`,
`asked_snapshots.py`, `cluster_world.py`, `cluster_turns.py`, `cluster_jobs.py`, `job_steps.py`, `cluster_trims.py`,
`cluster_data_sets.py`, `cluster_builds.py`, `cluster_versions.py`, `cluster_past.py`, `cluster_tallies.py`,
`cluster_put_back.py`, `trust_turns.py`, `cluster_callers.py`, `cluster_expiries.py`, `cluster_roles.py`,
`metered_calls.py`, `cluster_quotas.py`, `cluster_table_quotas.py`, `place_quotas.py`, `cluster_places.py`,
`cluster_peers.py`, `cluster_connections.py`, `cluster_lines.py`, `cluster_passwords.py`, `cluster_audit.py`,
`cluster_history.py`, `cluster_json_rows.py`, `cluster_rows.py`, `cluster_users.py`, `cluster_incidents.py`,
`cluster_traffic.py`, `cluster_resp_users.py`, `overtaken_listener.py`, `cluster_resp.py`, `planted.py`,
`planted_syncs.py`, `planted_views.py`, `planted_clocks.py`, `planted_damage.py`, `planted_database.py`,
`planted_resp.py`, `planted_cluster.py`, `planted_versions.py`, `planted_trims.py`, `planted_data_sets.py`,
`planted_index.py`, `planted_node_disk.py`, `planted_users.py`, `planted_cluster_resp.py`, `planted_resp_users.py`,
`planted_quotas.py`, `planted_table_quotas.py`, `planted_places.py`, `planted_turns.py`, `planted_passwords.py`,
`planted_audit.py`, `planted_history.py`, `planted_rows.py`, `planted_json_rows.py`, `healing.py`, `planted_healing.py`,
`relieving.py`, `planted_relief.py`, `worlds.py`, `run.py`, `first_seeds.py`, `seed_search.py`, `elsewhere.py`,
`page.py`, `pace.py`, `__main__.py`.
"""
