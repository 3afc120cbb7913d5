"""`duramen up --nodes N`: a cluster on one machine, each role in a process of its own.

    supervisor ──▶ log        DIR/log
               ──▶ n1 … nN    DIR/nodes/n1 …     snapshots of all of them: DIR/snapshots
               ──▶ router     on the port of `--port`

What it promises:

- Processes are started in the order in which they need each other, and stopped in the other one.
- A child that dies is started again, on the same folder and the same port, so its clients find it again. Where it
  dies again and again, the pauses grow, and the others go on.
- No child outlives the supervisor, however that ends: the kernel sends each of them SIGTERM then (`parent.py`).
- Children say what they do as JSON lines; the supervisor passes on what other programs have to know: which child runs,
  with which process id, on which port. That is also how tests and `duramen check --kill` find the processes to kill.

It decides nothing about data: which node holds what is in the catalog, and a node that comes back finds its tasks
there. For more than one machine use what already starts processes there: `deploy/` has systemd, compose, Kubernetes.

Reading order: `parent.py`, `stopping.py`, `child.py`, `cluster.py`. A server with reader processes uses the first two
as well.
"""
