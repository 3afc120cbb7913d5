"""The front of the database: what a request means, and the endpoints through which it comes.

`data/local_data.py` is the core. It knows the log and the replicas, and no protocol: a read, a write, a scan, a watch
are values from `data/requests.py`, and their replies too. Whatever can carry those values can be an endpoint;
`endpoints/grpc/` is the one for everything, and the embedded database needs none.

What the data plane promises:

- A write is answered when it is on stable storage, with the offset it got; a conditional write or an update also with
  its verdict, which the replica's fold gave and every other replica's fold gives alike.
- A read names an offset and is never answered from a state before it. `strong` means: from a state that holds
  everything that had been acknowledged, to anybody, when the read arrived.
- Parts of a request fail by themselves, with a typed error that says whether a retry can help.
- Everything has a limit, at the top of the file that enforces it.

How a request passes: an endpoint translates it (`endpoints/grpc/messages.py`), the data plane asks the log (`log_tier`)
or a replica (`serving_tier`), the endpoint translates the reply. Nobody decodes a batch on the way in.

Of several nodes each has a front of its own, over the replicas that it holds. Whoever stands before them all, a
router or a client, knows them by `membership/` (who is there, and how far each replica is) and asks them by `routing/`,
which is a `Connection` like the data plane itself: for an endpoint it makes no difference which of both it serves. What
operators ask and change is `admin/`: it plans, shows, and leaves the work to the nodes.

Reading order: `data/requests.py`, `data/local_data.py`, `data/reply_room.py`, `data/outcomes.py`, `data/merge.py` and
`data/scan.py`, `data/watch.py`,
`data/tables.py`, `data/direct_reads.py` (reads without an endpoint), `endpoints/grpc/`, `membership/`, `routing/`,
`admin/`.
"""
