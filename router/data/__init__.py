"""The data plane of one process: what a read, a write, a scan and a watch mean, in words that belong to no protocol.

`requests.py` has the values and the `Connection` protocol. `local_data.py` implements it over a log and the replicas of
this process; `router/routing` implements it over many nodes; `router/endpoints/grpc` over a wire. Endpoints serve
whichever of them they were given.

What holds:

- A write is answered when it is on stable storage, with its offset; a conditional write also with its verdict.
- A read names the offset that its answer must contain. It waits, and past its deadline says both offsets.
- Parts of a request fail by themselves. Nobody decodes a batch on the way in.

Reading order: `requests.py`, `reply_room.py`, `outcomes.py`, `merge.py`, `scan.py`, `watch.py`, `tables.py`,
`local_data.py`, `direct_reads.py` (embedded reads in the caller's thread), `in_time.py`, `gather/` (calls of concurrent
callers leave together; the client and the endpoints share it).
"""
