"""Jobs at work: how a node does the tasks that the catalog's map gives it.

A job is a state in the catalog (`log_tier.catalog`), made of tasks that name a node each. This package is that node's
side: it looks for tasks of its own in every new map, does them, and reports with a command. Nothing else drives a job,
so whatever dies, the job is where it was, and goes on when its worker is back, or when `resume` gives it to another.

What holds:

- J1 A task may be begun any number of times: every action is idempotent, or begins again from nothing.
- J2 A task that the map no longer asks for (aborted, given to another node, table dropped) is cancelled, and what it
     had made on this node and nobody refers to is removed.
- J3 A task is reported as done only when its effect would survive this process: the snapshot is stored and verified,
     the replica follows the log, the records are in the log.
- J4 The log is trimmed and compacted only below a verified snapshot (I11), and that is checked here again, when the
     work is done, whatever the plan said.

How a task passes: `worker.py` finds it, runs its action from `actions.py` under a limit of how many run at once, tries
again where a retry can help, and submits `TaskReady`, `TaskDone` or `TaskFailed`.

What is not here: which tasks a job needs. That is planned by the router (`router.admin`), purely, and shown to the
operator before it begins.

Reading order: `wanted_tasks.py`, `worker.py`, `log_end.py`, `actions.py`, `bootstrapping.py`, `snapshotting.py`,
`schedule.py`, `point_in_time.py`, `swapping.py`, `altering.py`, `indexing.py`, `trim_limit.py`, `log_trimmer.py`.
"""
