"""The catalog: what the cluster is, folded from a log of its own.

Tables, nodes, who holds which partition, the jobs under way, the snapshots known: all of it is the state of one
partition, topic `_duramen_catalog`. A process that wants a change appends a **command**; a deterministic **fold** makes
the immutable `ClusterMap` of it, whose version is the catalog's offset. There is no coordinator and no election: the
order of the log decides who was first, and a command that came too late is refused by the fold, the same way
everywhere. That is compare-and-set without a consensus service, in the way a state machine is replicated by a log
(Schneider, 1990).

What holds:

- C1 Two followers at one version hold equal maps: the fold sees the commands and their order, no clock, no randomness.
- C2 A command takes effect whole or not at all; what it contradicts is named in the rejection, which the fold remembers
  under the command's id, so that its sender learns it and a command that was sent twice takes effect once.
- C3 A partition is never left without a replica that can be read, where it had one: a move takes its source away only
  after its target was ready, and a removal that would take the last one is rejected.
- C4 One job at a time changes a partition's replicas.
- C5 A snapshot covers the log below it if it is of the live version and holds the last barrier (`ClusterMap.covering`).
     It names the job of the last barrier that it holds, and the table names the job of the last swap, rollback or
     clearing that is done; they must be the same. A record of before these fields names no barrier: of a table that was
     ever swapped, its snapshot covers nothing. While a job puts barriers into the log, no snapshot covers.

**Jobs.** A long operation (a move, a snapshot, a restore, a trim) is a *job*: a state in the map, made of *tasks*. Each
task names the node that does the work; the node sees it in the map, works, and reports with a command. Nothing
orchestrates, so nothing that orchestrates can die: a node that comes back finds its tasks where they were.

    task            waiting ──▶ (moves only: ready) ──▶ done
                       │   └──────────────▶ failed: its job can be resumed, with other nodes
                       └─ the job was aborted: what the task had begun is undone

    replica         joining ──▶ member ──▶ leaving ──▶ (gone)

    job             running ──▶ done | failed | aborted;  failed and running ──resume──▶ running

How a command passes: `Catalog.submit` appends it, waits until its own fold has passed that offset, and looks at what
the fold said. If the log's reply is lost, `submit` appends the same command again under the same id.

What is not here: whether a node is alive, how far its replicas have come, how busy it is. That changes every
millisecond, and the nodes report it themselves (`serving_tier.service`). The map says what *should* be.

Reading order: `decisions.py`, `jobs.py`, `cluster_map.py`, `actions.py`, `commands.py`,
`placement.py`, `version_fold.py`, `definition_fold.py`, `job_fold.py`, `catalog_fold.py`, `map_json.py`, `catalog.py`,
`map_follower.py`, `service.py`, `remote/` (the map from a server).
"""
