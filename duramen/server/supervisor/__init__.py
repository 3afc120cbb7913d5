"""`duramen up --nodes N`: a cluster on one machine, each role in a process of its own.

    supervisor ──▶ fork server ──▶ log        DIR/log
                               ──▶ n1 … nN    DIR/nodes/n1 …     snapshots of all of them: DIR/snapshots
                               ──▶ router     on the port of `--port`

What it promises:

- Processes are started in the order in which they need each other, and stopped in the other one.
- A child that dies is started again, on the same folder and the same port, so its clients find it again. Where it
  dies again and again, the pauses grow, and the others go on.
- Children are forks of one process that has imported what they need (`duramen.cli.servers.fork_server`): a cluster
  starts, and a child is back, in a fraction of the time, and they share that memory. Where that process dies, its
  children end, and all of them are started again.
- No child outlives the supervisor, however that ends: the kernel sends each of them SIGTERM then (`parent.py`).
- Children say what they do as JSON lines; the supervisor passes on what other programs have to know: which child runs,
  with which process id, on which port. That is also how tests and `duramen check --kill` find the processes to kill.

It decides nothing about data: which node holds what is in the catalog, and a node that comes back finds its tasks
there. For more than one machine use what already starts processes there: `deploy/` has systemd, compose, Kubernetes.

Reading order: `parent.py`, `fork_wire.py`, `forked.py`, `stopping.py`, `child.py`, `cluster.py`. A server with reader
processes uses the first and `stopping.py` as well.
"""
