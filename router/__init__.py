"""Serving requests: the data plane, routing over many nodes, the endpoints, administration.

`data/` is the data plane. `data/local_data.py` knows the log and the replicas of one process, and no protocol: a read,
a write, a scan, a watch are values of `data/requests.py`, and their replies too. `remote/` is the same contract over
gRPC, `routing/` the same contract over many nodes. Whatever carries those values can be an endpoint: `endpoints/grpc`
serves everything, `endpoints/resp` the Redis protocol, and the embedded database needs none.

What the data plane promises:

- A write is answered when it is on stable storage, with the offset it got; a conditional write or an update also with
  its verdict, which the replica's fold gave and every other replica's fold gives alike.
- A read names an offset and is never answered from a state before it. `strong` means: from a state that holds
  everything that had been acknowledged, to any client, when the read arrived.
- Parts of a request fail by themselves, with a typed error that says whether a retry can help.
- Everything has a limit, at the top of the file that enforces it.

How a request passes: an endpoint translates it (`remote/messages.py`), the data plane asks the log (`log_tier`) or a
replica (`serving_tier`), the endpoint translates the reply. No layer decodes a batch on the way in.

Of several nodes each has a data plane of its own, over the replicas that it holds. A router, or a client, knows all
of them through `membership/` (who is there, and how far each replica is) and asks them through `routing/`. An endpoint
does not notice which of the two it serves. `admin/` answers an operator's questions, plans changes and shows the plans;
the nodes do the work.

Reading order: `data/` (one process), `remote/`, `membership/` and `routing/` (many nodes), `endpoints/` (protocols),
`admin/`.
"""
